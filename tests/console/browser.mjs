// The browser of the tests: pages that note what they ought not to do, and ways to wait for what they ought to show.

import { createRequire } from 'node:module';
import { mkdir } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import puppeteer from 'puppeteer-core';

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

/** Longest wait for anything, in milliseconds. */
export const PATIENCE = Number(process.env.HALITE_CONSOLE_PATIENCE ?? 30) * 1000;
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

/** What the tests need to know; ends the program if something lacks. */
export function settings() {
  const lacks = [];
  const get = (name, fallback) => {
    const value = process.env[name] ?? fallback;
    if (value === undefined) lacks.push(name);
    return value;
  };
  const found = {
    url: get('HALITE_CONSOLE_URL'),
    user: get('HALITE_CONSOLE_USER'),
    password: get('HALITE_CONSOLE_PASSWORD'),
    narrowUser: get('HALITE_CONSOLE_NARROW_USER'),
    narrowPassword: get('HALITE_CONSOLE_NARROW_PASSWORD'),
    chromium: get('CHROMIUM', '/usr/bin/chromium'),
    shots: get('HALITE_CONSOLE_SHOTS', ''),
  };
  if (lacks.length) {
    console.error(`Set ${lacks.join(', ')}`);
    process.exit(2);
  }
  return found;
}

export function launch({ chromium }) {
  // As root, and in containers, there is no sandbox to be had. The certificate of a test is its own.
  const args = ['--no-sandbox', '--disable-dev-shm-usage', '--lang=en-GB'];
  return puppeteer.launch({ executablePath: chromium, args, acceptInsecureCerts: true, headless: true });
}

/** What went wrong on all pages: requests elsewhere, violations of the policy, errors. */
export const offences = { requests: [], policy: [], console: [], mayBeRefused: false };

/** A page in a context of its own: no cookie of another one. */
export async function open(browser, { url }, { width = 1280, height = 900, scheme = 'light' } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
  const { origin } = new URL(url);
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== origin) offences.requests.push(request.url());
  });
  page.on('pageerror', (error) => offences.console.push(`${page.url()}: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warn') return;
    const text = `${message.text()} (${message.location().url ?? ''})`;
    if (/Content Security Policy|TrustedHTML|TrustedScript/.test(text)) offences.policy.push(text);
    // A browser calls each answer of 401 an error; a wrong password and a page without a session have one.
    else if (!(offences.mayBeRefused ? /status of 401/ : /status of 401.*\/login\)/).test(text)) offences.console.push(text);
  });
  await page.evaluateOnNewDocument(() => {
    window.violations = [];
    document.addEventListener('securitypolicyviolation', (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  await page.goto(url, { waitUntil: 'load' });
  return page;
}

/** Waits until a function in the page says yes; `what` is for the sentence if it never does. */
export async function until(page, what, condition, ...args) {
  try {
    await page.waitForFunction(condition, { timeout: PATIENCE, polling: 50 }, ...args);
  } catch (error) {
    const text = await page.evaluate(() => document.querySelector('main')?.innerText ?? document.body.innerText).catch(() => '');
    throw new Error(`${what}: not within ${PATIENCE / 1000} s (${error.name}); the page says: ${text.replace(/\s+/g, ' ').slice(0, 500)}`);
  }
}

/** Waits for a text in an element. */
export const says = (page, selector, text) => until(page, `"${text}" in ${selector}`,
  (where, wanted) => [...document.querySelectorAll(where)].some((one) => one.textContent.includes(wanted)), selector, text);

/** The texts of all elements that fit. */
export const texts = (page, selector) => page.$$eval(selector, (all) => all.map((one) => one.textContent.trim()));

/** Clicks what has this text, or what contains it if nothing has it alone. */
export async function press(page, selector, text) {
  await says(page, selector, text);
  await click(page, selector, text);
}

/** Clicks the element with this text, or the first one. Lists are drawn anew whenever something happens: then the new one is clicked. */
export async function click(page, selector, text = '') {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await page.evaluateHandle((where, wanted) => {
      const all = [...document.querySelectorAll(where)];
      return all.find((one) => one.textContent === wanted) ?? all.find((one) => one.textContent.includes(wanted)) ?? null;
    }, selector, text);
    try {
      if (!found.asElement()) throw new Error(`${selector} is detached`);
      await found.asElement().click();
      return;
    } catch (error) {
      if (Date.now() > end || !/not clickable|detached/.test(error.message)) throw error;
    }
  }
}

/** The input that a label names. */
export async function input(page, label) {
  await says(page, 'label', label);
  const found = await page.evaluateHandle((text) => {
    const one = [...document.querySelectorAll('label')].find((each) => each.textContent === text);
    return document.getElementById(one?.htmlFor);
  }, label);
  if (!found.asElement()) throw new Error(`no input is labelled ${label}`);
  return found.asElement();
}

/** Types into the input that a label names, in the place of what it had. */
export async function type(page, label, text) {
  const found = await input(page, label);
  await found.focus();
  await found.evaluate((one) => one.select());
  await page.keyboard.press('Backspace');
  await page.keyboard.type(text);
}

export async function logIn(page, user, password) {
  await says(page, 'h1', 'Log in');
  await type(page, 'User', user);
  await type(page, 'Password', password);
  if ((await page.$('select[name=eauth]')) !== null) await page.select('select[name=eauth]', 'file');
  await page.keyboard.press('Enter');
}

/** Goes to a view by its address and waits for its title and the end of its loading. */
export async function go(page, hash) {
  await page.evaluate((to) => { location.hash = to; }, hash);
  await until(page, `view ${hash}`, (to) => location.hash === to && document.querySelector('h1')?.textContent && !document.querySelector('main [aria-busy], main .wait'), hash);
}

/** Violations of WCAG on a page, as sentences. */
export async function violations(page) {
  // The policy of the page would refuse a script element; this is not one.
  await page.evaluate(`if (!window.axe) { ${axe} }`);
  const found = await page.evaluate((tags) => window.axe.run(document, { runOnly: { type: 'tag', values: tags } }), RULES);
  return found.violations.flatMap((one) => one.nodes.map((node) => `${one.id} at ${node.target.join(' ')}: ${node.failureSummary.replace(/\s+/g, ' ')}`));
}

/** A picture of the page, if somebody wants some. */
export async function shot(page, { shots }, name) {
  if (!shots) return;
  await mkdir(shots, { recursive: true });
  await page.screenshot({ path: path.join(shots, `${name}.png`), fullPage: true });
}
