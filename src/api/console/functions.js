// Functions that minions have, with their documentation, for completion. Asked of one minion, once in a session.

import * as api from './api.js';
import { app } from './state.js';

let asked = null;
const known = new Set();

/** Remembers ids that can be asked, for users who cannot list minions. */
export function remember(ids) {
  ids?.slice(0, 5).forEach((id) => known.add(id));
}

async function someone() {
  if (known.size) return [...known][0];
  if (!app.permissions.runner('manage.present')) return null;
  const present = await api.runner('manage.present');
  return present[0] ?? null;
}

async function fetchAll() {
  if (!app.permissions.mayRun('sys.doc') || !app.permissions.clients.includes('local')) return {};
  const id = await someone();
  if (!id) return {};
  const answer = await api.local(id, 'sys.doc', [], { tgt_type: 'list' });
  const docs = answer[id];
  return docs && typeof docs === 'object' ? docs : {};
}

/** `{name: text}` of the functions that this user may run. */
export async function functions() {
  asked ??= fetchAll().catch(() => ({}));
  const docs = await asked;
  if (!Object.keys(docs).length) asked = null;
  return Object.fromEntries(Object.entries(docs).filter(([name]) => app.permissions.mayRun(name)));
}

const hooks = [];

/** What else is to be forgotten with them. */
export const onForget = (hook) => hooks.push(hook);

/** Forgets them: another user may see others. */
export function forget() {
  asked = null;
  known.clear();
  hooks.forEach((hook) => hook());
}

/** Words of a command line: quotes and backslashes as in a shell. Throws a position if a quote is open. */
export function words(text) {
  const out = [];
  let [word, quote, has, from] = ['', '', false, 0];
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (quote) {
      if (c === quote) quote = '';
      else if (c === '\\' && quote === '"' && '"\\'.includes(text[at + 1] ?? ' ')) word += text[(at += 1)];
      else word += c;
    } else if (c === '"' || c === "'") [quote, has, from] = [c, true, at];
    else if (c === '\\' && at + 1 < text.length) [word, has] = [word + text[(at += 1)], true];
    else if (/\s/.test(c)) {
      if (has) out.push(word);
      [word, has] = ['', false];
    } else [word, has] = [word + c, true];
  }
  if (quote) throw new RangeError(String(from + 1));
  if (has) out.push(word);
  return out;
}

/** Arguments of a job as a command line, so that it can be repeated. */
export function commandLine(args) {
  return (args ?? []).flatMap((arg) => {
    if (arg && typeof arg === 'object' && !Array.isArray(arg)) {
      return Object.entries(arg).filter(([name]) => name !== '__kwarg__').map(([name, value]) => quoted(`${name}=${text(value)}`));
    }
    return [quoted(text(arg))];
  }).join(' ');
}

const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value));
const quoted = (word) => (/^[\w./:=@%+,*-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
