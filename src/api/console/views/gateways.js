// What is reached through gateways: sysinspect nodes, collectives, and ARENA runtimes with their modules.

import * as api from '../api.js';
import { app, load, moment } from '../state.js';
import { element, empty, fill, table } from '../dom.js';
import { TEXTS, t } from '../texts.js';

export const isOffered = (permissions) => permissions.runner('fleet.status');

const NAMES = ['sysinspect', 'collective', 'arena'];

export function show(place) {
  const out = element('div');
  fill(place, out);
  load(out, api.runner('fleet.status'), (status) => {
    const running = NAMES.filter((name) => status.gateways?.[name]);
    if (!running.length) return empty(t('gateways.empty'), t('gateways.empty.advice'));
    return running.map((name) => {
      const more = element('div');
      const figures = Object.entries(status.gateways[name]);
      if (name === 'arena') arena(more);
      else nodes(more, name);
      return element('section', { class: 'stack' }, element('h2', {}, t(`gateway.${name}`)),
        element('dl', { class: 'figures' }, figures.map(([key, value]) => element('div', {}, element('dt', {}, known(`gateway.figure.${key}`, key)), element('dd', {}, figure(key, value))))), more);
    });
  });
}

/** A number, or those of several states that are not 0. */
function figure(key, value) {
  if (key === 'up') return t(value ? 'gateway.up' : 'gateway.down');
  if (typeof value !== 'object') return String(value);
  return Object.entries(value).filter(([, count]) => count).map(([state, count]) => `${count} ${known(`arena.is.${state}`, state)}`).join(', ') || '0';
}

/** What a gateway says, in the reader's language; as it says it if it is new. */
const known = (key, fallback) => (key in TEXTS ? t(key) : fallback);

/** A state, and a sign if it is none of those to be wished for. */
function stateOf(one) {
  const text = known(`arena.is.${one.state}`, one.state ?? '');
  return one.state === 'dead' || one.state === 'killed' ? element('span', { class: 'bad' }, '▲ ', text) : text;
}

const minionLink = (id) => element('a', { href: `#/minion/${encodeURIComponent(id)}` }, id);

function nodes(place, name) {
  if (!app.permissions.runner('fleet.match') || !app.permissions.runner('manage.present')) return;
  load(place, Promise.all([api.matching(`gateway:${name}`, 'grain'), api.runner('manage.present')]), ([ids, present]) => {
    if (!ids.length) return empty(t('gateways.nodes.empty'), t('gateways.nodes.advice'));
    const here = new Set(present);
    return [
      element('p', {}, element('a', { href: `#/fleet?tgt=${encodeURIComponent(`gateway:${name}`)}&tgt_type=grain` }, t('gateways.all', { count: ids.length }))),
      table(t('gateways.nodes'), [t('minion'), t('state')], ids.slice(0, 200).map((id) => [
        minionLink(id), here.has(id) ? `● ${t('fleet.is')}` : `○ ${t('fleet.is.not')}`])),
    ];
  });
}

function arena(place) {
  const [runtimes, modules] = [element('div'), element('div')];
  fill(place, runtimes, modules);
  if (app.permissions.runner('arena.runtimes')) {
    load(runtimes, api.runner('arena.runtimes'), (found) => {
      const all = Object.entries(found ?? {}).sort(([a], [b]) => a.localeCompare(b));
      if (!all.length) return empty(t('arena.runtimes.empty'), '');
      return table(t('arena.runtimes'), [t('minion'), t('arena.state'), t('arena.modules'), t('arena.kind'), t('arena.apis')], all.map(([id, one]) => [
        minionLink(id), stateOf(one), `${one.modules ?? 0} / ${one.max_nmodules ?? '–'}`, one.runtime_type ?? '', [one.apis].flat().join(', ')]));
    });
  }
  if (app.permissions.runner('arena.modules')) {
    load(modules, api.runner('arena.modules', [], { all: true }), (found) => {
      if (!found?.length) return empty(t('arena.modules.empty'), '');
      const sorted = [...found].sort((a, b) => (b.created ?? 0) - (a.created ?? 0));
      return table(t('arena.modules'), [t('schedule.name'), t('arena.state'), t('arena.file'), t('minion'), t('arena.created')], sorted.slice(0, 500).map((one) => [
        element('span', { title: one.uuid }, one.name ?? one.uuid ?? ''), stateOf(one), element('code', {}, one.file ?? ''), one.id ? minionLink(one.id) : '',
        one.created ? moment(one.created * 1000) : '']));
    });
  }
}
