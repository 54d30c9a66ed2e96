// Plays what people do with the console, in a browser, against a master that runs: three accepted minions, and a key `newcomer` that
// waits. Prints `ok` or `not ok` for each step; exits with 1 if one failed.
//
//     HALITE_CONSOLE_URL=http://127.0.0.1:8000/ HALITE_CONSOLE_USER=… HALITE_CONSOLE_PASSWORD=… \
//     HALITE_CONSOLE_NARROW_USER=… HALITE_CONSOLE_NARROW_PASSWORD=… node run.mjs [name of a step ...]

import { launch, offences, settings, shot } from './browser.mjs';
import { steps } from './steps.mjs';
import { limits } from './limits.mjs';

const config = settings();
const wanted = process.argv.slice(2);
const browser = await launch(config);
const state = { config, browser };
let failed = 0;

async function play(name, step) {
  if (wanted.length && !wanted.includes(name) && name !== 'log in') return;
  try {
    await step(state);
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`not ok ${name}: ${String(error.message).replace(/\s*\n\s*/g, ' ')}`);
    const pages = await browser.pages();
    await shot(pages.at(-1), config, `failed-${name.replace(/\W+/g, '-')}`).catch(() => {});
  }
}

function nothing(list) {
  if (list.length) throw new Error([...new Set(list)].slice(0, 5).join('; '));
}

for (const [name, step] of [...steps, ...limits]) await play(name, step);
await play('no request to another origin', () => nothing(offences.requests));
await play('no violation of the security policy', () => nothing(offences.policy));
await play('no error in the console of the browser', () => nothing(offences.console));
await browser.close();
process.exit(failed ? 1 : 0);
