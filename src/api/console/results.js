// Results of a job: failures first, each as the command line shows it. Few are shown in full, many as a list with one in full.

import { app } from './state.js';
import { button, element, fill, later } from './dom.js';
import { List } from './list.js';
import { highstate, statesOf, tally, tallyText } from './highstate.js';
import { brief, byId, nested } from './value.js';
import { t } from './texts.js';

/** Most minions whose results are all shown in full. */
const FEW = 25;
/** Most minions that are named while they have not answered. */
const NAMED = 8;
const ORDER = ['failed', 'missing', 'succeeded'];
const SIGNS = { failed: '✘', missing: '◌', succeeded: '✔' };

/** Whether a return is a failure, and of which kind. */
export function kindOf(result) {
  if (result.missing) return 'missing';
  return result.success === false || (result.retcode ?? 0) !== 0 ? 'failed' : 'succeeded';
}

export function sign(kind) {
  return element('span', { class: `outcome ${kind}` }, element('span', { 'aria-hidden': 'true' }, `${SIGNS[kind]} `), t(`result.${kind}`));
}

const REASONS = { 'not connected': 'away', lost: 'lost', 'no key': 'key', running: 'running' };

/** Why a minion has not answered. */
function reason({ why }) {
  return t(Object.hasOwn(REASONS, why ?? '') ? `result.why.${REASONS[why]}` : 'result.missing.advice');
}

/** A result as an element. What cannot be shown must not hide the results of others. */
export function output(result) {
  try {
    return shown(result);
  } catch (error) {
    return element('p', { class: 'problem' }, t('result.odd', { why: error.message }));
  }
}

function shown(result) {
  if (result.missing) return element('p', { class: 'dim' }, reason(result));
  const states = statesOf(result.return);
  if (states) return highstate(states);
  if (result.return === '' || result.return === null) return element('p', { class: 'dim' }, t('result.empty'));
  return nested(result.return, t('result.of', { id: result.id }));
}

/** One line about a result. */
function line(result) {
  try {
    return lineOf(result);
  } catch (error) {
    return t('result.odd', { why: error.message });
  }
}

function lineOf(result) {
  if (result.missing) return reason(result);
  const states = statesOf(result.return);
  return states ? tallyText(tally(states)) : brief(result.return ?? '');
}

export class Results {
  /** `expected`: ids of the minions that are to answer; `null` if they are not known. */
  constructor(expected, links = () => []) {
    this.expected = expected;
    this.links = links;
    this.all = new Map();
    this.over = false;
    this.only = 'all';
    this.summary = element('p', { class: 'summary' });
    this.meter = element('progress', { 'aria-label': t('result.progress') });
    this.waiting = element('p', { class: 'hint' });
    this.filters = element('div', { class: 'filters', role: 'group', 'aria-label': t('filter') });
    this.place = element('div', { class: 'results' });
    this.element = element('section', { class: 'answers stack', 'aria-label': t('results') }, this.summary, this.meter, this.waiting, this.filters, this.place);
    this.tell = later(() => app.say(this.words()), 900);
    this.drawNow();
  }

  add(result) {
    this.all.set(result.id, result);
    // Not only when all is quiet: returns may come for minutes.
    if (!this.due) {
      this.due = setTimeout(() => {
        this.due = 0;
        this.drawNow();
      }, this.all.size > 500 ? 600 : 80);
    }
    this.tell();
  }

  /** All have answered, or nobody waits for the others any longer: `{id, missing, why}` each. */
  end(missing) {
    this.over = true;
    missing.forEach((one) => this.all.has(one.id) || this.all.set(one.id, one));
    this.drawNow();
    this.tell();
  }

  counts() {
    const counts = { failed: 0, missing: 0, succeeded: 0 };
    this.all.forEach((result) => { counts[kindOf(result)] += 1; });
    return counts;
  }

  words() {
    const { failed, missing, succeeded } = this.counts();
    const total = this.expected?.length ?? this.all.size;
    const parts = [t(this.over ? 'result.over' : 'result.running', { count: failed + succeeded, total })];
    if (failed) parts.push(t('result.count.failed', { count: failed }));
    if (missing) parts.push(t('result.count.missing', { count: missing }));
    if (!failed && !missing && this.over) parts.push(t('result.fine'));
    return parts.join(' · ');
  }

  sorted() {
    const all = [...this.all.values()].map((result) => [ORDER.indexOf(kindOf(result)), result]);
    const kept = all.filter(([at]) => this.only === 'all' || ORDER[at] === this.only);
    kept.sort((a, b) => a[0] - b[0] || byId(a[1].id, b[1].id));
    return kept.map(([, result]) => result);
  }

  drawNow() {
    const counts = this.counts();
    fill(this.summary, this.words());
    this.summary.classList.toggle('bad', counts.failed > 0);
    const total = this.expected?.length ?? 0;
    this.meter.hidden = this.over || !total;
    const left = this.over ? [] : (this.expected ?? []).filter((id) => !this.all.has(id));
    fill(this.waiting, left.length && left.length <= NAMED ? t('result.waiting', { ids: left.join(', ') }) : '');
    this.meter.max = total || 1;
    this.meter.value = this.all.size;
    this.drawFilters(counts);
    if (this.all.size > FEW || (this.expected?.length ?? 0) > FEW) this.drawMany();
    else this.drawFew();
  }

  drawFilters(counts) {
    const names = ['all', ...ORDER.filter((name) => counts[name])];
    this.filters.hidden = names.length < 3;
    const shape = names.join();
    if (this.filters.dataset.shape !== shape) {
      this.filters.dataset.shape = shape;
      fill(this.filters, names.map((name) => element('button', {
        type: 'button', class: 'chip', 'data-name': name,
        onclick: () => {
          this.only = name;
          this.drawNow();
        },
      })));
    }
    for (const chip of this.filters.children) {
      const { name } = chip.dataset;
      chip.setAttribute('aria-pressed', String(name === this.only));
      fill(chip, `${t(`result.${name}`)} ${name === 'all' ? this.all.size : counts[name]}`);
    }
  }

  /** Each in full. What is there already stays as it is, so that nobody's reading is disturbed. */
  drawFew() {
    const wanted = this.sorted();
    const there = new Map([...this.place.children].map((child) => [child.dataset.id, child]));
    const nodes = wanted.map((result) => {
      const old = there.get(result.id);
      return old && old.result === result ? old : this.card(result);
    });
    nodes.forEach((node, at) => {
      if (this.place.children[at] !== node) this.place.insertBefore(node, this.place.children[at] ?? null);
    });
    [...this.place.children].slice(nodes.length).forEach((node) => node.remove());
  }

  card(result) {
    const made = element('article', { class: `card ${kindOf(result)}`, 'data-id': result.id }, this.head(result), output(result));
    made.result = result;
    return made;
  }

  head(result) {
    const code = result.retcode ? element('span', { class: 'dim' }, t('result.code', { code: result.retcode })) : null;
    return element('h3', {}, sign(kindOf(result)), ' ', element('span', { class: 'id' }, result.id), ' ', code, this.links(result));
  }

  drawMany() {
    if (!this.list) {
      this.list = new List({
        label: t('results'), key: (row) => row.id, most: '50vh',
        columns: [
          { title: t('result'), cell: (row) => sign(kindOf(row)), width: '8rem' },
          { title: t('minion'), cell: (row) => row.id, kind: 'id', width: 'minmax(8rem, 1fr)' },
          { title: t('output'), cell: line, kind: 'wide mono', width: '3fr' },
        ],
        onOpen: (row) => this.open(row),
      });
      this.detail = element('div', { class: 'detail' }, element('p', { class: 'hint' }, t('result.choose')));
      fill(this.place, this.list.element, this.detail);
    }
    this.list.show(this.sorted());
  }

  open(row) {
    const close = button(t('close'), () => {
      fill(this.detail, element('p', { class: 'hint' }, t('result.choose')));
      this.list.element.focus();
    }, 'quiet');
    fill(this.detail, this.card(row), close);
    app.say(`${row.id}: ${t(`result.${kindOf(row)}`)}`);
  }
}
