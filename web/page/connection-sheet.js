// The connection sheet: which hub, the signed-in identity, and the user whom an administrator acts as.

import { button, element, field, setText, textInput } from './dom.js';
import { SignInOffer, whereSecretsAre } from './offers.js';

const ways = [['account', 'Account'], ['guest', 'Guest'], ['token', 'Token, secret']];

export class SignIn {
  #hub;
  #dialog;
  #parts = {};
  #way = 'account';

  constructor(hub) {
    this.#hub = hub;
    this.#dialog = this.#build();
    document.body.append(this.#dialog);
    hub.on('connection', () => { if (this.#dialog.open) this.#paint(); });
    hub.on('signIn', (way) => this.open(way));
  }

  /** The page's identity, in a few words. */
  get who() {
    const { credentials, realtime, identity } = this.#hub;
    if (!identity) return credentials.kind === 'visitor' || realtime.authFault ? 'Visitor' : credentials.name || 'Signing in';
    if (identity.acting) return identity.uid === null ? 'As a visitor' : `As ${identity.uid}`;
    if (identity.admin) return 'Administrator';
    if (credentials.name) return credentials.name;
    return credentials.kind === 'guest' ? `Guest ${String(identity.uid ?? credentials.uid).slice(0, 6)}` : `User ${identity.uid ?? ''}`;
  }

  /** way: the sign-in method to begin with; by default the last one. */
  open(way) {
    const { host, ns } = this.#hub;
    if (way) this.#way = way;
    this.#parts.host.value = host;
    this.#parts.ns.value = ns;
    setText(this.#parts.result, '');
    this.#paint();
    if (!this.#dialog.open) this.#dialog.showModal();
    if (way === 'token') this.#parts.token.focus();
    this.#offerDatabases();
    this.#parts.offer.update();
  }

  /** For administrators. */
  async #offerDatabases() {
    const { isAdministrator, request } = await import('./administration.js');
    const found = isAdministrator(this.#hub) ? await request(this.#hub, '/.inspect/databases.json').catch(() => []) : [];
    this.#parts.databases.replaceChildren(...found.map(({ name }) => element('option', { value: name })));
  }

  #build() {
    const p = this.#parts, hub = this.#hub;
    const host = textInput({ name: 'host', id: 'host' }), hostField = field('Host', host);
    const ns = textInput({ name: 'ns', id: 'ns', list: 'databases' }), nsField = field('Database', ns);
    p.databases = element('datalist', { id: 'databases' });
    const email = textInput({ type: 'email', id: 'email', autocomplete: 'off' }), emailField = field('E-mail address', email);
    const password = textInput({ type: 'password', id: 'password', autocomplete: 'off' }), passwordField = field('Password', password);
    const token = textInput({ type: 'password', id: 'token', 'aria-describedby': 'token-hint' }), tokenField = field('Token of a user, or an administrator’s secret', token);
    const uid = textInput({ id: 'act-uid', spellcheck: 'false' }), uidField = field('Act as the user with this id (empty: a visitor)', uid);
    const claims = textInput({ id: 'act-claims', placeholder: '' }), claimsField = field('Claims as JSON, if the rules ask for any', claims);
    Object.assign(p, { host, ns, email, password, token, uid, claims });

    const hubForm = element('form', { onsubmit: (event) => { event.preventDefault(); this.#move(); } },
      element('div', { class: 'row' }, hostField, nsField, p.databases, element('button', { class: 'button', id: 'connect-button' }, 'Connect')));

    p.now = element('h3', {});
    p.offer = new SignInOffer(hub, { done: () => this.#dialog.close() });
    p.out = button('Sign out', () => { hub.credentials.clear(); this.#paint(); }, { id: 'sign-out' });
    p.ways = element('div', { class: 'switch wide', role: 'group', 'aria-label': 'Way to sign in' },
      ...ways.map(([way, title]) => element('button', { type: 'button', 'data-way': way, onclick: () => { this.#way = way; setText(p.result, ''); this.#paint(); } }, title)));
    p.account = element('div', { class: 'ways' }, emailField, passwordField,
      element('div', { class: 'row' }, element('button', { class: 'button primary', id: 'sign-in' }, 'Sign in'), button('Create an account', () => this.#enter('signUp'), { id: 'sign-up' })));
    p.guest = element('div', { class: 'ways' }, element('p', { class: 'hint' }, 'A guest is a user without address and password: a new one each time.'),
      element('div', { class: 'row' }, element('button', { class: 'button primary', id: 'be-guest' }, 'Continue as a guest')));
    p.tokenPart = element('div', { class: 'ways' }, tokenField,
      element('p', { class: 'hint', id: 'token-hint' }, `${whereSecretsAre} What you type stays in this page: it is never stored and never part of the link.`),
      element('div', { class: 'row' }, element('button', { class: 'button primary', id: 'use-token' }, 'Use it')));
    p.result = element('p', { class: 'result bad', role: 'alert', id: 'sign-in-result' });
    const signForm = element('form', { onsubmit: (event) => { event.preventDefault(); this.#enter(); }, novalidate: true, id: 'sign-in-form' },
      element('div', { class: 'row' }, p.now, p.out), p.ways, p.account, p.guest, p.tokenPart, p.result, p.offer.element);

    p.actForm = element('form', { onsubmit: (event) => { event.preventDefault(); this.#act(); }, id: 'act-form' },
      element('h3', {}, 'Act as another user'), uidField, claimsField,
      element('p', { class: 'hint' }, 'Reads and writes are then decided by the rules as if that user had asked.'),
      element('div', { class: 'row' }, element('button', { class: 'button', id: 'act' }, 'Act as this user'),
        p.self = button('As myself again', () => { hub.credentials.act(undefined); this.#paint(); }, { id: 'act-self' })));
    const close = button('×', () => this.#dialog.close(), { class: 'icon', 'aria-label': 'Close' });
    return element('dialog', { class: 'sign-in', 'aria-label': 'Connection and sign-in', onclick: (event) => { if (event.target === this.#dialog) this.#dialog.close(); } },
      element('header', { class: 'pane-head' }, element('h2', {}, 'Connection'), close), hubForm, signForm, p.actForm);
  }

  #paint() {
    const p = this.#parts, { credentials, realtime } = this.#hub;
    setText(p.now, credentials.kind === 'visitor' ? 'Sign in' : this.who);
    p.out.hidden = credentials.kind === 'visitor';
    p.offer.element.hidden = credentials.kind !== 'visitor';
    for (const [way, part] of [['account', p.account], ['guest', p.guest], ['token', p.tokenPart]]) part.hidden = way !== this.#way;
    for (const button of p.ways.children) button.setAttribute('aria-pressed', String(button.dataset.way === this.#way));
    p.actForm.hidden = !(credentials.isSecret && realtime.identity?.admin);
    p.self.hidden = credentials.actAs === undefined;
  }

  #move() {
    const { host, ns } = this.#parts;
    const typed = host.value.trim().replace(/^\w+:\/\//, '').replace(/\/.*$/, '');
    const wanted = { host: typed === location.host ? '' : typed, ns: ns.value.trim() || 'default' };
    const same = wanted.host === this.#hub.link.host && wanted.ns === this.#hub.link.ns;
    if (same) this.#hub.connect(); else this.#hub.go(wanted);
    this.#dialog.close();
  }

  async #enter(action) {
    const p = this.#parts, { credentials } = this.#hub;
    const buttons = [...this.#dialog.querySelectorAll('#sign-in-form button')];
    setText(p.result, '');
    for (const button of buttons) button.disabled = true;
    try {
      if (this.#way === 'guest') await credentials.beGuest();
      else if (this.#way === 'token') { credentials.paste(p.token.value); p.token.value = ''; }
      else await credentials[action ?? 'signIn'](p.email.value.trim(), p.password.value);
      p.password.value = '';
      this.#dialog.close();
    } catch (fault) {
      setText(p.result, fault.message);
    } finally {
      for (const button of buttons) button.disabled = false;
      this.#paint();
    }
  }

  #act() {
    const { uid, claims, result } = this.#parts;
    const name = uid.value.trim();
    let token = {};
    try {
      if (claims.value.trim()) token = JSON.parse(claims.value);
      if (token === null || typeof token !== 'object' || Array.isArray(token)) throw new Error();
    } catch {
      setText(result, 'Claims are a JSON object, such as {"role":"staff"}.');
      return;
    }
    this.#hub.credentials.act(name ? { uid: name, token } : null);
    this.#dialog.close();
  }
}
