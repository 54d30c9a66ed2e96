// What holds for the whole console: narrow rights, the keyboard alone, readers of screens, phones, and large fleets.

import { click, go, input, logIn, open, says, shot, texts, until, violations } from './browser.mjs';
import { expect } from './steps.mjs';

const VIEWS = ['#/fleet', '#/run', '#/jobs', '#/states', '#/keys', '#/events', '#/automation', '#/gateways', '#/master'];
/** Most presses of the Tab key until something is reached. */
const TABS = 60;

async function narrow({ browser, config }) {
  const page = await open(browser, config);
  await logIn(page, config.narrowUser, config.narrowPassword);
  await says(page, 'h1', 'Run');
  const offered = await texts(page, 'nav a');
  expect(offered.join() === 'Run', `a user with test.* alone is offered ${offered}`);
  // An address that is typed does not lead further.
  for (const hash of ['#/keys', '#/events', '#/fleet', '#/master']) {
    await page.evaluate((to) => { location.hash = to; }, hash);
    await until(page, hash, (to) => location.hash === to && document.querySelector('h1').textContent === 'Run', hash);
  }
  await says(page, '.hint', 'You may run: test.*');
  const [target, fun] = [await input(page, 'Target'), await input(page, 'Function')];
  await target.type('*');
  await fun.type('cmd.run');
  await page.keyboard.press('Enter');
  await says(page, '[role=alert]', 'This account may not run cmd.run.');
  await fun.evaluate((one) => { one.value = ''; });
  await fun.type('test.ping');
  await page.keyboard.press('Enter');
  // Nobody knows how many that are.
  await says(page, 'dialog', 'Run this on all that * means?');
  await page.click('dialog .main');
  await says(page, '.summary', 'Done:');
  expect(!(await texts(page, 'button')).some((text) => text.includes('Stop')), 'no job can be stopped without the right to');
  await shot(page, config, 'narrow');
  await page.browserContext().close();
}

/** Presses Tab until what is focused fits. */
async function tabTo(page, what, fits, ...args) {
  for (let count = 0; count < TABS; count += 1) {
    if (await page.evaluate(fits, ...args)) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`${what} is not reached within ${TABS} presses of Tab`);
}

const isLabelled = (label) => {
  const one = document.activeElement;
  return [...(one?.labels ?? [])].some((each) => each.textContent === label);
};
const hasText = (text) => document.activeElement !== document.body && document.activeElement.textContent === text;

async function keyboard({ browser, config }) {
  const page = await open(browser, config);
  await says(page, 'h1', 'Log in');
  await until(page, 'the version', () => document.querySelector('.version'));
  await tabTo(page, 'User', isLabelled, 'User');
  await page.keyboard.type(config.user);
  await tabTo(page, 'Password', isLabelled, 'Password');
  await page.keyboard.type(config.password);
  if ((await page.$('select[name=eauth]')) !== null) {
    await tabTo(page, 'Checked by', isLabelled, 'Checked by');
    await page.keyboard.type('file');
  }
  await tabTo(page, 'the button', () => document.activeElement.type === 'submit');
  await page.keyboard.press('Enter');
  await says(page, 'h1', 'Fleet');
  // The skip link is the first stop of a page.
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('Tab');
  await tabTo(page, 'Run in the navigation', () => document.activeElement.dataset.view === 'run');
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  expect(ring !== 'none', 'the focus is not to be seen');
  await page.keyboard.press('Enter');
  await says(page, 'h1', 'Run');
  await tabTo(page, 'Target', isLabelled, 'Target');
  await page.keyboard.type('*');
  await tabTo(page, 'Function', isLabelled, 'Function');
  await page.keyboard.type('test.ping');
  await says(page, '.preview', 'minions');
  await page.keyboard.press('Escape');
  await tabTo(page, 'Run', () => document.activeElement.type === 'submit');
  await page.keyboard.press('Enter');
  await says(page, '.summary', 'Done:');
  await until(page, 'a sentence for readers of screens', () => document.querySelector('.unseen[role=status]').textContent.includes('Done:'));
  await tabTo(page, 'the output', hasText, 'True\n');
  // A list is one stop, in which arrows move.
  await go(page, '#/fleet');
  await says(page, '.list .space', 'connected');
  await tabTo(page, 'the list', () => document.activeElement.getAttribute('role') === 'grid');
  await page.keyboard.press('ArrowDown');
  const active = await page.evaluate(() => document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).getAttribute('aria-rowindex'));
  expect(active === '3', `the second row is the active one, not ${active}`);
  await page.keyboard.press('Enter');
  await says(page, 'h1', 'Minion');
  await page.browserContext().close();
}

function accessible(scheme) {
  return async ({ browser, config, ids, first }) => {
    const page = await open(browser, config, { scheme });
    const found = [];
    const look = async (name) => {
      (await violations(page)).forEach((text) => found.push(`${name}: ${text}`));
      await shot(page, config, `${name.replace(/\W+/g, '-')}-${scheme}`);
    };
    await says(page, 'h1', 'Log in');
    await look('login');
    await logIn(page, config.user, config.password);
    await says(page, 'h1', 'Fleet');
    const more = [...(ids ? [`#/minion/${ids[0]}`] : []), ...(first ? [`#/job/${first}`, `#/run?tgt=*&fun=test.ping`] : [])];
    for (const hash of [...VIEWS, ...more]) {
      await go(page, hash);
      if (hash.includes('?')) {
        await until(page, 'the button', () => document.querySelector('form.run .main').textContent.includes('minions'));
        await page.click('form.run .main');
        await says(page, '.summary', 'Done:');
      }
      await look(hash.replace(/[#?].*?(\w+).*/, '$1'));
    }
    await go(page, '#/keys');
    await says(page, '.chip', 'Accepted');
    const chips = await page.$$('.chip');
    await chips[2].click();
    await says(page, '.list .space .finger', ':');
    await click(page, '.list .space .id');
    await page.click('button.danger');
    await says(page, 'dialog', '?');
    await look('dialog');
    expect(!found.length, `${found.length} violations: ${found.slice(0, 4).join(' | ')}`);
    await page.browserContext().close();
  };
}

async function phone({ browser, config, first }) {
  const page = await open(browser, config, { width: 360, height: 740 });
  const wide = [];
  const measure = async (name) => {
    const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    if (over > 0) wide.push(`${name} by ${over} px`);
    const small = await page.$$eval('main button, main select, main input, nav button, header button, footer select', (all) => all.filter((one) => one.offsetParent && (one.offsetWidth < 24 || one.offsetHeight < 24)).map((one) => one.textContent || one.type));
    expect(!small.length, `${name}: too small to touch: ${small}`);
    await shot(page, config, `phone-${name.replace(/\W+/g, '-')}`);
  };
  await says(page, 'h1', 'Log in');
  await measure('login');
  await logIn(page, config.user, config.password);
  await says(page, 'h1', 'Fleet');
  for (const hash of [...VIEWS, ...(first ? [`#/job/${first}`] : [])]) {
    await go(page, hash);
    await measure(hash);
  }
  await page.click('nav .toggle');
  await until(page, 'the menu', () => document.querySelector('nav a').offsetParent !== null);
  await measure('menu');
  expect(!wide.length, `scrolls sideways: ${wide.join(', ')}`);
  await page.browserContext().close();
}

/** Answers in the place of the service, as from a fleet of this size. */
async function pretend(page, count) {
  const ids = Array.from({ length: count }, (_, at) => `host-${at}`);
  // The last one is not connected.
  const present = ids.slice(0, -1);
  const grains = { osfinger: 'Debian-12', saltversion: '3008.3' };
  const ofEach = (value) => (kwarg) => Object.fromEntries(kwarg.tgt.map((id) => [id, value]));
  const answers = {
    'fleet.match': () => ids,
    'fleet.seen': ofEach('2026-11-01T12:00:00Z'),
    'manage.present': (kwarg) => (kwarg.show_ip ? Object.fromEntries(present.map((id, at) => [id, `10.0.${at >> 8}.${at & 255}`])) : present),
    'cache.grains': ofEach(grains),
  };
  const asked = { most: 0 };
  await page.setRequestInterception(true);
  page.on('request', (request) => {
    const low = request.method() === 'POST' && request.url().endsWith('/') ? JSON.parse(request.postData() ?? '{}') : {};
    const kwarg = low.kwarg ?? {};
    if (low.client === 'runner' && low.fun in answers) {
      if (low.fun === 'cache.grains') asked.most = Math.max(asked.most, kwarg.tgt.length);
      const data = { fun: `runner.${low.fun}`, success: true, return: answers[low.fun](kwarg) };
      request.respond({ contentType: 'application/json', body: JSON.stringify({ return: [{ tag: 'salt/run/0/ret', data }] }) });
    } else if (low.client === 'local_async') {
      request.respond({ contentType: 'application/json', body: JSON.stringify({ return: [{ jid: '20260101000000000000', minions: ids }] }) });
    } else if (request.url().endsWith('/jobs/20260101000000000000/events')) {
      const one = (id, at) => `event: return\ndata: ${JSON.stringify({ id, return: at % 100 ? true : 'broken', retcode: at % 100 ? 0 : 1, success: at % 100 !== 0 })}\n\n`;
      request.respond({ contentType: 'text/event-stream', body: `${ids.map(one).join('')}event: done\ndata: {"missing": []}\n\n` });
    } else request.continue();
  });
  return asked;
}

async function large({ browser, config }) {
  const COUNT = 10_000;
  const page = await open(browser, config);
  await logIn(page, config.user, config.password);
  await says(page, 'h1', 'Fleet');
  const asked = await pretend(page, COUNT);
  await page.evaluate(() => { location.hash = '#/jobs'; });
  await says(page, 'h1', 'Jobs');
  await go(page, '#/fleet');
  await says(page, '[role=status]', `${COUNT} of ${COUNT} minions`);
  await until(page, 'rows', () => document.querySelectorAll('.list .space [role=row]').length > 5);
  expect(await page.$eval('.list', (one) => one.getAttribute('aria-rowcount')) === String(COUNT + 1), 'the number of rows is told');
  // Through all of it, in steps of a screen: each draws within a moment.
  const slowest = await page.evaluate(async () => {
    const list = document.querySelector('.list');
    let most = 0;
    for (let top = 0; top < list.scrollHeight; top += list.scrollHeight / 200) {
      const before = performance.now();
      list.scrollTop = top;
      await new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); });
      most = Math.max(most, performance.now() - before);
    }
    return most;
  });
  expect(slowest < 500, `a step of scrolling took ${Math.round(slowest)} ms`);
  await page.focus('.list');
  await page.keyboard.press('End');
  await says(page, '.list .space .id', `host-${COUNT - 1}`);
  await until(page, 'grains of the last row', () => document.querySelector('.list .active').textContent.includes('Debian-12'));
  const seen = await page.$$eval('.list .space [role=row]', (rows) => rows.filter((row) => row.textContent.includes('2026')).map((row) => row.querySelector('.id').textContent));
  expect(seen.join() === `host-${COUNT - 1}`, `those that are away have a time, not ${seen}`);
  const drawn = (await page.$$('.list .space [role=row]')).length;
  expect(drawn < 60, `${drawn} rows are in the page`);
  expect(asked.most < 60, `grains of ${asked.most} minions were asked for at once`);
  await shot(page, config, 'large');
  // A job to all of them.
  await go(page, '#/run?tgt=*&fun=test.ping');
  await says(page, 'form.run .main', `Run on ${COUNT} minions`);
  await page.click('form.run .main');
  await says(page, 'dialog', `Run this on ${COUNT} minions?`);
  await page.click('dialog .main');
  await says(page, '.summary', `Done: ${COUNT} of ${COUNT} answered`);
  await says(page, '.summary', '100 failed');
  const top = (await texts(page, '.results .list .space [role=row]')).slice(0, 5);
  expect(top.every((text) => text.includes('failed')), `failures first, not ${top}`);
  await click(page, '.results .list .space .id');
  await says(page, '.detail pre', 'broken');
  await shot(page, config, 'large-run');
  await page.browserContext().close();
}

async function noViolations({ page }) {
  const found = await page.evaluate(() => window.violations);
  expect(!found.length, found.join('; '));
  const policy = await page.evaluate(() => fetch('/', { headers: { Accept: 'text/html' } }).then((answer) => answer.headers.get('content-security-policy') ?? ''));
  expect(/default-src 'none'/.test(policy) && !/unsafe|data:|\*/.test(policy), `the policy of the page is ${policy}`);
}

export const limits = [
  ['a user with few rights is offered few things', narrow],
  ['the keyboard alone', keyboard],
  ['WCAG 2.2 AA, light', accessible('light')],
  ['WCAG 2.2 AA, dark', accessible('dark')],
  ['phone width', phone],
  ['10 000 minions', large],
  ['strict security policy', noViolations],
];
