// What all views share: the session, what it may do, and how something is said to the user.

import { button, element, fill, freshId } from './dom.js';
import { t } from './texts.js';

/** `session`, `permissions`, `say(text)` for readers of screens, `go(hash)`. */
export const app = { session: null, permissions: null, say: () => {}, go: () => {} };

/** A sentence about what went wrong. */
export function problem(error, advice = '') {
  const status = error?.status;
  let text = error?.message || String(error);
  let then = advice;
  if (status === 0) [text, then] = [t('error.away'), t('error.away.advice')];
  else if (status === 401) [text, then] = [t('error.refused', { why: text }), t('error.refused.advice')];
  else if (status === 503 || status === 504) then ||= t('error.busy.advice');
  return element('div', { class: 'problem', role: 'alert' }, element('p', {}, element('strong', {}, text)), then ? element('p', {}, then) : null);
}

/** Fills a place with what a promise brings, with a word before it and a sentence if it fails. */
export async function load(place, promise, show) {
  place.classList.add('stack');
  place.setAttribute('aria-busy', 'true');
  if (!place.hasChildNodes()) fill(place, element('p', { class: 'wait' }, t('wait')));
  try {
    const value = await promise;
    fill(place, show(value));
  } catch (error) {
    fill(place, problem(error));
  } finally {
    place.removeAttribute('aria-busy');
  }
}

/** Asks before something happens; whether it may. */
export function ask(title, body, act, kind = 'main') {
  const name = freshId('dialog');
  return new Promise((answer) => {
    const close = (yes) => {
      dialog.close();
      dialog.remove();
      answer(yes);
    };
    const dialog = element('dialog', { 'aria-labelledby': name, oncancel: () => close(false) },
      element('h2', { id: name }, title),
      element('div', { class: 'body' }, body),
      element('div', { class: 'buttons' }, button(t('cancel'), () => close(false)), button(act, () => close(true), kind)));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** The time of day, to say how fresh something is. */
export const clock = () => new Date().toLocaleTimeString(document.documentElement.lang, { hourCycle: 'h23' });

/** A date with its time. */
export const moment = (date) => new Date(date).toLocaleString(document.documentElement.lang, { dateStyle: 'medium', timeStyle: 'short', hourCycle: 'h23' });

/** The moment that a jid names, as the master's clock had it. */
export function jidTime(jid) {
  const found = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)/.exec(jid);
  return found ? `${found[1]}-${found[2]}-${found[3]} ${found[4]}:${found[5]}:${found[6]}` : jid;
}

/** The hash of a view with a query. */
export function link(view, query = {}) {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `#/${view}${text ? `?${text}` : ''}`;
}
