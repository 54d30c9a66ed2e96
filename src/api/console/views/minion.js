// One minion: its grains, and what can be done with it.

import * as api from '../api.js';
import { app, link, load } from '../state.js';
import { element, empty, field, fill, later } from '../dom.js';
import { nested } from '../value.js';
import { t } from '../texts.js';

export const isOffered = (permissions) => permissions.runner('cache.grains');

export function show(place, [id], _query, setTitle) {
  setTitle(id ?? '', element('span', { class: 'unseen' }, ` ${t('minion')}`));
  const links = element('p', { class: 'buttons' },
    app.permissions.mayRunAny() ? element('a', { class: 'button main', href: link('run', { tgt: id, tgt_type: 'list' }) }, t('minion.run')) : null,
    app.permissions.runner('jobs.list_jobs_filter') ? element('a', { class: 'button', href: link('jobs', { search: id }) }, t('nav.jobs')) : null,
    element('a', { class: 'button', href: '#/fleet' }, t('back')));
  const out = element('div');
  const filter = element('input', { type: 'search', autocomplete: 'off', spellcheck: 'false' });
  fill(place, links, field(t('minion.grains.search'), filter), out);
  load(out, api.runner('cache.grains', [], { tgt: [id], tgt_type: 'list' }), (found) => {
    const grains = found[id];
    if (!grains || !Object.keys(grains).length) return empty(t('minion.empty'), t('minion.empty.advice'));
    const shown = element('div');
    const draw = () => {
      const text = filter.value.trim().toLowerCase();
      const kept = Object.entries(grains).filter(([name, value]) => `${name} ${JSON.stringify(value)}`.toLowerCase().includes(text));
      fill(shown, kept.length ? nested(Object.fromEntries(kept), t('minion.grains')) : empty(t('nothing.fits'), t('nothing.fits.advice')));
    };
    filter.addEventListener('input', later(draw, 150));
    draw();
    return [element('h2', {}, t('minion.grains')), shown];
  });
}
