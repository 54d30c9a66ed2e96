// Keys of minions: who waits, with what fingerprint; to accept, reject and delete.

import * as api from '../api.js';
import { app, ask, clock, load, problem } from '../state.js';
import { button, element, empty, fill, fingerprint, later } from '../dom.js';
import { List } from '../list.js';
import { byId } from '../value.js';
import { t } from '../texts.js';

export const isOffered = (permissions) => permissions.wheel('key.list_all');

const STATES = ['minions_pre', 'minions_denied', 'minions', 'minions_rejected'];
/** What can be done with keys of a state, and the wheel function that does it. */
const ACTS = {
  minions_pre: ['accept', 'reject', 'delete'],
  minions_denied: ['delete'],
  minions: ['reject', 'delete'],
  minions_rejected: ['accept', 'delete'],
};
/** The most fingerprints that a question shows. */
const SHOWN = 100;

export function show(place) {
  let keys = {};
  const prints = new Map();
  const asked = new Set();
  const chosen = { state: 'minions_pre', text: '' };
  const error = element('div');
  const fresh = element('span', { class: 'hint' });
  const tabs = element('div', { class: 'filters', role: 'group', 'aria-label': t('keys.states') });
  const acts = element('div', { class: 'buttons' });
  const own = element('div', { class: 'hint' });
  const search = element('input', { type: 'search', 'aria-label': t('keys.search'), placeholder: t('keys.search'), autocomplete: 'off', spellcheck: 'false', oninput: later(() => draw(), 150) });
  const nobody = element('div');
  const key = (state, id) => `${state} ${id}`;
  const list = new List({
    label: t('nav.keys'), key: (row) => row.id, height: 3, narrow: 5.25,
    columns: [
      { title: t('minion'), kind: 'id', width: 'minmax(9rem, 1fr)', cell: (row) => [element('span', { class: 'box', 'aria-hidden': 'true' }), row.id] },
      { title: t('keys.finger'), kind: 'mono finger', width: '3fr', cell: (row) => fingerprint(prints.get(key(chosen.state, row.id)) ?? '') },
    ],
    onSelect: () => showActs(),
    onVisible: later((seen) => fetchPrints(chosen.state, seen.map((row) => row.id)).then((news) => news && list.draw()).catch(() => {}), 120),
  });

  async function fetchPrints(state, ids) {
    const lacks = ids.filter((id) => !prints.has(key(state, id)) && !asked.has(key(state, id)));
    if (!lacks.length || !app.permissions.wheel('key.finger')) return false;
    lacks.forEach((id) => asked.add(key(state, id)));
    const found = await api.wheel('key.finger', { match: lacks });
    lacks.forEach((id) => prints.set(key(state, id), found[state]?.[id] ?? ''));
    return true;
  }

  function drawTabs() {
    fill(tabs, STATES.map((state) => element('button', {
      type: 'button', class: 'chip', 'aria-pressed': String(state === chosen.state),
      onclick: () => {
        chosen.state = state;
        list.selected.clear();
        drawTabs();
        draw();
        [...tabs.children].find((chip) => chip.getAttribute('aria-pressed') === 'true')?.focus();
      },
    }, `${t(`keys.${state}`)} ${(keys[state] ?? []).length}`)));
  }

  function draw() {
    const text = search.value.trim().toLowerCase();
    const rows = (keys[chosen.state] ?? []).filter((id) => id.toLowerCase().includes(text)).map((id) => ({ id }));
    list.element.hidden = !rows.length;
    fill(nobody, rows.length ? null : empty(t(text ? 'nothing.fits' : `keys.empty.${chosen.state}`), t(text ? 'nothing.fits.advice' : `keys.empty.advice`)));
    list.show(rows);
    showActs();
  }

  function showActs() {
    const names = ACTS[chosen.state].filter((act) => app.permissions.wheel(`key.${act}_dict`));
    const count = list.selected.size;
    fill(acts, (keys[chosen.state] ?? []).length ? names.map((act) => {
      const made = button(t(`keys.${act}`), () => start(act), act === 'accept' ? 'main' : 'danger');
      made.disabled = !count;
      return made;
    }) : null, names.length && (keys[chosen.state] ?? []).length ? element('p', { class: 'hint' }, count ? t('keys.chosen', { count }) : t('keys.choose')) : null);
  }

  async function start(act) {
    const state = chosen.state;
    const ids = [...list.selected].sort();
    fill(error);
    try {
      await fetchPrints(state, ids.slice(0, SHOWN));
      const body = [
        element('p', {}, t(`keys.${act}.advice.${state}`)),
        element('dl', { class: 'prints' }, ids.slice(0, SHOWN).map((id) => [element('dt', {}, id), element('dd', { class: 'mono' }, fingerprint(prints.get(key(state, id)) || '–'))])),
        ids.length > SHOWN ? element('p', {}, t('target.more', { count: ids.length - SHOWN })) : null,
      ];
      const title = t(ids.length === 1 ? `keys.${act}.sure.one` : `keys.${act}.sure`, { count: ids.length, id: ids[0] });
      if (!await ask(title, body, t(`keys.${act}`), act === 'accept' ? 'main' : 'danger')) return;
      const more = act === 'accept' && state === 'minions_rejected' ? { include_rejected: true } : act === 'reject' && state === 'minions' ? { include_accepted: true } : {};
      await api.wheel(`key.${act}_dict`, { match: { [state]: ids }, ...more });
      list.selected.clear();
      await refresh();
      list.element.focus();
      app.say(t(`keys.${act}.done`, { count: ids.length }));
    } catch (e) {
      fill(error, problem(e));
    }
  }

  async function refresh() {
    try {
      keys = await api.wheel('key.list_all');
      // A key may be another one by now.
      prints.clear();
      asked.clear();
      for (const state of STATES) keys[state]?.sort(byId);
      const known = new Set(keys[chosen.state]);
      list.selected.forEach((id) => known.has(id) || list.selected.delete(id));
      fill(fresh, t('fresh', { time: clock() }));
      drawTabs();
      draw();
    } catch (e) {
      fill(error, problem(e));
    }
  }

  fill(place, element('p', {}, t('keys.about')), own, element('div', { class: 'row spread' }, tabs, element('div', { class: 'buttons' }, fresh, button(t('refresh'), refresh))),
    search, error, acts, list.element, nobody);
  if (app.permissions.wheel('key.finger_master')) {
    load(own, api.wheel('key.finger_master'), (found) => element('p', {}, t('keys.master'), ' ', element('code', {}, fingerprint(Object.values(found.local ?? {})[0] ?? ''))));
  }
  refresh();
  if (!app.permissions.mayListen()) return undefined;
  // Keys that come and go while somebody looks on.
  const again = later(refresh, 500);
  // One stream for both: a browser has six connections to a host, for all of its tabs.
  const close = api.events('salt/[ak]*', (event) => {
    const isNew = event.tag === 'salt/auth' && event.data?.act === 'pend' && !keys.minions_pre?.includes(event.data.id);
    if (isNew || event.tag === 'salt/key') again();
  });
  return () => {
    again.cancel();
    close();
  };
}
