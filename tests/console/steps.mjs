// The steps of an operator's day, in their order: later ones use what earlier ones have done.

import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { click, go, input, logIn, offences, open, press, says, shot, texts, type, until } from './browser.mjs';

/** Fails with a sentence. */
export function expect(condition, sentence) {
  if (!condition) throw new Error(sentence);
}

/** Fills the form of Run and starts it. Several ids with commas are a list. */
async function run(page, target, fun, args, kind = target.includes(',') ? 'list' : 'glob') {
  await go(page, '#/run');
  await type(page, 'Target', target);
  await page.select('.target select', kind);
  await type(page, 'Function', fun);
  await type(page, 'Arguments', args);
  await press(page, 'form.run button', 'Run');
}

const finished = (page) => says(page, '.summary', 'Done:');
const rows = (page) => texts(page, '.list .space [role=row]');
const jidShown = (page) => page.$eval('.job h2 a', (link) => link.textContent);

async function wrongPassword(state) {
  state.page = await open(state.browser, state.config);
  await logIn(state.page, state.config.user, 'not the password');
  await says(state.page, '[role=alert]', 'User or password is wrong.');
  await shot(state.page, state.config, 'login-refused');
}

async function login(state) {
  state.page ??= await open(state.browser, state.config);
  const { page, config } = state;
  await logIn(page, config.user, config.password);
  await says(page, 'h1', 'Fleet');
  const stored = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie);
  expect(!/[0-9a-f]{40}/.test(stored), 'the id of the session can be read by scripts');
}

async function reload({ page }) {
  await page.reload({ waitUntil: 'load' });
  await says(page, 'h1', 'Fleet');
}

async function fleet(state) {
  const { page, config } = state;
  await go(page, '#/fleet');
  await until(page, 'three connected minions', () => [...document.querySelectorAll('.list .space [role=row]')].filter((row) => row.textContent.includes('connected') && !row.textContent.includes('not connected')).length === 3);
  state.ids = await texts(page, '.list .space .id');
  await until(page, 'versions of the minions', () => [...document.querySelectorAll('.list .space [role=row]')].every((row) => row.children[5].textContent));
  await shot(page, config, 'fleet');
}

async function preview({ page, ids }) {
  await go(page, '#/fleet');
  await type(page, 'Target', `${ids[0]} or ${ids[1]}`);
  await page.select('.target select', 'compound');
  await says(page, '.preview', '2 minions');
  await until(page, 'two rows', () => document.querySelectorAll('.list .space [role=row]').length === 2);
  await type(page, 'Target', 'G@nothing:at_all');
  await says(page, '.preview', 'Nobody is meant.');
}

async function grains({ page, config, ids }) {
  await go(page, `#/minion/${ids[0]}`);
  await says(page, 'pre.value', 'saltversion:');
  await type(page, 'Grains that contain', 'saltversion');
  await until(page, 'fewer grains', () => !document.querySelector('pre.value').textContent.includes('kernelrelease'));
  await shot(page, config, 'minion');
}

async function acceptKey({ page, config }) {
  await go(page, '#/keys');
  await says(page, '.list .space [role=row]', 'newcomer');
  await says(page, '.list .space .finger', ':');
  await click(page, '.list .space .id');
  await press(page, 'main button', 'Accept');
  await says(page, 'dialog', 'Accept the key of newcomer?');
  const shown = await page.$eval('dialog dd', (one) => one.textContent);
  expect(/^([0-9a-f]{2}:){31}[0-9a-f]{2}$/.test(shown), `the question shows no fingerprint, but ${shown}`);
  await shot(page, config, 'keys-accept');
  await page.keyboard.press('Escape');
  await until(page, 'the question is gone', () => !document.querySelector('dialog'));
  await says(page, '.list .space [role=row]', 'newcomer');
  await press(page, 'main button', 'Accept');
  await press(page, 'dialog button', 'Accept');
  await says(page, '.chip', 'Accepted 4');
  await says(page, '.empty', 'No key is waiting');
}

async function deleteKey({ page, config }) {
  await go(page, '#/keys');
  await press(page, '.chip', 'Accepted');
  await says(page, '.list .space [role=row]', 'newcomer');
  await click(page, '.list .space .id', 'newcomer');
  await press(page, 'main button', 'Delete');
  await says(page, 'dialog', 'It is cut off');
  await shot(page, config, 'keys-delete');
  await press(page, 'dialog button', 'Cancel');
  await until(page, 'the question is gone', () => !document.querySelector('dialog'));
  await says(page, '.chip', 'Accepted 4');
}

async function runFails(state) {
  const { page, config, ids } = state;
  const bad = ids[1];
  await run(page, ids.join(','), 'cmd.run', `"test {{ grains.id }} != ${bad} || { echo it is broken; exit 3; }" template=jinja`, 'glob');
  // A list of ids is a list: as a glob it means nobody, and that is said.
  await says(page, '[role=alert]', 'Nobody is meant by this target');
  await page.select('.target select', 'list');
  await says(page, '.preview', '3 minions');
  await press(page, 'form.run button', 'Run on 3 minions');
  await finished(page);
  await says(page, '.summary', '1 failed');
  const cards = await texts(page, '.results .card h3');
  expect(cards.length === 3, `three results, not ${cards.length}`);
  expect(cards[0].includes('failed') && cards[0].includes(bad) && cards[0].includes('exit code 3'), `failures first, not ${cards[0]}`);
  expect((await texts(page, '.results .card pre'))[0] === 'it is broken', 'the output of the failure is shown');
  state.first = await jidShown(page);
  await shot(page, config, 'run-failed');
  await press(page, '.chip', 'failed 1');
  await until(page, 'failures alone', () => document.querySelectorAll('.results .card').length === 1);
}

async function runLive({ page, ids }) {
  // One answers at once, the others, which are on this host, after a file has appeared: the first result is there before the job is
  // over.
  const flag = path.join(tmpdir(), `halite-console-${process.pid}-${Date.now()}`);
  await run(page, ids.join(','), 'cmd.run', `"test {{ grains.id }} = ${ids[0]} || while ! test -e ${flag}; do sleep 0.1; done" template=jinja`);
  await says(page, '.results .card', ids[0]);
  await says(page, '.hint', 'Waiting for');
  expect(!(await page.$eval('.summary', (one) => one.textContent)).includes('Done'), 'the job is not over yet');
  await writeFile(flag, '');
  await finished(page);
  await rm(flag);
}

async function stop({ page, ids }) {
  await run(page, ids[0], 'cmd.run', '"sleep 300"');
  const jid = await says(page, '.job button', 'Stop the job').then(() => jidShown(page));
  // Somebody else finds it among what runs, and stops it there.
  await go(page, '#/jobs');
  await press(page, 'main button', 'What runs now?');
  await says(page, 'table code', 'sleep 300');
  await go(page, `#/job/${jid}`);
  await press(page, '.job button', 'Stop the job');
  await says(page, 'dialog', 'Stop this job?');
  await press(page, 'dialog button', 'Stop the job');
  await finished(page);
}

async function batch({ page, ids }) {
  await go(page, '#/run');
  await type(page, 'Target', ids.join(','));
  await page.select('.target select', 'list');
  await type(page, 'Function', 'test.ping');
  await page.click('.more summary');
  await type(page, 'Minions at a time', '1');
  await says(page, '.preview', 'minions');
  await press(page, 'form.run button', 'Run on');
  await finished(page);
  await says(page, '.summary', 'no failures');
  expect((await texts(page, '.job a')).length === 3, 'each batch is a job of its own');
}

async function completion({ page }) {
  await go(page, '#/run');
  await type(page, 'Function', 'test.ping');
  await says(page, '.doc', 'Returns');
  await until(page, 'functions to choose from', () => document.querySelectorAll('datalist#functions option').length > 100);
  await type(page, 'Arguments', '"not closed');
  await type(page, 'Target', '*');
  await page.keyboard.press('Enter');
  await says(page, '[role=alert]', 'a quote is not closed');
}

async function events({ page, config, ids }) {
  await go(page, '#/events');
  await type(page, 'Tag (glob)', 'salt/job/*/ret/*');
  await press(page, 'form button', 'Follow');
  await says(page, 'p[data-state=open]', 'Live.');
  await publish(page, ids[0], 'test.ping');
  await says(page, '.list .space .id', `/ret/${ids[0]}`);
  const tags = await texts(page, '.list .space .id');
  expect(tags.every((tag) => /^salt\/job\/\d+\/ret\//.test(tag)), `only what fits the filter, not ${tags}`);
  await click(page, '.list .space .line');
  await says(page, '.detail pre', 'test.ping');
  await shot(page, config, 'events');
  await press(page, 'form button', 'Pause');
  await publish(page, ids[0], 'test.echo', ['paused']);
  await says(page, '[role=status]', '1 have gone by');
  expect((await rows(page)).length === tags.length, 'nothing is added while it is paused');
}

/** A job, without the console. */
function publish(page, tgt, fun, arg = []) {
  return page.evaluate((low) => fetch('/', { method: 'POST', headers: { 'Content-Type': 'application/json', Accept: 'application/json' }, body: JSON.stringify(low) }).then((answer) => answer.json()), { client: 'local', tgt, fun, arg });
}

async function history({ page, config }) {
  await go(page, '#/jobs');
  await says(page, '.list .space .id', 'cmd.run');
  await shot(page, config, 'jobs');
  await page.type('input[type=search]', 'it is broken');
  await until(page, 'only jobs that fit', () => {
    const all = [...document.querySelectorAll('.list .space [role=row]')];
    return all.length > 0 && all.every((row) => row.textContent.includes('it is broken'));
  });
}

async function compare(state) {
  const { page, config, ids } = state;
  await run(page, ids.join(','), 'cmd.run', '"echo the same"');
  await finished(page);
  await run(page, ids.join(','), 'cmd.run', `"test {{ grains.id }} = ${ids[2]} && echo another || echo the same" template=jinja`);
  await finished(page);
  await go(page, '#/jobs');
  await says(page, '.list .space .id', 'cmd.run');
  // The two newest ones, by the keyboard.
  await page.focus('.list');
  for (const key of ['Home', 'Space', 'ArrowDown', 'Space']) await page.keyboard.press(key);
  await press(page, 'main button', 'Compare');
  await says(page, '.summary', 'Answered otherwise: 1.');
  await says(page, '.card h2', ids[2]);
  await says(page, '.diff del', 'the same');
  await says(page, '.diff ins', 'another');
  await shot(page, config, 'compare');
}

async function repeat({ page, first, config, ids }) {
  await go(page, `#/job/${first}`);
  await says(page, '.results .card h3', 'exit code 3');
  await shot(page, config, 'job');
  await press(page, 'main a', 'Repeat');
  await says(page, 'h1', 'Run');
  await says(page, '.preview', '3 minions');
  const value = (label) => input(page, label).then((one) => one.evaluate((it) => it.value));
  expect(await value('Function') === 'cmd.run', 'the function is there');
  expect((await value('Arguments')).includes('it is broken'), 'the arguments are there');
  await press(page, 'form.run button', 'Run on 3 minions');
  await finished(page);
  await says(page, '.summary', '1 failed');
  expect((await texts(page, '.results .card h3'))[0].includes(ids[1]), 'the same failure');
}

async function states({ page, config, ids }) {
  await run(page, ids.join(','), 'state.single', 'cmd.run name="echo hello"');
  await finished(page);
  await says(page, '.highstate', '1 changed');
  await run(page, ids[0], 'state.single', 'test.fail_without_changes name=broken');
  await finished(page);
  const failed = await jidShown(page);
  await go(page, '#/states');
  await says(page, '.summary', '1 failed');
  await says(page, '.card h2', 'broken');
  await go(page, `#/states/${failed}?tab=slow`);
  await says(page, 'table', 'test.fail_without_changes');
  await go(page, '#/states');
  const older = await page.$eval('.field select', (one) => one.options[1].value);
  await page.select('.field select', older);
  await until(page, 'the older run', (jid) => location.hash.includes(jid), older);
  await press(page, '.chip', 'Changes');
  await says(page, 'pre.value', 'hello');
  await shot(page, config, 'states');
}

async function others({ page, config }) {
  for (const [hash, text] of [['#/automation', 'Reactor'], ['#/gateways', ''], ['#/master', 'Requests that wait']]) {
    await go(page, hash);
    if (text) await says(page, 'h2, caption', text);
    expect((await page.$('.problem')) === null, `${hash} has a problem: ${await texts(page, '.problem')}`);
    await shot(page, config, hash.slice(2));
  }
}

async function german({ page, config }) {
  await go(page, '#/fleet');
  await page.select('footer .field:nth-child(2) select', 'de');
  await says(page, 'h1', 'Flotte');
  await says(page, '.list .space', 'verbunden');
  expect(await page.evaluate(() => document.documentElement.lang) === 'de', 'the language of the page is told');
  await shot(page, config, 'fleet-german');
  await page.select('footer .field:nth-child(2) select', 'en');
  await says(page, 'h1', 'Fleet');
}

async function allTexts({ page }) {
  const lacks = await page.evaluate(async () => {
    const { TEXTS, languages } = await import('/console/texts.js');
    return Object.entries(TEXTS).filter(([, all]) => all.length !== languages.length || all.some((text) => !text)).map(([key]) => key);
  });
  expect(!lacks.length, `a language lacks ${lacks}`);
}

async function hostile({ page, ids }) {
  const markup = '<img src=x onerror=window.broken=1><script>window.broken=1</script>';
  await run(page, ids[0], 'test.echo', `'${markup}'`);
  await finished(page);
  await says(page, '.results pre', '<script>');
  await go(page, `#/minion/${encodeURIComponent(markup)}`);
  await go(page, `#/run?fun=${encodeURIComponent(markup)}&tgt=${encodeURIComponent(markup)}`);
  expect(await page.evaluate(() => window.broken === undefined && !document.querySelector('main img, main script')), 'output became markup');
}

async function ended({ page, config }) {
  await go(page, '#/fleet');
  // As if the session had expired: the cookie of the browser goes.
  await page.evaluate(() => fetch('/logout', { method: 'POST', headers: { 'Content-Type': 'application/json', Accept: 'application/json' }, body: '{}' }));
  offences.mayBeRefused = true;
  // Unless a request that was on its way has found out already.
  await page.evaluate(() => [...document.querySelectorAll('main button')].find((one) => one.textContent === 'Refresh')?.click());
  await says(page, '.note', 'The session has ended.');
  await logIn(page, config.user, config.password);
  await says(page, 'h1', 'Fleet');
  await says(page, '.list .space', 'connected');
  offences.mayBeRefused = false;
}

export const steps = [
  ['wrong password', wrongPassword],
  ['log in', login],
  ['a reload keeps the session', reload],
  ['fleet shows three', fleet],
  ['preview of a target', preview],
  ['grains of a minion', grains],
  ['accept a key', acceptKey],
  ['question before a key is deleted', deleteKey],
  ['run: failures first', runFails],
  ['run: results come live', runLive],
  ['run: stop the job', stop],
  ['run: in batches', batch],
  ['run: documentation, and errors of input', completion],
  ['events with a filter, and a pause', events],
  ['history of jobs', history],
  ['compare two jobs', compare],
  ['repeat a job', repeat],
  ['states', states],
  ['automation, gateways, master', others],
  ['German', german],
  ['each text in each language', allTexts],
  ['output is no markup', hostile],
  ['the end of a session', ended],
];
