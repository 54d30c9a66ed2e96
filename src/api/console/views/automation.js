// What the master does by itself: reactions to events, its schedule, and its queues.

import * as api from '../api.js';
import { app, load } from '../state.js';
import { element, empty, fill, table } from '../dom.js';
import { nested } from '../value.js';
import { t } from '../texts.js';

const SECTIONS = [['reactor.list', reactor], ['config.get', schedule], ['queue.list_queues', queues]];

export const isOffered = (permissions) => SECTIONS.some(([fun]) => permissions.runner(fun));

export function show(place) {
  fill(place, SECTIONS.filter(([fun]) => app.permissions.runner(fun)).map(([, section]) => section()));
}

function section(title, promise, draw) {
  const out = element('div');
  load(out, promise, draw);
  return element('section', {}, element('h2', {}, title), out);
}

function reactor() {
  const asked = Promise.all([api.runner('reactor.list'), app.permissions.runner('reactor.is_leader') ? api.runner('reactor.is_leader') : true]);
  return section(t('reactor'), asked.catch((error) => {
    // Without reactions, nobody answers.
    if (error.status === 200 || error.status === 504) return [[], true];
    throw error;
  }), ([list, isOn]) => {
    const rows = [list].flat().flatMap((one) => Object.entries(one ?? {}));
    if (!rows.length) return empty(t('reactor.empty'), t('reactor.empty.advice'));
    return [
      isOn === false ? element('p', { class: 'note' }, t('reactor.off')) : null,
      table(t('reactor.list'), [t('events.tag'), t('reactor.files')], rows.map(([tag, files]) => [element('code', {}, tag), [files].flat().map((file) => element('div', {}, element('code', {}, typeof file === 'string' ? file : JSON.stringify(file))))])),
    ];
  });
}

const TIMES = ['seconds', 'minutes', 'hours', 'days', 'cron', 'when', 'once'];

function schedule() {
  return section(t('schedule'), api.runner('config.get', ['schedule']), (found) => {
    const jobs = found && typeof found === 'object' ? Object.entries(found).filter(([, job]) => job && typeof job === 'object') : [];
    if (!jobs.length) return empty(t('schedule.empty'), t('schedule.empty.advice'));
    return table(t('schedule.list'), [t('schedule.name'), t('function'), t('schedule.when'), t('run.args')], jobs.map(([name, job]) => [
      name, element('code', {}, job.function ?? ''),
      TIMES.filter((key) => key in job).map((key) => `${key}: ${typeof job[key] === 'object' ? JSON.stringify(job[key]) : job[key]}`).join(', ') + (job.enabled === false ? ` (${t('schedule.off')})` : ''),
      element('code', {}, JSON.stringify(job.args ?? job.kwargs ?? [])),
    ]));
  });
}

function queues() {
  return section(t('queues'), api.runner('queue.list_queues'), (names) => {
    if (!Array.isArray(names) || !names.length) return empty(t('queues.empty'), t('queues.empty.advice'));
    return names.map((name) => {
      const out = element('div');
      return element('details', { ontoggle: (event) => {
        if (event.target.open) load(out, api.runner('queue.list_items', [name]), (items) => (items.length ? nested(items, name) : element('p', { class: 'dim' }, t('queues.none'))));
      } }, element('summary', {}, element('span', { class: 'id' }, name)), out);
    });
  });
}
