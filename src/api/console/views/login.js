// The form of login.

import * as api from '../api.js';
import { problem } from '../state.js';
import { choice, element, field, fill } from '../dom.js';
import { forget } from '../functions.js';
import { t } from '../texts.js';

/** Shows the form; `begin` gets the session. `why` is a sentence about what ended the last one. */
export async function logInForm(main, why, begin) {
  document.title = `${t('login')} – halite`;
  forget();
  const error = element('div', { 'aria-live': 'assertive' });
  const user = element('input', { type: 'text', name: 'username', autocomplete: 'username', autocapitalize: 'off', spellcheck: 'false', required: true });
  const password = element('input', { type: 'password', name: 'password', autocomplete: 'current-password', required: true });
  const system = element('div');
  const act = element('button', { type: 'submit', class: 'main' }, t('login'));
  let eauths = [];
  const form = element('form', { class: 'login', novalidate: true }, field(t('login.user'), user), field(t('login.password'), password), system, act, error);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const lacks = [user, password].find((input) => !input.value);
    if (lacks) {
      fill(error, problem(new Error(t(lacks === user ? 'login.lacks.user' : 'login.lacks.password'))));
      lacks.focus();
      return;
    }
    act.disabled = true;
    fill(error, element('p', { class: 'wait' }, t('login.wait')));
    try {
      await api.logIn(user.value, password.value, system.querySelector('select')?.value ?? eauths[0] ?? 'pam');
      password.value = '';
      const session = await api.session();
      if (!session) throw new api.ApiError(200, t('login.cookie'));
      begin(session);
    } catch (e) {
      act.disabled = false;
      const text = e.status === 401 ? new Error(t('login.wrong')) : e;
      fill(error, problem(text, e.status === 401 ? t('login.wrong.advice') : ''));
      password.focus();
      password.select();
    }
  });
  fill(main, element('h1', { tabindex: '-1' }, t('login')), why ? element('p', { class: 'note', role: 'alert' }, why) : null, form);
  user.focus();
  try {
    const found = await api.settings();
    eauths = found.eauths ?? [];
    if (found.oidc) {
      // A page of the service, which sends the browser to the provider.
      main.append(element('p', { class: 'login' }, element('a', { class: 'button main', href: '/oidc/login' }, found.oidc.title || t('login.oidc'))));
      form.hidden = !eauths.length;
      if (form.hidden) fill(error);
    }
    if (!eauths.length && !found.oidc) fill(error, problem(new Error(t('login.none')), t('login.none.advice')));
    if (eauths.length > 1) fill(system, field(t('login.eauth'), choice(eauths.map((name) => [name, name]), eauths[0], { name: 'eauth' })));
    main.append(element('p', { class: 'dim version' }, `halite ${found.version ?? ''}`));
  } catch (e) {
    fill(error, problem(e));
  }
}
