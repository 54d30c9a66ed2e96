// Logs in at an OpenID provider: `oidc-provider`, which is certified to conform, with its own pages for logins and consent. The master
// trusts it: `^issuer` is HALITE_CONSOLE_ISSUER, `^client_id` is `halite`, and its users are in the group `ops`.

import Provider from 'oidc-provider';
import { click, launch, offences, open, press, says, settings, texts, until } from './browser.mjs';
import { expect } from './steps.mjs';

const config = settings();
const issuer = process.env.HALITE_CONSOLE_ISSUER;
// What the provider was asked for, to look at.
const asked = [];

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'halite',
    client_secret: 'a secret: with & and +',
    redirect_uris: [new URL('/oidc/callback', config.url).href],
    token_endpoint_auth_method: process.env.HALITE_CONSOLE_CLIENT_AUTH ?? 'client_secret_basic',
  }],
  claims: { openid: ['sub'], groups: ['groups'] },
  conformIdTokenClaims: false,
  cookies: { keys: ['of this test'] },
  features: { devInteractions: { enabled: true } },
  findAccount: (context, id) => ({ accountId: id, claims: () => ({ sub: id, groups: id === 'mallory' ? [] : ['ops'] }) }),
  pkce: { required: () => true },
});
provider.use(async (context, next) => {
  asked.push({ path: context.path, query: { ...context.query } });
  await next();
});
const server = provider.listen(Number(new URL(issuer).port), '127.0.0.1');
const browser = await launch(config);
let failed = 0;

async function play(name, step) {
  try {
    await step();
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`not ok ${name}: ${String(error.message).replace(/\s*\n\s*/g, ' ')}`);
  }
}

/** From the console to the provider, and through its pages as this user. */
async function throughProvider(user) {
  const page = await open(browser, config);
  await press(page, 'a', 'Company login');
  await page.waitForSelector('input[name=login]');
  await page.type('input[name=login]', user);
  await page.type('input[name=password]', 'any');
  await click(page, 'button[type=submit]');
  await until(page, 'consent', () => document.body.innerText.includes('Authorize'));
  await click(page, 'button[type=submit]');
  return page;
}

await play('log in at the provider', async () => {
  const page = await throughProvider('carol');
  await says(page, 'h1', 'Fleet');
  const [who] = await texts(page, '.who');
  expect(who === 'carol', `it is ${who}`);
  const begun = asked.find((one) => one.path === '/auth').query;
  expect(begun.code_challenge_method === 'S256' && begun.state && begun.nonce, 'PKCE, state and nonce are missing');
  const cookies = await page.browserContext().cookies();
  const session = cookies.find((one) => one.name === 'session_id');
  expect(session?.httpOnly && session.sameSite === 'Strict', 'the cookie of the session is not strict');
  expect(!cookies.some((one) => one.name.endsWith('oidc')), 'the cookie of the attempt is left');
  await press(page, 'button', 'Log out');
  await says(page, 'h1', 'Log in');
});

await play('a user without permissions', async () => {
  const page = await throughProvider('mallory');
  await says(page, '[role=alert]', 'not accepted');
});

await play('a login that is broken off', async () => {
  const page = await open(browser, config);
  await press(page, 'a', 'Company login');
  await page.waitForSelector('input[name=login]');
  await click(page, 'a', 'Cancel');
  await says(page, '[role=alert]', 'not accepted');
});

await play('an answer that nobody has asked for', async () => {
  const page = await open(browser, config);
  await page.goto(new URL('/oidc/callback?code=x&state=y', config.url).href);
  await says(page, '[role=alert]', 'not accepted');
});

await play('the answer to the login of somebody else', async () => {
  // The attacker stops on the way back, and has the victim go on.
  const attacker = await open(browser, config);
  let stolen;
  await attacker.setRequestInterception(true);
  attacker.on('request', (request) => {
    if (new URL(request.url()).pathname !== '/oidc/callback') return request.continue();
    stolen = request.url();
    return request.abort();
  });
  await press(attacker, 'a', 'Company login');
  await attacker.waitForSelector('input[name=login]');
  await attacker.type('input[name=login]', 'attacker');
  await attacker.type('input[name=password]', 'any');
  await click(attacker, 'button[type=submit]');
  await until(attacker, 'consent', () => document.body.innerText.includes('Authorize'));
  await attacker.click('button[type=submit]').catch(() => {});
  const end = Date.now() + 30_000;
  while (!stolen && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 20));
  const victim = await open(browser, config);
  await press(victim, 'a', 'Company login');
  await victim.waitForSelector('input[name=login]');
  await victim.goto(stolen);
  await says(victim, '[role=alert]', 'not accepted');
});

await play('no violation of the security policy', () => {
  const own = offences.policy.filter((text) => !text.includes(issuer));
  if (own.length) throw new Error(own.join('; '));
});
await browser.close();
server.close();
process.exit(failed ? 1 : 0);
