// One user: what the hub knows, and the administrator's actions. Changes take effect at once, also for connected
// clients.

import { accounts, request } from '../page/administration.js';
import { age, button, element, setText } from '../page/dom.js';
import { authOf, claimsFault, shownClaims, titleOf, userOf } from './accounts.js';
import { SessionList } from './session-list.js';

const day = (ms) => ms === null ? '–' : new Date(ms).toLocaleString();
const wayNames = { password: 'password', phone: 'phone', emailLink: 'mailed link', custom: 'custom token' };

export class UserDetail {
  #hub;
  #hooks;
  #p = {};
  #user = null;
  #entry = null;
  #sessions;

  /** hooks: { changed(user), deleted(user), close() } */
  constructor(hub, hooks) {
    this.#hub = hub;
    this.#hooks = hooks;
    this.#sessions = new SessionList(hub);
    this.element = this.#build();
  }

  get sessions() { return this.#sessions.list; }

  /** Updates the sessions while the tab is shown. */
  start() { this.#sessions.start(); }
  stop() { this.#sessions.stop(); }

  #build() {
    const p = this.#p;
    p.title = element('h2', { tabindex: '-1' });
    p.facts = element('dl', { class: 'facts' });
    p.disable = button('', () => this.#setDisabled(!this.#user.isDisabled), { id: 'user-disable' });
    p.reset = button('Send reset mail', () => this.#reset(), { id: 'user-reset' });
    p.act = button('Act as this user', () => this.#act(), { id: 'user-act' });
    p.remove = button('Delete', () => this.#delete(), { id: 'user-delete' });
    p.claims = element('textarea', { id: 'user-claims', rows: 4, spellcheck: 'false', 'aria-label': 'Claims as JSON', 'aria-describedby': 'user-claims-fault', oninput: () => this.#paintClaims() });
    p.claimsFault = element('p', { class: 'bad', id: 'user-claims-fault', role: 'status' });
    p.saveClaims = element('button', { class: 'button', id: 'user-claims-save' }, 'Save claims');
    p.link = element('input', { id: 'user-link', readonly: true, 'aria-label': 'Link to choose a new password' });
    p.password = element('input', { type: 'password', id: 'user-password', autocomplete: 'new-password' });
    return element('article', { class: 'user-detail', hidden: true },
      element('header', { class: 'pane-head' }, p.title, button('×', () => this.#hooks.close(), { class: 'icon', 'aria-label': 'Close' })),
      p.facts,
      element('div', { class: 'user-actions' }, p.disable, p.reset, p.act, p.remove),
      p.note = element('p', { class: 'user-note', role: 'status' }),
      p.linkRow = element('div', { class: 'user-link', hidden: true }, p.link, button('Copy', () => this.#copyLink())),
      element('form', { class: 'user-part', novalidate: true, onsubmit: (event) => { event.preventDefault(); this.#saveClaims(); } },
        element('h3', {}, 'Claims'), element('p', { class: 'hint' }, 'Rules see them in auth.token. The user’s connections sign in anew with them.'), p.claims, p.claimsFault, element('div', {}, p.saveClaims)),
      element('section', { class: 'user-part', 'aria-label': 'Sessions' }, element('h3', {}, 'Sessions'), this.#sessions.element),
      element('form', { class: 'user-part', autocomplete: 'off', novalidate: true, onsubmit: (event) => { event.preventDefault(); this.#setPassword(); } },
        element('h3', {}, 'New password'), element('div', { class: 'fields' }, element('label', { class: 'field wide' }, element('span', {}, 'password; ends all sessions'), p.password), element('button', { class: 'button', id: 'user-password-save' }, 'Set'))));
  }

  /** Shows a user; null: nothing. */
  show(user) {
    const isOther = user?.id !== this.#user?.id;
    this.#user = user;
    this.element.hidden = !user;
    if (!user) { this.#sessions.show(null); return; }
    if (isOther) {
      this.#entry = null;
      this.#sessions.show(user.id);
      this.#note('');
      this.#p.password.value = '';
      this.#armed(false);
      this.#p.title.focus();
      this.#read(user.id);
    }
    this.#paint(isOther);
  }

  /** The whole entry, including the alias, which lists do not contain. */
  async #read(id) {
    try {
      const { user: entry, alias } = await request(this.#hub, '/.account/admin/find', { json: { user: id } });
      if (this.#user?.id !== id) return;
      const claimsWereEdited = this.#p.claims.value !== shownClaims(this.#user.claims);
      this.#entry = entry;
      this.#user = userOf(entry, alias);
      this.#hooks.changed(this.#user);
      this.#paint(!claimsWereEdited);
    } catch (fault) {
      if (this.#user?.id === id) this.#note(fault.message, true);
    }
  }

  #paint(withClaims) {
    const p = this.#p, user = this.#user;
    setText(p.title, titleOf(user));
    const facts = [
      ['id', element('code', {}, user.id)], ['address', user.email ? `${user.email}${user.isVerified ? ', verified' : ', not verified'}` : '–'],
      ['alias', user.alias || '–'], ['signs in with', user.ways.map((way) => wayNames[way] ?? way).join(', ') || (user.email || user.alias ? 'nothing yet' : 'nothing: a guest')],
      ['made', day(user.createdAt)], ['last sign-in', user.lastSignInAt ? `${day(user.lastSignInAt)} (${age(Date.now() - user.lastSignInAt)})` : 'never'],
      ['state', user.isDisabled ? element('strong', { class: 'bad' }, 'disabled') : 'enabled'],
    ];
    p.facts.replaceChildren(...facts.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));
    setText(p.disable, user.isDisabled ? 'Enable' : 'Disable');
    p.reset.disabled = !user.email;
    p.reset.title = user.email ? '' : 'The account has no address';
    if (withClaims) p.claims.value = shownClaims(user.claims);
    this.#paintClaims();
  }

  #paintClaims() {
    const p = this.#p;
    const fault = claimsFault(p.claims.value);
    setText(p.claimsFault, fault ?? '');
    p.claims.setAttribute('aria-invalid', String(Boolean(fault)));
    p.saveClaims.disabled = Boolean(fault) || p.claims.value === shownClaims(this.#user?.claims ?? '');
  }

  #note(text, isBad = false) {
    this.#p.linkRow.hidden = true;
    this.#p.link.value = '';
    this.#p.note.className = `user-note ${isBad ? 'bad' : 'good'}`;
    setText(this.#p.note, text);
  }

  /** Changes the account, and reads it again. */
  async #change(work, said) {
    const { id } = this.#user;
    this.#armed(false);
    try {
      await work(id);
      if (this.#user?.id === id) this.#note(said);
    } catch (fault) {
      if (this.#user?.id === id) this.#note(fault.message, true);
      return false;
    }
    await this.#read(id);
    return true;
  }

  async #setDisabled(isDisabled) {
    const done = await this.#change((id) => accounts(this.#hub, ':update', { localId: id, disableUser: isDisabled }), isDisabled ? 'Disabled: all connections are ended, and none is let in until the account is enabled.' : 'Enabled.');
    if (done) this.#sessions.show(this.#user?.id);
  }

  #saveClaims() {
    if (this.#p.saveClaims.disabled) return;
    const text = this.#p.claims.value.trim() ? JSON.stringify(JSON.parse(this.#p.claims.value)) : '{}';
    this.#p.claims.value = shownClaims(text === '{}' ? '' : text);
    this.#change((id) => accounts(this.#hub, ':update', { localId: id, customAttributes: text }), 'Claims saved.');
  }

  /** By mail; if the hub sends none, as a link to pass on. */
  async #reset() {
    const { id, email } = this.#user;
    const order = { requestType: 'PASSWORD_RESET', email };
    this.#armed(false);
    try {
      await accounts(this.#hub, ':sendOobCode', order);
      if (this.#user?.id === id) this.#note(`A mail to choose a new password is on its way to ${email}.`);
    } catch (fault) {
      if (this.#user?.id !== id) return;
      if (!fault.body?.error?.message?.startsWith('OPERATION_NOT_ALLOWED')) { this.#note(fault.message, true); return; }
      try {
        const { oobLink } = await accounts(this.#hub, ':sendOobCode', { ...order, returnOobLink: true });
        if (this.#user?.id !== id) return;
        this.#note('This hub sends no mail. Who opens this link chooses the new password:');
        this.#p.link.value = oobLink;
        this.#p.linkRow.hidden = false;
      } catch (refusal) {
        this.#note(refusal.message, true);
      }
    }
  }

  async #copyLink() {
    this.#p.link.select();
    try {
      await navigator.clipboard.writeText(this.#p.link.value);
      this.#hub.say('The link is copied.');
    } catch { /* it is selected: the keyboard copies it */ }
  }

  async #setPassword() {
    const password = this.#p.password.value;
    if (!password) return;
    if (await this.#change((id) => accounts(this.#hub, ':update', { localId: id, password }), 'The password is set, and all sessions are ended.')) {
      this.#p.password.value = '';
      this.#sessions.show(this.#user?.id);
    }
  }

  #act() {
    const { uid, token } = this.#entry ? authOf(this.#entry) : { uid: this.#user.id, token: {} };
    this.#hub.credentials.act({ uid, token });
    this.#hub.say(`Reads and writes are decided as if ${titleOf(this.#user)} asked.`, { action: { title: 'As myself again', run: () => this.#hub.credentials.act(undefined) } });
  }

  /** The first click asks for confirmation, the second one deletes. */
  async #delete() {
    if (!this.#p.remove.classList.contains('danger')) { this.#armed(true); return; }
    const user = this.#user;
    this.#sessions.show(null); // do not ask about a deleted user
    try {
      await accounts(this.#hub, ':delete', { localId: user.id });
      this.#hub.say(`${titleOf(user)} is deleted, with the data that goes with the account.`);
      this.#hooks.deleted(user);
    } catch (fault) {
      this.#note(fault.message, true);
      this.#sessions.show(this.#user?.id ?? null);
    }
    this.#armed(false);
  }

  #armed(on) {
    this.#p.remove.classList.toggle('danger', on);
    setText(this.#p.remove, on ? `Yes, delete ${titleOf(this.#user)}` : 'Delete');
    if (on) this.#note('Deleting cannot be undone.', true);
  }
}
