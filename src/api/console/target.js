// The target of a job: any that Salt knows, and who is meant by it, from what the master has stored.

import * as api from './api.js';
import { app, problem } from './state.js';
import { choice, element, field, fill, later } from './dom.js';
import { t } from './texts.js';

const KINDS = ['glob', 'compound', 'list', 'grain', 'grain_pcre', 'pcre', 'nodegroup', 'ipcidr', 'pillar', 'pillar_exact'];

const EXAMPLES = {
  glob: 'web*', compound: 'G@os:Debian and web*', list: 'web1, web2', grain: 'os:Debian', grain_pcre: 'os:(Debian|Ubuntu)', pcre: 'web\\d+',
  nodegroup: 'production', ipcidr: '192.168.0.0/16', pillar: 'role:web*', pillar_exact: 'role:web',
};

/** The most ids that a preview names. */
const NAMED = 12;

export class Target {
  /** `onChange(ids)` gets the ids that are meant, or `null` while they are not known. `hasNames`: whether the preview names them. */
  constructor(tgt, kind, onChange = () => {}, hasNames = true) {
    Object.assign(this, { onChange, hasNames });
    this.ids = null;
    this.input = element('input', {
      type: 'text', value: tgt, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', oninput: () => this.changed(),
    });
    this.kind = choice(KINDS.map((name) => [name, t(`target.${name}`)]), KINDS.includes(kind) ? kind : 'glob', {
      onchange: () => {
        this.example();
        this.changed();
      },
    });
    this.preview = element('div', { class: 'hint preview', 'aria-live': 'polite' });
    this.look = later(() => this.find(), 350);
    this.canLook = app.permissions.runner('fleet.match');
    this.turn = 0;
    this.element = element('div', { class: 'target' },
      field(t('target'), this.input, this.preview), field(t('target.kind'), this.kind));
    this.example();
    this.changed();
  }

  get tgt() {
    return this.input.value.trim();
  }

  get tgtType() {
    return this.kind.value;
  }

  set(tgt, kind) {
    this.input.value = tgt;
    this.kind.value = KINDS.includes(kind) ? kind : 'glob';
    this.example();
    this.changed();
  }

  example() {
    this.input.placeholder = EXAMPLES[this.tgtType];
  }

  changed() {
    this.turn += 1;
    this.ids = null;
    this.onChange(null);
    if (!this.canLook) fill(this.preview, t('target.unseen'));
    else if (!this.tgt) {
      this.look.cancel();
      fill(this.preview, t('target.empty'));
    } else {
      fill(this.preview, t('target.looking'));
      this.look();
    }
  }

  /** Who is meant, asked at once if nobody has yet; `null` if this account may not look, or the look-up fails. */
  async known() {
    if (!this.ids && this.canLook) {
      this.look.cancel();
      await this.find();
    }
    return this.ids;
  }

  async find() {
    const turn = this.turn;
    try {
      const found = await api.matching(this.tgt, this.tgtType);
      if (turn !== this.turn) return;
      this.ids = found;
      const names = found.slice(0, NAMED).join(', ');
      const more = found.length > NAMED ? ` ${t('target.more', { count: found.length - NAMED })}` : '';
      fill(this.preview, found.length
        ? [element('strong', {}, t(found.length === 1 ? 'target.one' : 'target.count', { count: found.length })), this.hasNames ? `: ${names}${more}` : '']
        : element('strong', { class: 'bad' }, t('target.nobody')));
      this.onChange(found);
    } catch (error) {
      if (turn === this.turn) fill(this.preview, problem(error, t('target.advice')));
    }
  }
}
