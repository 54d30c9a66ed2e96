// Two jobs side by side: which minions answered otherwise, and in what.

import * as api from '../api.js';
import { jidTime, load } from '../state.js';
import { element, empty } from '../dom.js';
import { compare } from '../diff.js';
import { commandLine } from '../functions.js';
import { statesOf } from '../highstate.js';
import { byId, difference, plain } from '../value.js';
import { t } from '../texts.js';

export { isOffered } from './jobs.js';

/** Most minions whose differences are shown. */
const MOST = 200;
/** Unchanged lines around a change. */
const AROUND = 3;

/** What counts in a result: without times of states, which differ in each run. */
function essence(result) {
  if (!result) return null;
  const states = statesOf(result.return);
  const value = states
    ? Object.fromEntries(states.map(({ id, fun, outcome, comment, changes }) => [`${id} (${fun})`, { result: outcome, comment, changes }]))
    : result.return;
  const code = result.retcode ? `\n${t('result.code', { code: result.retcode })}` : '';
  return plain(value) + code;
}

/** Without the long stretches that are the same. */
function shortened(pairs) {
  const near = new Set();
  pairs.forEach(([sign], at) => {
    if (sign !== ' ') for (let i = at - AROUND; i <= at + AROUND; i += 1) near.add(i);
  });
  const out = [];
  pairs.forEach((pair, at) => {
    if (near.has(at)) out.push(pair);
    else if (near.has(at - 1)) out.push(['@', '…']);
  });
  return out;
}

/** Ids may be names that every object has. */
const own = (map, id) => (Object.hasOwn(map ?? {}, id) ? map[id] : undefined);

export function show(place, [first, second], _query, setTitle) {
  setTitle(t('compare'));
  const get = (jid) => api.runner('jobs.list_job', [], { jid });
  load(place, Promise.all([get(first), get(second)]), (jobs) => {
    const [a, b] = jobs;
    const ids = [...new Set([a, b].flatMap((job) => [...(job.Minions ?? []), ...Object.keys(job.Result ?? {})]))].sort(byId);
    const compared = ids.map((id) => ({ id, before: essence(own(a.Result, id)), after: essence(own(b.Result, id)) }));
    const other = compared.filter(({ before, after }) => before !== after);
    const name = (job) => `${[job.Function].flat().join(', ')} ${commandLine(job.Arguments)}`;
    return [
      element('dl', { class: 'facts' }, jobs.map((job, at) => element('div', {},
        element('dt', {}, at ? t('compare.after') : t('compare.before')),
        element('dd', {}, element('a', { href: `#/job/${job.jid}` }, jidTime(job.jid)), ' ', element('code', {}, name(job)))))),
      element('p', { class: 'summary', role: 'status' }, t('compare.summary', { other: other.length, same: compared.length - other.length })),
      other.length ? null : empty(t('compare.same'), ''),
      other.slice(0, MOST).map(({ id, before, after }) => element('article', { class: 'card' },
        element('h2', { class: 'id' }, id),
        before === null || after === null ? element('p', { class: 'dim' }, t(before === null ? 'compare.only.after' : 'compare.only.before')) : null,
        difference(shortened(compare(before ?? '', after ?? '')), t('changes.of', { id })))),
      other.length > MOST ? element('p', {}, t('target.more', { count: other.length - MOST })) : null,
    ];
  });
}
