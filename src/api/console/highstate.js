// Returns of states: what each state did, as the command line tells it.

import { element, text } from './dom.js';
import { difference, nested } from './value.js';
import { t } from './texts.js';

/** The states of a return in the order in which they ran; `null` if the value is none of states. */
export function statesOf(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return null;
  const entries = Object.entries(value);
  if (!entries.length || !entries.every(([tag, state]) => tag.split('_|-').length === 4 && state && typeof state === 'object')) return null;
  return entries.map(([tag, state]) => {
    const [module, id, name, fun] = tag.split('_|-');
    const hasChanges = state.changes !== null && typeof state.changes === 'object' && Object.keys(state.changes).length > 0;
    const outcome = state.result === false ? 'failed' : state.result === null ? 'would' : hasChanges ? 'changed' : 'ok';
    return {
      tag, id: text(state.__id__ ?? id), name: text(state.name ?? name), fun: `${module}.${fun}`, sls: text(state.__sls__ ?? ''), outcome, hasChanges,
      comment: typeof state.comment === 'string' ? state.comment : state.comment ? JSON.stringify(state.comment) : '', changes: state.changes !== null && typeof state.changes === 'object' ? state.changes : {},
      duration: Number.parseFloat(text(state.duration)) || 0, at: text(state.start_time ?? ''), number: Number(text(state.__run_num__ ?? 0)) || 0,
    };
  }).sort((a, b) => a.number - b.number);
}

const SIGNS = { failed: '✘', changed: '↻', would: '◌', ok: '✔' };

/** A sign and a word for an outcome: colour is never all there is. */
export function outcome(name) {
  return element('span', { class: `outcome ${name}` }, element('span', { 'aria-hidden': 'true' }, `${SIGNS[name]} `), t(`state.${name}`));
}

export function milliseconds(number) {
  return number >= 1000 ? `${(number / 1000).toFixed(number >= 10_000 ? 0 : 1)} s` : `${number < 10 ? number.toFixed(1) : Math.round(number)} ms`;
}

/** Changes of a state: a difference of texts as such, pairs of old and new as lines, anything else as a value. */
export function changesOf(state) {
  const label = t('changes.of', { id: state.id });
  const { diff, ...rest } = state.changes;
  const parts = [];
  if (typeof diff === 'string') {
    parts.push(difference(diff.split('\n').map((line) => {
      const sign = /^[-+@]/.test(line) && !/^(---|\+\+\+)/.test(line) ? line[0] : ' ';
      return [sign, sign === ' ' ? line : line.slice(1)];
    }), label));
  }
  const isPair = ([, value]) => value !== null && typeof value === 'object' && 'old' in value && 'new' in value;
  const pairs = Object.entries(rest).filter(isPair);
  if (pairs.length) {
    parts.push(difference(pairs.flatMap(([name, { old, new: now }]) => [
      [' ', `${name}:`], ...textLines('-', old), ...textLines('+', now)]), label));
  }
  const others = Object.fromEntries(Object.entries(rest).filter((pair) => !isPair(pair)));
  if (Object.keys(others).length) parts.push(nested(others, label));
  return parts;
}

function textLines(sign, value) {
  if (value === '' || value === null) return [];
  return (typeof value === 'object' ? JSON.stringify(value) : String(value)).split('\n').map((line) => [sign, line]);
}

/** How many states there are of each outcome. */
export function tally(states) {
  const counts = { failed: 0, changed: 0, would: 0, ok: 0 };
  states.forEach((state) => { counts[state.outcome] += 1; });
  return counts;
}

/** The same in words. */
export function tallyText(counts) {
  return Object.entries(counts).filter(([, count]) => count).map(([name, count]) => `${count} ${t(`state.${name}`)}`).join(', ');
}

/** All states of one minion: failures first, then changes, then what was right already, each in the order in which they ran. */
export function highstate(states) {
  const order = ['failed', 'changed', 'would', 'ok'];
  const sorted = order.flatMap((name) => states.filter((state) => state.outcome === name));
  const total = states.reduce((sum, state) => sum + state.duration, 0);
  return element('div', { class: 'highstate' },
    element('p', { class: 'tally' }, `${tallyText(tally(states))} · ${milliseconds(total)}`),
    sorted.map((state) => element('details', { open: state.outcome === 'failed' || state.outcome === 'changed' },
      element('summary', {}, outcome(state.outcome), ' ', element('span', { class: 'id' }, state.id), ' ', element('span', { class: 'dim' }, `${state.fun} · ${milliseconds(state.duration)}`)),
      state.name !== state.id ? element('p', { class: 'dim' }, state.name) : null,
      state.comment ? element('pre', { class: 'comment' }, state.comment) : null,
      state.hasChanges ? changesOf(state) : null)));
}
