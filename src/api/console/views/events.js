// The bus of events, live.

import * as api from '../api.js';
import { app } from '../state.js';
import { button, element, field, fill, later } from '../dom.js';
import { List } from '../list.js';
import { brief, nested } from '../value.js';
import { t } from '../texts.js';

export const isOffered = (permissions) => permissions.mayListen();

/** The most events that are kept. */
const MOST = 2000;

export function show(place, _parts, query) {
  let events = [];
  let number = 0;
  let isPaused = false;
  let missed = 0;
  let close = () => {};
  let due = 0;
  const tag = element('input', { type: 'text', value: query.get('tag') ?? '*', list: 'tags', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false' });
  const tags = element('datalist', { id: 'tags' }, ['*', 'salt/job/*', 'salt/job/*/ret/*', 'salt/minion/*/start', 'salt/auth', 'salt/key', 'salt/beacon/*', 'salt/run/*', 'salt/presence/*', 'arena/*'].map((value) => element('option', { value })));
  const search = element('input', { type: 'search', autocomplete: 'off', spellcheck: 'false', oninput: later(() => draw(), 150) });
  const state = element('p', { class: 'hint', role: 'status' });
  const none = element('div', { class: 'empty' }, element('p', {}, t('events.none')));
  const detail = element('div', { class: 'detail' }, element('p', { class: 'hint' }, t('events.choose')));
  const list = new List({
    label: t('nav.events'), key: (row) => row.number, most: '50vh', narrow: 4,
    columns: [
      { title: t('events.time'), kind: 'mono', width: '6.5rem', cell: (row) => row.time },
      { title: t('events.tag'), kind: 'mono id', width: 'minmax(10rem, 2fr)', cell: (row) => row.tag },
      { title: t('events.data'), kind: 'wide mono', width: '3fr', cell: (row) => brief(row.text, 200) },
    ],
    onOpen: (row) => {
      fill(detail, element('h2', { class: 'id' }, row.tag), nested(row.data, t('events.data')), button(t('close'), () => {
        fill(detail);
        list.element.focus();
      }, 'quiet'));
    },
  });

  function draw() {
    due = 0;
    const text = search.value.trim().toLowerCase();
    none.hidden = events.length > 0;
    detail.hidden = !events.length;
    list.element.hidden = !events.length;
    list.show(text ? events.filter((event) => `${event.tag} ${event.text}`.toLowerCase().includes(text)) : events);
  }

  function say(name) {
    const pause = isPaused ? ` ${t('events.paused', { count: missed })}` : '';
    fill(state, t(`events.${name}`) + pause);
    state.dataset.state = name;
  }

  function hear(event) {
    if (isPaused) {
      missed += 1;
      say('open');
      return;
    }
    number += 1;
    const stamp = String(event.data?._stamp ?? '');
    const { _stamp, ...data } = event.data ?? {};
    events.unshift({ number, tag: event.tag, data, text: JSON.stringify(data), time: stamp.slice(11, 19) });
    if (events.length > MOST) events.length = MOST;
    // A busy bus must not keep the browser from answering its user.
    due ||= setTimeout(draw, 150);
  }

  function listen() {
    close();
    events = [];
    draw();
    say('waiting');
    close = api.events(tag.value.trim(), hear, say);
  }

  const pause = button(t('events.pause'), () => {
    isPaused = !isPaused;
    missed = 0;
    fill(pause, t(isPaused ? 'events.go' : 'events.pause'));
    say('open');
    app.say(t(isPaused ? 'events.is.paused' : 'events.open'));
  });
  const form = element('form', { class: 'row', onsubmit: (event) => {
    event.preventDefault();
    listen();
  } }, field(t('events.filter'), tag), tags, field(t('events.search'), search),
  element('div', { class: 'buttons' }, element('button', { type: 'submit', class: 'main' }, t('events.follow')), pause, button(t('events.clear'), () => {
    events = [];
    draw();
  }, 'quiet')));
  fill(place, form, state, none, list.element, detail);
  listen();
  return () => {
    clearTimeout(due);
    close();
  };
}
