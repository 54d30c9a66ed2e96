// A run in batches: the next minions get their job when the last ones have answered. This page starts each, so it has to stay open.

import * as api from './api.js';
import { button, element, fill } from './dom.js';
import { kindOf, Results } from './results.js';
import { problem } from './state.js';
import { t } from './texts.js';

export class Batch {
  /** `size`: a number or a percentage; with `halts`, nothing more is started after a failure. */
  constructor(low, ids, size, halts) {
    const number = Number.parseInt(size, 10);
    Object.assign(this, { low, halts, left: [...ids], why: '' });
    this.size = Math.max(1, size.endsWith('%') ? Math.floor((ids.length * Math.min(number, 100)) / 100) : number);
    this.results = new Results(ids);
    this.state = element('div', { class: 'hint', 'aria-live': 'polite' });
    this.act = element('div', { class: 'buttons' }, button(t('batch.halt'), () => this.halt(), 'danger'));
    this.jids = element('p', { class: 'dim' });
    this.element = element('section', { class: 'job', 'aria-label': t('job') },
      element('h2', {}, element('code', {}, low.fun)), this.jids, this.act, this.state, this.results.element);
    this.next();
  }

  async next() {
    const now = this.left.splice(0, this.size);
    fill(this.state, t('batch.now', { count: now.length, left: this.left.length }));
    try {
      const job = await api.publish({ ...this.low, tgt: now, tgt_type: 'list' });
      if (!job.jid) throw new Error(t('run.nobody'));
      this.jids.append(element('a', { href: `#/job/${job.jid}` }, job.jid), ' ');
      let bad = 0;
      const add = (result) => {
        if (kindOf(result) !== 'succeeded') bad += 1;
        this.results.add(result);
      };
      this.close = api.follow(job.jid, { onReturn: add, onDone: (missing) => {
        missing.forEach(add);
        if (bad && this.halts && this.left.length) this.end(t('batch.failed', { left: this.left.length }));
        else if (this.left.length) this.next();
        else this.end(this.why);
      } }, (state, why) => state === 'failed' && this.end(problem(new Error(why))));
    } catch (error) {
      this.end(problem(error));
    }
  }

  /** Starts no more. What runs already is waited for. */
  halt() {
    this.why = t('batch.halted', { left: this.left.length });
    this.left = [];
    this.act.replaceChildren();
    fill(this.state, this.why);
  }

  end(why) {
    this.left = [];
    this.act.replaceChildren();
    fill(this.state, why);
    this.results.end([]);
  }

  leave() {
    this.left = [];
    this.close?.();
  }
}
