// One job: who was meant, what each minion answered; followed live while answers are missing.

import * as api from '../api.js';
import { app, jidTime, link, load } from '../state.js';
import { element } from '../dom.js';
import { commandLine } from '../functions.js';
import { Job } from '../live.js';
import { Results } from '../results.js';
import { statesOf } from '../highstate.js';
import { t } from '../texts.js';

export const isOffered = (permissions) => permissions.runner('jobs.list_job');

/** Seconds after which nobody waits for answers any longer. */
const LONG = 3600;

export function show(place, [jid], _query, setTitle) {
  let live = null;
  setTitle(t('job'), ' ', jid ?? '');
  load(place, api.runner('jobs.list_job', [], { jid }), (job) => {
    if (job.Error) return element('div', { class: 'empty' }, element('p', { class: 'title' }, t('job.unknown')), element('p', {}, t('job.unknown.advice')));
    const fun = [job.Function].flat().join(', ');
    const isOfMaster = /^(runner|wheel)\./.test(fun);
    const minions = job.Minions ?? Object.keys(job.Result ?? {});
    const given = Object.entries(job.Result ?? {}).map(([id, result]) => ({ id, ...result }));
    const lacks = minions.filter((id) => !Object.hasOwn(job.Result ?? {}, id));
    const isYoung = Date.now() / 1000 - since(jid) < LONG;
    const hasStates = given.some((result) => statesOf(result.return));
    const facts = [
      [t('function'), element('code', {}, `${fun} ${commandLine(job.Arguments)}`.trim())], [t('target'), `${[job.Target].flat().join(', ')} (${job['Target-type']})`],
      [t('jobs.user'), job.User], [t('jobs.time'), jidTime(jid)],
    ];
    const head = [
      element('dl', { class: 'facts call-facts' }, facts.map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, value)))),
      element('p', { class: 'buttons' },
        !isOfMaster && app.permissions.mayRun(fun) ? element('a', { class: 'button main', href: link('run', { job: jid }) }, t('job.repeat')) : null,
        hasStates ? element('a', { class: 'button', href: `#/states/${jid}` }, t('nav.states')) : null,
        element('a', { class: 'button', href: '#/jobs' }, t('back'))),
    ];
    if (lacks.length && isYoung && !isOfMaster && app.permissions.mayRun(fun)) {
      live = new Job(jid, fun, minions);
      given.forEach((result) => live.results.add(result));
      return [head, live.element];
    }
    const results = new Results(minions);
    given.forEach((result) => results.add(result));
    results.end(isOfMaster ? [] : lacks.map((id) => ({ id, missing: true })));
    return [head, results.element];
  });
  return () => live?.leave();
}

/** The second that a jid names, taken as UTC. */
function since(jid) {
  return Date.parse(`${jidTime(jid).replace(' ', 'T')}Z`) / 1000;
}
