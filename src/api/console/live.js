// A job that runs: its results as they come, and the buttons that stop or repeat it.

import * as api from './api.js';
import { app, ask, jidTime, problem } from './state.js';
import { append, button, element, fill } from './dom.js';
import { Results } from './results.js';
import { t } from './texts.js';

export class Job {
  /** Follows a job from now on. */
  constructor(jid, fun, minions) {
    Object.assign(this, { jid, fun, minions });
    this.results = new Results(minions);
    this.state = element('div', { class: 'hint', 'aria-live': 'polite' });
    this.progress = element('p', { class: 'hint' });
    this.buttons = element('div', { class: 'buttons' });
    this.head = element('div', { class: 'job-head' },
      element('h2', {}, element('code', {}, fun), ' ', element('a', { href: `#/job/${jid}`, class: 'dim' }, jid)),
      element('p', { class: 'dim' }, jidTime(jid)));
    if (app.permissions.mayRun('saltutil.term_job')) {
      append(this.buttons, [button(t('stop'), () => this.stop('saltutil.term_job'), 'danger')]);
    }
    this.element = element('section', { class: 'job', 'aria-label': t('job') }, this.head, this.buttons, this.state, this.progress, this.results.element);
    const counts = new Map();
    this.close = api.follow(jid, {
      onReturn: (result) => this.results.add(result),
      onProgress: ({ id, total }) => {
        counts.set(id, (counts.get(id) ?? 0) + 1);
        fill(this.progress, t('job.progress', { id, count: counts.get(id), total }));
      },
      onDone: (missing) => {
        this.buttons.replaceChildren();
        fill(this.state);
        fill(this.progress);
        this.results.end(missing);
      },
    }, (state, why) => fill(this.state, state === 'open' ? '' : state === 'failed' ? problem(new Error(why)) : t(`stream.${state}`)));
  }

  leave() {
    this.close();
  }

  /** Ends the job on its minions: first with a request, and if that was in vain, at once. */
  async stop(how) {
    const isFirst = how === 'saltutil.term_job';
    const yes = await ask(t('stop.sure'), element('p', {}, t(isFirst ? 'stop.advice' : 'stop.kill.advice')), t(isFirst ? 'stop' : 'stop.kill'), 'danger');
    if (!yes) return;
    try {
      await api.publish({ tgt: this.minions, tgt_type: 'list', fun: how, arg: [this.jid] });
      fill(this.state, t('stop.sent'));
      if (isFirst && app.permissions.mayRun('saltutil.kill_job')) {
        fill(this.buttons, button(t('stop.kill'), () => this.stop('saltutil.kill_job'), 'danger'));
      }
    } catch (error) {
      fill(this.state, problem(error));
    }
  }
}
