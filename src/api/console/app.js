// The frame of the console: session, navigation, and which view is shown. A view is `#/name/…?…` and a function that fills a place.

import * as api from './api.js';
import { app, problem } from './state.js';
import { Permissions } from './permissions.js';
import { button, choice, element, field, fill } from './dom.js';
import { language, languages, setLanguage, t } from './texts.js';
import { logInForm } from './views/login.js';
import * as fleet from './views/fleet.js';
import * as minion from './views/minion.js';
import * as run from './views/run.js';
import * as jobs from './views/jobs.js';
import * as job from './views/job.js';
import * as compare from './views/compare.js';
import * as keys from './views/keys.js';
import * as states from './views/states.js';
import * as events from './views/events.js';
import * as automation from './views/automation.js';
import * as gateways from './views/gateways.js';
import * as master from './views/master.js';

const VIEWS = { fleet, minion, run, keys, jobs, job, compare, states, events, automation, gateways, master };
/** Those of the navigation, in its order; the others are reached from these. */
const LISTED = ['fleet', 'run', 'jobs', 'states', 'keys', 'events', 'automation', 'gateways', 'master'];
/** The listed view that a view belongs to. */
const PART_OF = { minion: 'fleet', job: 'jobs', compare: 'jobs' };
const THEMES = ['auto', 'light', 'dark'];

let leave = null;
const status = element('p', { class: 'unseen', role: 'status' });
let said = 0;

/** Tells readers of screens what has changed; what follows at once takes its place. */
app.say = (text) => {
  clearTimeout(said);
  said = setTimeout(() => fill(status, text), 150);
};

app.go = (hash) => {
  if (location.hash === hash) route();
  else location.hash = hash;
};

function offered() {
  return LISTED.filter((name) => VIEWS[name].isOffered(app.permissions));
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  localStorage.setItem('halite-theme', name);
}

/** What a reader may set for this browser: colours and language. */
function foot() {
  const theme = choice(THEMES.map((name) => [name, t(`theme.${name}`)]), document.documentElement.dataset.theme, {
    onchange: (event) => setTheme(event.target.value),
  });
  const tongue = choice(languages, language(), {
    onchange: (event) => {
      setLanguage(event.target.value);
      start();
    },
  });
  return element('footer', {}, field(t('theme'), theme), field(t('language'), tongue));
}

function bar() {
  const session = app.session && [
    element('span', { class: 'who' }, app.session.user),
    button(t('logout'), async () => {
      try {
        await api.logOut();
        end(t('logout.done'));
      } catch (error) {
        // A session that has ended needs no end.
        if (error.status === 401) end(t('logout.done'));
        else end(t('logout.failed', { why: error.message }));
      }
    }, 'quiet'),
  ];
  return element('header', { class: 'bar' },
    element('a', { class: 'skip', href: '#main', onclick: (event) => {
      event.preventDefault();
      document.querySelector('main').focus();
    } }, t('skip')),
    element('a', { class: 'mark', href: '#/' }, element('img', { src: '/console/icon.svg', alt: '', width: 24, height: 24 }), 'halite'),
    element('div', { class: 'session' }, session));
}

function navigation() {
  const list = element('ul', { id: 'views' }, offered().map((name) =>
    element('li', {}, element('a', { href: `#/${name}`, 'data-view': name }, t(`nav.${name}`)))));
  const toggle = element('button', {
    type: 'button', class: 'toggle', 'aria-expanded': 'false', 'aria-controls': 'views',
    onclick: () => toggle.setAttribute('aria-expanded', String(toggle.getAttribute('aria-expanded') !== 'true')),
  }, t('menu'));
  return element('nav', { 'aria-label': t('views') }, toggle, list);
}

/** The form of login in the place of everything, with a sentence that says why. */
async function end(why) {
  leave?.();
  leave = null;
  app.session = null;
  const main = element('main', { id: 'main', class: 'narrow', tabindex: '-1' });
  fill(document.body, bar(), main, foot(), status);
  await logInForm(main, why, (session) => begin(session));
}

function begin(session) {
  app.session = session;
  app.permissions = new Permissions(session.perms, session.clients);
  const main = element('main', { id: 'main', tabindex: '-1' });
  fill(document.body, bar(), element('div', { class: 'frame' }, navigation(), main), foot(), status);
  route();
}

/** A part of the address; as it stands if somebody has typed it wrong. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Shows the view that the address names. */
function route() {
  if (!app.session) return;
  leave?.();
  leave = null;
  document.querySelectorAll('dialog').forEach((dialog) => dialog.remove());
  const main = document.querySelector('main');
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').map(decoded);
  const known = offered();
  const name = Object.hasOwn(VIEWS, parts[0]) && VIEWS[parts[0]].isOffered(app.permissions) ? parts[0] : known[0];
  document.querySelectorAll('nav a').forEach((link) => {
    if (link.dataset.view === (PART_OF[name] ?? name)) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  });
  document.querySelector('nav .toggle').setAttribute('aria-expanded', 'false');
  if (!name) {
    fill(main, element('h1', { tabindex: '-1' }, t('nothing')), element('p', {}, t('nothing.advice')));
    return;
  }
  const title = element('h1', { tabindex: '-1' });
  const place = element('div', { class: 'view' });
  fill(main, title, place);
  const setTitle = (text, ...more) => {
    fill(title, text, ...more);
    document.title = `${title.textContent} – halite`;
  };
  setTitle(t(`nav.${PART_OF[name] ?? name}`));
  scrollTo(0, 0);
  title.focus({ preventScroll: true });
  try {
    leave = VIEWS[name].show(place, parts.slice(1), new URLSearchParams(query), setTitle) ?? null;
  } catch (error) {
    fill(place, problem(error));
  }
}

async function start() {
  document.documentElement.lang = language();
  try {
    const session = await api.session();
    if (session) begin(session);
    else {
      // Where a login at an OpenID provider ends if it fails.
      const isRefused = location.hash === '#/login/refused';
      if (isRefused) history.replaceState(null, '', '#/');
      await end(isRefused ? t('login.refused') : '');
    }
  } catch (error) {
    fill(document.body, bar(), element('main', { id: 'main', class: 'narrow', tabindex: '-1' },
      element('h1', {}, 'halite'), problem(error), button(t('again'), start)), foot(), status);
  }
}

api.hooks.ended = () => app.session && end(t('ended'));
document.documentElement.dataset.theme = localStorage.getItem('halite-theme') ?? 'auto';
addEventListener('hashchange', route);
start();
