// Jobs that have been: to look at, to compare two of them, to repeat one.

import * as api from '../api.js';
import { app, clock, jidTime, load, problem } from '../state.js';
import { button, element, empty, fill, later, table } from '../dom.js';
import { commandLine } from '../functions.js';
import { List } from '../list.js';
import { t } from '../texts.js';

export const isOffered = (permissions) => permissions.runner('jobs.list_jobs_filter') && permissions.runner('jobs.list_job');

const targetText = (target) => (Array.isArray(target) ? target.join(', ') : String(target ?? ''));
/** Calls of the master itself, and questions that the console and other tools ask all the time. */
const isAside = (job) => /^(runner|wheel)\.|^saltutil\.(find_job|running)$|^sys\.doc$/.test(String(job.Function));

/** The newest jobs, newest first, each with what is searched in. */
export async function newest(count) {
  const jobs = await api.runner('jobs.list_jobs_filter', [], { count });
  return jobs.reverse().map((job) => {
    const target = targetText(job.Target);
    const args = commandLine(job.Arguments);
    const fun = [job.Function].flat().join(', ');
    return { ...job, fun, args, target, text: `${fun} ${args} ${target} ${job.User} ${job.JID}`.toLowerCase() };
  });
}

export function show(place, _parts, query) {
  let jobs = [];
  let count = 500;
  const error = element('div');
  const fresh = element('span', { class: 'hint' });
  const said = element('p', { class: 'hint', role: 'status' });
  const search = element('input', { type: 'search', 'aria-label': t('jobs.search'), placeholder: t('jobs.search'), value: query.get('search') ?? '', autocomplete: 'off', spellcheck: 'false', oninput: later(() => draw(), 150) });
  const all = element('input', { type: 'checkbox', id: 'all-jobs', onchange: () => draw() });
  const nobody = element('div');
  const two = button(t('jobs.compare'), () => {
    const [a, b] = [...list.selected].sort();
    app.go(`#/compare/${a}/${b}`);
  }, 'main');
  const more = button(t('jobs.more'), () => {
    count *= 4;
    refresh();
  });
  const list = new List({
    label: t('nav.jobs'), key: (row) => row.JID, narrow: 4,
    columns: [
      { title: t('jobs.time'), kind: 'mono', width: '13.5rem', cell: (row) => [element('span', { class: 'box', 'aria-hidden': 'true' }), jidTime(row.JID)] },
      { title: t('function'), kind: 'id', width: 'minmax(7rem, 1.5fr)', cell: (row) => element('a', { href: `#/job/${row.JID}`, tabindex: '-1' }, row.fun) },
      { title: t('run.args'), kind: 'wide mono', width: '2fr', cell: (row) => row.args },
      { title: t('target'), kind: 'wide', width: '1.5fr', cell: (row) => row.target },
      { title: t('jobs.user'), kind: 'wide', width: '1fr', cell: (row) => row.User },
    ],
    onOpen: (row) => app.go(`#/job/${row.JID}`),
    onSelect: () => showActs(),
  });

  const active = element('div');
  const askActive = button(t('jobs.active'), () => load(active, api.runner('jobs.active'), (found) => {
    const all = Object.entries(found ?? {});
    if (!all.length) return empty(t('jobs.active.none'), t('jobs.active.advice'));
    return table(t('jobs.active.table'), [t('jobs.time'), t('function'), t('jobs.active.on'), t('jobs.user')], all.map(([jid, job]) => {
      const ids = job.Running.flatMap((one) => Object.keys(one));
      return [
        element('a', { href: `#/job/${jid}` }, jidTime(jid)), element('code', {}, `${[job.Function].flat().join(', ')} ${commandLine(job.Arguments)}`),
        `${ids.length}: ${ids.slice(0, 5).join(', ')}${ids.length > 5 ? ', …' : ''}`, job.User ?? '',
      ];
    }));
  }));

  function showActs() {
    two.disabled = list.selected.size !== 2;
    fill(said, list.selected.size === 2 ? t('jobs.two') : t('jobs.choose', { count: list.selected.size }));
  }

  function draw() {
    const text = search.value.trim().toLowerCase();
    const rows = jobs.filter((job) => (all.checked || !isAside(job)) && job.text.includes(text));
    list.element.hidden = !rows.length;
    fill(nobody, rows.length ? null : empty(t('jobs.empty'), t('jobs.empty.advice')));
    more.hidden = jobs.length < count;
    list.show(rows);
    showActs();
  }

  async function refresh() {
    list.element.setAttribute('aria-busy', 'true');
    try {
      jobs = await newest(count);
      fill(error);
      fill(fresh, t('fresh', { time: clock() }));
      draw();
    } catch (e) {
      fill(error, problem(e));
    } finally {
      list.element.removeAttribute('aria-busy');
    }
  }

  fill(place, element('div', { class: 'row' }, search, element('div', { class: 'check' }, all, element('label', { for: 'all-jobs' }, t('jobs.all')))),
    element('div', { class: 'row spread' }, said, element('div', { class: 'buttons' }, fresh, button(t('refresh'), refresh), app.permissions.runner('jobs.active') ? askActive : null, two)),
    error, active, list.element, nobody, more);
  refresh();
}
