// The master itself: queues, losses, restarts of its processes, and its cluster.

import * as api from '../api.js';
import { app, clock, load, moment } from '../state.js';
import { button, element, fill, table } from '../dom.js';
import { t } from '../texts.js';

export const isOffered = (permissions) => permissions.runner('fleet.status');

export function show(place) {
  const out = element('div');
  const fresh = element('span', { class: 'hint' });
  const refresh = () => load(out, api.runner('fleet.status'), (status) => {
    fill(fresh, t('fresh', { time: clock() }));
    return draw(status);
  });
  fill(place, element('div', { class: 'row spread' }, fresh, button(t('refresh'), refresh)), out);
  refresh();
}

/** Pairs of a map as a table; a number above nothing in a table of losses is worth a look. */
function pairs(title, map, isLoss = false) {
  const rows = Object.entries(map ?? {});
  if (!rows.length) return null;
  return table(title, [t('master.what'), t('master.count')], rows.map(([name, value]) => {
    const isBad = isLoss && Number(value) > 0;
    return [name.replaceAll('_', ' '), element('span', { class: isBad ? 'bad' : null }, isBad ? '▲ ' : '', String(value))];
  }), 'figures-table');
}

function draw(status) {
  if (!status.master?.running) return element('p', { class: 'problem' }, status.master?.reason ?? '');
  const lost = Object.values(status.dropped ?? {}).some((count) => count > 0);
  const restarted = Object.keys(status.restarts ?? {}).length > 0;
  const figure = (name, value) => element('div', {}, element('dt', {}, name), element('dd', {}, value));
  const [members, warning] = [element('div'), element('p', { class: 'summary bad', hidden: true }, t('master.cluster'))];
  if (Object.keys(status.cluster ?? {}).length) showCluster(members, warning);
  return [
    element('p', { class: `summary ${lost || restarted ? 'bad' : ''}` }, t(lost ? 'master.lost' : restarted ? 'master.restarted' : 'master.fine')),
    warning,
    element('dl', { class: 'figures' },
      figure(t('fleet.version'), status.master.version), figure(t('master.since'), moment(status.master.since)),
      figure(t('fleet.connected'), status.minions?.connected ?? 0), figure(t('master.silent'), status.minions?.silent ?? 0),
      figure(t('master.workers'), Object.entries(status.workers ?? {}).map(([name, count]) => `${count} ${name}`).join(', ')),
      figure(t('master.oldest'), `${status.oldest_request ?? 0} s`), figure(t('master.waiting'), status.jobs_waiting ?? 0)),
    element('div', { class: 'tables' }, pairs(t('master.queues'), status.queues), pairs(t('master.dropped'), status.dropped, true), pairs(t('master.restarts'), status.restarts, true),
      pairs(t('fleet.versions'), status.versions), pairs(t('nav.keys'), status.keys)),
    element('h2', {}, t('cluster')),
    Object.keys(status.cluster ?? {}).length ? [pairs(t('cluster.this'), status.cluster), members] : element('p', { class: 'dim' }, t('cluster.none')),
    element('p', { class: 'hint' }, t('master.metrics')),
  ];
}

/** `warning` is shown if a master is not up. */
function showCluster(place, warning) {
  if (!app.permissions.runner('cluster.members')) return;
  load(place, api.runner('cluster.members'), (members) => {
    const all = Object.entries(members ?? {}).sort(([a], [b]) => a.localeCompare(b));
    const isBad = (one) => one?.state !== undefined && one.state !== 'up';
    warning.hidden = !all.some(([, one]) => isBad(one));
    const columns = [...new Set(all.flatMap(([, one]) => Object.keys(one ?? {})))];
    return table(t('cluster.members'), [t('cluster.master'), ...columns.map((name) => name.replaceAll('_', ' '))], all.map(([name, one]) => [name, ...columns.map((column) => (column === 'state' && isBad(one) ? element('span', { class: 'bad' }, '▲ ', one.state) : one?.[column] === undefined ? '' : typeof one[column] === 'object' ? JSON.stringify(one[column]) : String(one[column])))]));
  });
}
