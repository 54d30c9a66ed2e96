// The fleet: every minion with an accepted key, whether it is connected, and the grains of those that can be seen.

import * as api from '../api.js';
import { app, clock, link, moment, problem } from '../state.js';
import { button, choice, element, field, fill, later } from '../dom.js';
import { List } from '../list.js';
import { Target } from '../target.js';
import { onForget, remember } from '../functions.js';
import { t } from '../texts.js';

export const isOffered = (permissions) => permissions.runner('fleet.match') && permissions.runner('manage.present');

/** Grains of minions, kept while the page is open: 10 000 of them would be too much to ask for at once. */
const grains = new Map();
/** Questions for grains that are on their way, by id. */
const asked = new Map();
onForget(() => grains.clear());

/** Whether the user may know when minions were connected. */
const maySee = () => app.permissions.runner('fleet.seen');

/** Asks for the grains of these minions that are not here yet. */
async function fetchGrains(ids) {
  const lacks = ids.filter((id) => !grains.has(id));
  const unasked = lacks.filter((id) => !asked.has(id));
  if (unasked.length) {
    const question = ask(unasked);
    unasked.forEach((id) => asked.set(id, question));
  }
  await Promise.all(lacks.map((id) => asked.get(id)));
}

async function ask(ids) {
  try {
    const target = { tgt: ids, tgt_type: 'list' };
    const [found, seen] = await Promise.all([api.runner('cache.grains', [], target), maySee() ? api.runner('fleet.seen', [], target) : {}]);
    ids.forEach((id) => grains.set(id, { ...pick(found[id] ?? {}), seen: seen[id] ? moment(seen[id]) : '' }));
  } finally {
    ids.forEach((id) => asked.delete(id));
  }
}

/** What a row shows; the rest of the grains would only fill the memory. */
function pick(all) {
  const os = all.osfinger ?? ([all.os, all.osrelease].filter(Boolean).join(' ') || all['system.os.name'] || '');
  return { os: String(os), version: String(all.saltversion ?? all.collective_version ?? ''), gateway: String(all.gateway ?? '') };
}

export function show(place, _parts, query) {
  let rows = [];
  // Nobody knows yet.
  let connected = null;
  let meant = null;
  const figures = element('dl', { class: 'figures' });
  const fresh = element('span', { class: 'hint' });
  const error = element('div');
  const search = element('input', { type: 'search', autocomplete: 'off', spellcheck: 'false', oninput: later(() => draw(), 150) });
  const which = choice([['all', t('fleet.all')], ['connected', t('fleet.connected')], ['away', t('fleet.away')]], query.get('state') ?? 'all', { onchange: () => draw() });
  const count = element('p', { class: 'hint', role: 'status' });
  const target = new Target(query.get('tgt') ?? '*', query.get('tgt_type') ?? 'glob', (ids) => {
    meant = ids;
    if (ids) draw();
  }, false);
  const mayAsk = app.permissions.runner('cache.grains');
  const wanted = later((ids) => fetchGrains(ids).then(() => list.draw(), () => {}), 120);
  const grain = (name) => (row) => grains.get(row.id)?.[name] ?? '';
  const list = new List({
    label: t('nav.fleet'), key: (row) => row.id,
    columns: [
      { title: t('minion'), kind: 'id', width: 'minmax(9rem, 2fr)', cell: (row) => element('a', { href: `#/minion/${encodeURIComponent(row.id)}`, tabindex: '-1' }, row.id) },
      { title: t('state'), width: '9.5rem', cell: (row) => mark(row.isConnected) },
      ...(mayAsk && maySee() ? [{ title: t('fleet.seen'), kind: 'wide', width: '10rem', cell: (row) => row.isConnected === false ? grain('seen')(row) : '' }] : []),
      { title: t('fleet.address'), kind: 'wide mono', width: '1.3fr', cell: (row) => row.ip },
      { title: t('fleet.os'), kind: 'wide', width: '1.3fr', cell: grain('os') },
      { title: t('fleet.version'), kind: 'wide mono', width: '1fr', cell: grain('version') },
      { title: t('fleet.gateway'), kind: 'wide', width: '1fr', cell: grain('gateway') },
    ],
    onOpen: (row) => app.go(`#/minion/${encodeURIComponent(row.id)}`),
    onVisible: (seen) => {
      const lacks = seen.filter((row) => !grains.has(row.id)).map((row) => row.id);
      if (mayAsk && lacks.length) wanted(lacks);
    },
  });

  function draw() {
    if (!meant) return;
    const text = search.value.trim().toLowerCase();
    rows = meant.filter((id) => (!text || id.toLowerCase().includes(text)) && (which.value === 'all' || connected?.has(id) === (which.value === 'connected')))
      .map((id) => ({ id, isConnected: connected?.has(id), ip: connected?.get(id) ?? '' }));
    fill(count, t('fleet.shown', { count: rows.length, all: meant.length }));
    list.element.hidden = !rows.length;
    nobody.hidden = rows.length > 0;
    list.show(rows);
  }

  const nobody = element('div', { class: 'empty', hidden: true }, element('p', { class: 'title' }, t('fleet.empty')), element('p', {}, t('fleet.empty.advice')));

  async function refresh() {
    list.element.setAttribute('aria-busy', 'true');
    try {
      const [present] = await Promise.all([api.runner('manage.present', [], { show_ip: true }), showFigures(figures)]);
      connected = new Map(Object.entries(present));
      remember([...connected.keys()]);
      fill(fresh, t('fresh', { time: clock() }));
      fill(error);
      draw();
    } catch (e) {
      fill(error, problem(e));
    } finally {
      list.element.removeAttribute('aria-busy');
    }
  }

  fill(place, figures,
    element('section', { class: 'tools', 'aria-label': t('filter') }, target.element,
      element('div', { class: 'row' }, field(t('fleet.search'), search), field(t('state'), which),
        element('div', { class: 'buttons' }, button(t('refresh'), () => {
          grains.clear();
          target.changed();
          refresh();
        }), button(t('fleet.run'), () => app.go(link('run', { tgt: target.tgt, tgt_type: target.tgtType })), 'main')))),
    error, element('div', { class: 'row spread' }, count, fresh), list.element, nobody);
  refresh();
}

function mark(isConnected) {
  if (isConnected === undefined) return '…';
  return element('span', { class: `outcome ${isConnected ? 'succeeded' : 'missing'}` },
    element('span', { 'aria-hidden': 'true' }, isConnected ? '● ' : '○ '), t(isConnected ? 'fleet.is' : 'fleet.is.not'));
}

/** The figures of the whole fleet, if this user may see them. */
async function showFigures(place) {
  if (!app.permissions.runner('fleet.status')) return;
  const status = await api.runner('fleet.status');
  const versions = Object.entries(status.versions ?? {}).sort((a, b) => b[1] - a[1]);
  const figure = (name, value, href) => element('div', {}, element('dt', {}, name), element('dd', {}, href ? element('a', { href }, value) : value));
  fill(place,
    figure(t('fleet.connected'), status.minions?.connected ?? 0),
    figure(t('fleet.accepted'), status.keys?.accepted ?? 0),
    figure(t('fleet.pending'), status.keys?.pending ?? 0, app.permissions.wheel('key.list_all') ? '#/keys' : null),
    figure(t('fleet.versions'), versions.slice(0, 3).map(([name, many]) => `${name} (${many})`).join(', ') || '–'));
}
