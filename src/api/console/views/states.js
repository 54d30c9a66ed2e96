// Runs of states over all minions: what changed, what failed, and what took long.

import * as api from '../api.js';
import { app, jidTime, load } from '../state.js';
import { choice, element, empty, field, fill, table } from '../dom.js';
import { changesOf, milliseconds, outcome, statesOf, tally, tallyText } from '../highstate.js';
import { byId } from '../value.js';
import { newest } from './jobs.js';
import { t } from '../texts.js';

export { isOffered } from './jobs.js';

const OF_STATES = /^state\.(apply|sls|sls_id|highstate|single|high|top|low|template|template_str)$/;
/** Most states in a table, and most minions of a state whose changes are shown. */
const MOST = 100;
const TABS = ['failed', 'changes', 'slow', 'minions'];

export function show(place, [jid], query) {
  const out = element('div');
  const runs = element('div');
  fill(place, runs, out);
  load(runs, newest(2000), (jobs) => {
    const kept = jobs.filter((job) => OF_STATES.test(job.fun));
    if (!kept.length) return empty(t('states.empty'), t('states.empty.advice'));
    const known = kept.some((job) => job.JID === jid);
    const options = kept.slice(0, 300).map((job) => [job.JID, `${jidTime(job.JID)}  ${job.fun} ${job.args}  ${job.target}`]);
    if (!jid) showRun(out, kept[0].JID, query);
    const chosen = jid && !known ? [[jid, `${jidTime(jid)}`], ...options] : options;
    return field(t('states.run'), choice(chosen, jid ?? kept[0].JID, { onchange: (event) => app.go(`#/states/${event.target.value}`) }));
  });
  if (jid) showRun(out, jid, query);
}

function showRun(out, jid, query) {
  load(out, api.runner('jobs.list_job', [], { jid }), (job) => {
    const minions = Object.entries(job.Result ?? {}).map(([id, result]) => ({ id, states: statesOf(result.return), result }));
    const read = minions.filter(({ states }) => states);
    const other = minions.filter(({ states }) => !states);
    if (!read.length) return empty(t('states.none'), t('states.none.advice'));
    const states = group(read);
    const place = element('div');
    const tabs = element('div', { class: 'filters', role: 'group', 'aria-label': t('filter') });
    const counts = {
      failed: states.filter((one) => one.failed.length).length + other.length, changes: states.filter((one) => one.changed.length).length,
      slow: states.length, minions: minions.length,
    };
    const draw = (name) => {
      fill(tabs, TABS.map((tab) => element('button', { type: 'button', class: 'chip', 'data-tab': tab, 'aria-pressed': String(tab === name), onclick: () => {
        draw(tab);
        tabs.querySelector(`[data-tab=${tab}]`).focus();
      } }, `${t(`states.${tab}`)} ${counts[tab]}`)));
      fill(place, parts[name](states, minions, other));
    };
    const asked = query.get('tab');
    draw(TABS.includes(asked) ? asked : counts.failed ? 'failed' : 'changes');
    const all = tally(read.flatMap((one) => one.states));
    return [
      element('p', { class: `summary ${all.failed || other.length ? 'bad' : ''}`, role: 'status' }, t('states.summary', { minions: minions.length }), ' · ', tallyText(all)),
      element('p', {}, element('a', { href: `#/job/${jid}` }, t('states.job'))), tabs, place,
    ];
  });
}

/** States of the same id and function, over all minions. */
function group(minions) {
  const found = new Map();
  for (const { id: minion, states } of minions) {
    for (const state of states) {
      const key = `${state.sls} ${state.id} ${state.fun}`;
      const one = found.get(key) ?? { id: state.id, fun: state.fun, sls: state.sls, failed: [], changed: [], fine: [], times: [] };
      one[state.outcome === 'failed' ? 'failed' : state.hasChanges ? 'changed' : 'fine'].push({ minion, state });
      one.times.push(state.duration);
      found.set(key, one);
    }
  }
  for (const one of found.values()) for (const list of [one.failed, one.changed]) list.sort((a, b) => byId(a.minion, b.minion));
  return [...found.values()].map((one) => ({ ...one, longest: Math.max(...one.times), sum: one.times.reduce((a, b) => a + b, 0) }));
}

const title = (one) => [element('span', { class: 'id' }, one.id), ' ', element('span', { class: 'dim' }, [one.fun, one.sls].filter(Boolean).join(' · '))];

const parts = {
  failed(states, _minions, other) {
    const bad = states.filter((one) => one.failed.length).sort((a, b) => b.failed.length - a.failed.length);
    if (!bad.length && !other.length) return empty(t('states.fine'), '');
    return [
      other.map(({ id, result }) => element('article', { class: 'card failed' }, element('h2', {}, outcome('failed'), ' ', element('span', { class: 'id' }, id)),
        element('pre', { class: 'comment' }, [result.return].flat().map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n')))),
      bad.slice(0, MOST).map((one) => element('article', { class: 'card failed' },
        element('h2', {}, outcome('failed'), ' ', title(one)),
        element('dl', { class: 'prints' }, one.failed.slice(0, MOST).map(({ minion, state }) => [
          element('dt', {}, element('a', { href: `#/minion/${encodeURIComponent(minion)}` }, minion)), element('dd', {}, element('pre', { class: 'comment' }, state.comment || '–')),
        ])))),
    ];
  },
  changes(states) {
    const some = states.filter((one) => one.changed.length).sort((a, b) => b.changed.length - a.changed.length);
    if (!some.length) return empty(t('states.same'), t('states.same.advice'));
    return some.slice(0, MOST).map((one) => element('article', { class: 'card' },
      element('h2', {}, outcome('changed'), ' ', title(one)),
      one.changed.slice(0, MOST).map(({ minion, state }, at) => element('details', { open: at < 3 },
        element('summary', {}, element('span', { class: 'id' }, minion)), changesOf(state))),
      one.changed.length > MOST ? element('p', {}, t('target.more', { count: one.changed.length - MOST })) : null));
  },
  slow(states) {
    const sorted = [...states].sort((a, b) => b.longest - a.longest).slice(0, MOST);
    return table(t('states.slow'), [t('state.name'), t('states.longest'), t('states.mean'), t('states.sum'), t('minions')],
      sorted.map((one) => [title(one), milliseconds(one.longest), milliseconds(one.sum / one.times.length), milliseconds(one.sum), one.times.length]), 'figures-table');
  },
  minions(_states, minions) {
    const rank = (one) => (one.states ? -tally(one.states).failed : -Infinity);
    const sorted = [...minions].sort((a, b) => rank(a) - rank(b) || byId(a.id, b.id));
    return table(t('states.minions'), [t('minion'), t('result'), t('states.sum')], sorted.slice(0, 1000).map(({ id, states }) => [
      element('a', { href: `#/minion/${encodeURIComponent(id)}` }, id),
      states ? [outcome(tally(states).failed ? 'failed' : tally(states).changed ? 'changed' : 'ok'), ' ', element('span', { class: 'dim' }, tallyText(tally(states)))] : outcome('failed'),
      states ? milliseconds(states.reduce((sum, state) => sum + state.duration, 0)) : '–',
    ]));
  },
};
