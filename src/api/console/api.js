// All requests to the service. The session is a cookie that scripts cannot read; nothing of it is kept here.

import { byId } from './value.js';

/** Why a request was not answered as asked. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Called when the session has ended; set by app.js. */
export const hooks = { ended: () => {} };

const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"' };

/** The sentence of an error: pages of errors have it in their last paragraph. (A parser of HTML would need a trusted type.) */
function sentence(text, status) {
  if (text.trimStart().startsWith('{')) {
    try {
      const answer = JSON.parse(text);
      return String(answer.reason ?? answer.return);
    } catch {
      return `HTTP ${status}`;
    }
  }
  const paragraphs = [...text.matchAll(/<p>([^<]*)<\/p>/g)];
  const found = paragraphs.at(-1)?.[1] ?? '';
  return found.replace(/&(amp|lt|gt|quot);/g, (_, name) => ENTITIES[name]) || `HTTP ${status}`;
}

async function request(path, body) {
  const options = { headers: { Accept: 'application/json' }, credentials: 'same-origin', cache: 'no-store' };
  if (body !== undefined) {
    options.method = 'POST';
    options.headers['Content-Type'] = 'application/json';
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new ApiError(0, '');
  }
  const text = await answer.text();
  if (!answer.ok) throw new ApiError(answer.status, sentence(text, answer.status));
  return JSON.parse(text);
}

/** What the form of login needs: `{eauths, version}`. */
export const settings = () => request('/console/settings');

/** The session of the cookie, or `null`. */
export async function session() {
  return (await request('/console/session')).return[0] ?? null;
}

export const logIn = (username, password, eauth) => request('/login', { username, password, eauth });
export const logOut = () => request('/logout', {});

/** Runs one lowstate. A refusal may mean that the session has ended or that this user may not do it; the session tells which. */
async function command(low) {
  try {
    return (await request('/', low)).return[0];
  } catch (error) {
    if (error.status === 401 && (await session()) === null) hooks.ended();
    throw error;
  }
}

/** The last line of a traceback, which is what a person can use. */
function reason(value) {
  const lines = String(typeof value === 'string' ? value : JSON.stringify(value)).trim().split('\n');
  return lines.at(-1).replace(/^\w+(Error|Exception): /, '');
}

/** Calls a runner and waits for its end. */
export async function runner(fun, arg = [], kwarg = {}) {
  const { data } = await command({ client: 'runner', fun, arg, kwarg, full_return: true });
  if (data.success === false) throw new ApiError(200, reason(data.return));
  return data.return;
}

/** Calls a wheel function. */
export async function wheel(fun, kwarg = {}) {
  const { data } = await command({ client: 'wheel', fun, kwarg });
  if (!data.success) throw new ApiError(200, reason(data.return));
  return data.return;
}

/** Runs a function on minions and waits for it: for what is known to be fast. */
export const local = (tgt, fun, arg = [], more = {}) => command({ client: 'local', tgt, fun, arg, ...more });

/** Publishes a job: `{jid, minions}`, or `{}` if nobody is meant. */
export const publish = (low) => command({ client: 'local_async', ...low });

/** Ids of minions that a target means, from what the master knows: nothing is sent to minions. */
export async function matching(tgt, kind = 'glob') {
  const found = await runner('fleet.match', [], { tgt: kind === 'list' ? ids(tgt) : tgt, tgt_type: kind });
  return found.sort(byId);
}

/** The ids of a list as typed. */
export const ids = (text) => (Array.isArray(text) ? text : text.split(/[\s,]+/).filter(Boolean));

/** A stream of events that ends with the session. `listeners` are by name of the event; returns what closes it. */
function stream(path, listeners, onState) {
  const source = new EventSource(path);
  source.onopen = () => onState?.('open');
  source.addEventListener('failed', (event) => {
    source.close();
    onState?.('failed', JSON.parse(event.data).error);
  });
  source.onerror = async () => {
    if (source.readyState !== EventSource.CLOSED) {
      onState?.('waiting');
      return;
    }
    onState?.('closed');
    if ((await session().catch(() => undefined)) === null) hooks.ended();
  };
  for (const [name, act] of Object.entries(listeners)) {
    source.addEventListener(name, (event) => act(JSON.parse(event.data), event));
  }
  return () => source.close();
}

/** Follows a job: each `return`, each `state` that has run, then `done` with the ids that did not answer and why. */
export function follow(jid, { onReturn, onProgress = () => {}, onDone }, onState) {
  const close = stream(`/jobs/${encodeURIComponent(jid)}/events`, {
    return: onReturn,
    state: onProgress,
    done: (data) => {
      close();
      onDone((data.missing ?? []).map((id) => ({ id, missing: true, why: data.outcomes?.[id] })));
    },
  }, onState);
  return close;
}

/** Follows the bus; `tag` is a glob. */
export function events(tag, onEvent, onState) {
  const path = tag && tag !== '*' ? `/events?tag=${encodeURIComponent(tag)}` : '/events';
  return stream(path, { message: onEvent }, onState);
}
