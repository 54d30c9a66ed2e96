// Runs a function on minions, and shows the results as they come.

import * as api from '../api.js';
import { app, ask, link, problem } from '../state.js';
import { append, button, element, field, fill, later } from '../dom.js';
import { commandLine, functions, remember, words } from '../functions.js';
import { Batch } from '../batch.js';
import { Job } from '../live.js';
import { Target } from '../target.js';
import { t } from '../texts.js';

export const isOffered = (permissions) => permissions.mayRunAny();

/** A job for as many minions is not started without a question. */
const MANY = 50;

export function show(place, _parts, query) {
  const listId = 'functions';
  const fun = element('input', {
    type: 'text', list: listId, value: query.get('fun') ?? '', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', placeholder: 'test.ping',
  });
  const options = element('datalist', { id: listId });
  const doc = element('div', { class: 'hint doc', 'aria-live': 'polite' });
  const args = element('input', {
    type: 'text', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', placeholder: "'uname -a' timeout=10",
  });
  const argsHint = element('p', { class: 'hint' });
  const batch = element('input', { type: 'text', inputmode: 'numeric', placeholder: '10 %', autocomplete: 'off' });
  const halts = element('input', { type: 'checkbox', id: 'halts', checked: true });
  const error = element('div');
  const out = element('div');
  const act = element('button', { type: 'submit', class: 'main' }, t('run.act'));
  const target = new Target(query.get('tgt') ?? '', query.get('tgt_type') ?? 'glob', (ids) => {
    remember(ids);
    fill(act, ids?.length ? t(ids.length === 1 ? 'run.act.one' : 'run.act.count', { count: ids.length }) : t('run.act'));
  });
  let docs = {};
  let current = null;

  const showDoc = later(async () => {
    const name = fun.value.trim();
    if (!Object.keys(docs).length) await loadDocs();
    const text = docs[name];
    if (text) fill(doc, element('strong', {}, name), element('pre', { class: 'comment' }, text.trim()));
    else if (name && Object.keys(docs).length) fill(doc, app.permissions.mayRun(name) ? t('run.unknown', { name }) : t('run.may.not', { name }));
    else fill(doc, app.permissions.mayRun('sys.doc') ? '' : t('run.patterns', { patterns: app.permissions.patterns().join(', ') }));
  }, 250);

  async function loadDocs() {
    docs = await functions();
    if (!options.hasChildNodes()) append(options, Object.entries(docs).map(([value, text]) => element('option', { value }, text.trim().split('\n')[0].slice(0, 90))));
  }

  function showArgs() {
    try {
      const all = words(args.value);
      fill(argsHint, all.length ? [t('run.args.read'), ' ', all.map((word) => [element('code', {}, word), ' '])] : t('run.args.hint'));
      args.removeAttribute('aria-invalid');
    } catch {
      fill(argsHint, t('run.args.open'));
    }
  }

  fun.addEventListener('focus', () => loadDocs(), { once: true });
  fun.addEventListener('input', showDoc);
  args.addEventListener('input', showArgs);

  /** Fills the form with what a job was. */
  async function repeat(jid) {
    try {
      const job = await api.runner('jobs.list_job', [], { jid });
      if (job.Error) throw new Error(t('job.unknown'));
      const isList = job['Target-type'] === 'list' || Array.isArray(job.Target);
      target.set([job.Target].flat().join(', '), isList ? 'list' : job['Target-type']);
      [fun.value] = [job.Function].flat();
      args.value = commandLine(job.Arguments);
      showArgs();
      showDoc();
      fun.focus({ preventScroll: true });
    } catch (e) {
      fill(error, problem(e));
    }
  }

  const complain = (input, text, advice) => {
    input.setAttribute('aria-invalid', 'true');
    fill(error, problem(new Error(text), advice));
    input.focus();
  };

  async function submit(event) {
    event.preventDefault();
    fill(error);
    [fun, args, target.input, batch].forEach((input) => input.removeAttribute('aria-invalid'));
    const name = fun.value.trim();
    if (!name) return complain(fun, t('run.lacks.fun'), t('run.lacks.fun.advice'));
    if (!app.permissions.mayRun(name)) return complain(fun, t('run.may.not', { name }), '');
    if (!target.tgt) return complain(target.input, t('run.lacks.target'), t('run.lacks.target.advice'));
    let arg;
    try {
      arg = words(args.value);
    } catch {
      return complain(args, t('run.args.open'), t('run.args.open.advice'));
    }
    const low = { tgt: target.tgtType === 'list' ? api.ids(target.tgt) : target.tgt, tgt_type: target.tgtType, fun: name, arg };
    const size = batch.value.trim();
    if (size && !/^[1-9]\d*\s*%?$/.test(size)) return complain(batch, t('run.batch.wrong'), t('run.batch.hint'));
    await target.known();
    if (size && !target.ids?.length) return complain(batch, t('run.batch.nobody'), t('run.lacks.target.advice'));
    // Many, or nobody knows how many.
    const isUnknown = !target.ids;
    if ((isUnknown || target.ids.length >= MANY) && !size) {
      const count = target.ids?.length;
      const question = isUnknown ? t('run.sure.unknown', { target: target.tgt }) : t('run.sure', { count });
      const yes = await ask(question, [element('p', {}, element('code', {}, [name, args.value].join(' '))), element('p', {}, t('run.sure.advice'))], isUnknown ? t('run.act') : t('run.act.count', { count }));
      if (!yes) return undefined;
    }
    current?.leave();
    act.disabled = true;
    try {
      if (size) current = new Batch(low, target.ids, size, halts.checked);
      else {
        const job = await api.publish(low);
        remember(job.minions);
        if (!job.jid) return complain(target.input, t('run.nobody'), t('target.advice'));
        current = new Job(job.jid, name, job.minions);
      }
      // Without arguments, which may hold a secret: browsers keep addresses.
      history.replaceState(null, '', link('run', { tgt: target.tgt, tgt_type: target.tgtType, fun: name }));
      fill(out, current.element);
      out.scrollIntoView({ block: 'nearest' });
    } catch (e) {
      fill(error, problem(e));
    } finally {
      act.disabled = false;
    }
    return undefined;
  }

  const more = element('details', { class: 'more' }, element('summary', {}, t('run.batch')),
    field(t('run.batch.size'), batch, t('run.batch.hint')),
    element('div', { class: 'check' }, halts, element('label', { for: 'halts' }, t('run.batch.halts'))));
  const form = element('form', { class: 'run', novalidate: true, onsubmit: submit },
    target.element,
    element('div', { class: 'call' }, element('div', {}, field(t('run.fun'), fun, doc), options), field(t('run.args'), args, argsHint)),
    target.canLook ? more : null,
    element('div', { class: 'buttons' }, act, button(t('run.clear'), () => {
      current?.leave();
      current = null;
      fill(out);
      fun.focus();
    }, 'quiet')),
    error);
  fill(place, form, out);
  showArgs();
  showDoc();
  // Never the button: another page may have made this address.
  target.input.focus({ preventScroll: true });
  if (query.get('job')) repeat(query.get('job'));
  return () => current?.leave();
}
