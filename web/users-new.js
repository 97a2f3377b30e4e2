// A new user, made by an administrator. Everything may be left out; an account that nobody could sign in to is made only when that is meant.

import { accounts } from './admin-calls.js';
import { ask } from './words.js';
import { element, setText } from './dom.js';
import { claimsFault } from './users-model.js';

export class NewUser {
  #hub;
  #tell;
  #p = {};

  /** tell: { made(id), close() } */
  constructor(hub, tell) {
    this.#hub = hub;
    this.#tell = tell;
    const p = this.#p;
    const field = (name, title, more = {}) => {
      p[name] = element('input', { id: `new-${name}`, spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', ...more });
      return element('label', { class: 'field' }, element('span', {}, title), p[name]);
    };
    p.claims = element('textarea', { id: 'new-claims', rows: 2, spellcheck: 'false' });
    p.verified = element('input', { type: 'checkbox', id: 'new-verified' });
    this.element = element('form', { class: 'user-detail user-new', hidden: true, autocomplete: 'off', novalidate: true, onsubmit: (event) => { event.preventDefault(); this.#make(); } },
      element('header', { class: 'pane-head' }, element('h2', {}, 'New user'), element('button', { class: 'icon', type: 'button', 'aria-label': 'Close', onclick: () => tell.close() }, '×')),
      element('div', { class: 'user-part' },
        field('email', 'e-mail address', { type: 'email' }), field('password', 'password', { type: 'password', autocomplete: 'new-password' }),
        field('name', 'name to show'), field('alias', 'alias to sign in with instead of the address'), field('id', 'id (empty: the hub makes one)'),
        element('label', { class: 'check-line' }, p.verified, element('span', {}, 'The address is known to be the user’s')),
        element('label', { class: 'area' }, element('span', {}, 'claims (JSON), if any'), p.claims),
        p.result = element('p', { class: 'bad', role: 'alert' }),
        element('div', {}, p.button = element('button', { class: 'button primary', id: 'user-make' }, 'Make the account'))));
  }

  show(on) {
    if (on && this.element.hidden) {
      for (const name of ['email', 'password', 'name', 'alias', 'id', 'claims']) this.#p[name].value = '';
      this.#p.verified.checked = false;
      setText(this.#p.result, '');
    }
    this.element.hidden = !on;
    if (on) this.#p.email.focus();
  }

  async #make() {
    const p = this.#p;
    const wanted = {};
    for (const [member, control] of [['email', p.email], ['displayName', p.name], ['alias', p.alias], ['localId', p.id]]) if (control.value.trim()) wanted[member] = control.value.trim();
    const fault = claimsFault(p.claims.value) ?? (p.password.value && !wanted.email && !wanted.alias ? 'A password needs an address or an alias to sign in with.' : null);
    setText(p.result, fault ?? '');
    if (fault) return;
    if (!wanted.email && !wanted.alias && !wanted.localId && !await ask('Make a guest?',
      'There is neither an address nor an alias nor an id. This makes an account that nobody can sign in to: a guest, as the page of an app makes them.', 'Make a guest', { bad: true })) {
      p.email.focus();
      return;
    }
    if (p.password.value) wanted.password = p.password.value;
    if (p.claims.value.trim()) wanted.customAttributes = JSON.stringify(JSON.parse(p.claims.value));
    if (wanted.email && p.verified.checked) wanted.emailVerified = true;
    p.button.disabled = true;
    try {
      const { localId } = await accounts(this.#hub, '', wanted);
      p.password.value = '';
      this.#hub.say('The account is made.');
      this.#tell.made(localId);
    } catch (refusal) {
      setText(p.result, refusal.message);
    } finally {
      p.button.disabled = false;
    }
  }
}
