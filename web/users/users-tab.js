// Users: the accounts of the hub, for administrators. The list loads page by page; a search for an exact id, address or alias
// finds any account.

import { Gate, accounts, gatedTab, request } from '../page/administration.js';
import { askUser, button, element, field, plural, setText, textInput } from '../page/dom.js';
import { claimsFault, matches, titleOf, userOf } from './accounts.js';
import { UserDetail } from './user-detail.js';

const pageSize = 100;

export const makeTab = (hub) => gatedTab(new UsersTab(hub));

class UsersTab {
  #hub;
  #p = {};
  #users = new Map(); // id → user, in the order of the hub
  #next = '';
  #all = false;
  #chosen = null;
  #generation = 0;

  constructor(hub) {
    this.#hub = hub;
    this.detail = new UserDetail(hub, {
      changed: (user) => { this.#users.set(user.id, user); this.#paint(); },
      deleted: (user) => { this.#users.delete(user.id); this.#choose(null); this.#paint(); this.#p.search.focus(); },
      close: () => { const row = this.#p.list.querySelector('[aria-current]'); this.#choose(null); row?.focus(); },
    });
    this.maker = new NewUser(hub, { created: (id) => this.#find(id), close: () => this.#choose(null) });
    this.gate = new Gate(hub, 'Users', this.#build(), {
      begin: () => { this.#reload(); this.detail.start(); },
      end: () => { this.#generation++; this.detail.stop(); },
    });
    hub.on('moved', () => { this.#users.clear(); this.#choose(null); this.#paint(); });
  }

  get state() {
    return { users: [...this.#users.values()], rows: this.#p.list.childElementCount, chosen: this.#chosen, all: this.#all, sessions: this.detail.sessions };
  }

  #build() {
    const p = this.#p;
    p.search = element('input', { id: 'user-search', type: 'search', placeholder: 'Id, address, name or alias', spellcheck: 'false', autocapitalize: 'off', 'aria-label': 'Find a user', oninput: () => this.#paint() });
    p.list = element('ul', { class: 'user-list', 'aria-label': 'Users' });
    p.count = element('p', { class: 'quiet user-count', role: 'status' });
    p.more = button('More', () => this.#load(), { class: 'link', id: 'users-more' });
    p.side = element('div', { class: 'user-side' }, this.detail.element, this.maker.element, p.blank = element('p', { class: 'blank' }, 'Choose a user, or make a new one.'));
    p.root = element('div', { class: 'users' },
      element('div', { class: 'user-main' },
        element('form', { class: 'user-bar', id: 'user-find', autocomplete: 'off', onsubmit: (event) => { event.preventDefault(); if (p.search.value.trim()) this.#find(p.search.value.trim()); } },
          p.search, element('button', { class: 'button' }, 'Find'), button('New user', () => this.#choose('new'), { class: 'button primary', id: 'user-new' })),
        element('div', { class: 'user-scroll' }, p.count, p.list, p.more)),
      p.side);
    return p.root;
  }

  async #reload() {
    this.#generation++;
    this.#users.clear();
    this.#next = '';
    this.#all = false;
    await this.#load();
  }

  async #load() {
    const generation = this.#generation;
    this.#p.more.disabled = true;
    try {
      const page = await request(this.#hub, `/identitytoolkit.googleapis.com/v1/projects/-/accounts:batchGet?maxResults=${pageSize}${this.#next ? `&nextPageToken=${encodeURIComponent(this.#next)}` : ''}`);
      if (generation !== this.#generation) return;
      for (const entry of page.users ?? []) this.#users.set(entry.localId, userOf(entry));
      this.#next = page.nextPageToken ?? '';
      this.#all = !this.#next;
      this.#paint();
    } catch (fault) {
      if (generation === this.#generation) setText(this.#p.count, fault.status === 404 ? 'This hub has no accounts: it was started with --accounts off.' : fault.message);
    } finally {
      this.#p.more.disabled = false;
    }
  }

  /** By an exact id, address or alias. */
  async #find(name) {
    try {
      const { user: entry, alias } = await request(this.#hub, '/.account/admin/find', { json: { user: name } });
      const user = userOf(entry, alias);
      this.#users.set(user.id, user);
      this.#paint();
      this.#choose(user.id);
    } catch (fault) {
      if (fault.status !== 400 && fault.status !== 404) { this.#hub.say(fault.message, { bad: true }); return; }
      const [only] = [...this.#users.values()].filter((user) => matches(user, name));
      if (only) this.#choose(only.id);
      else setText(this.#p.count, `Nobody has exactly the id, address or alias “${name}”.`);
    }
  }

  #choose(id) {
    this.#chosen = id;
    const user = this.#users.get(id) ?? null;
    this.detail.show(user);
    this.maker.show(id === 'new');
    this.#p.blank.hidden = Boolean(user) || id === 'new';
    this.#p.root.dataset.open = String(Boolean(user) || id === 'new');
    for (const button of this.#p.list.querySelectorAll('button')) {
      if (button.dataset.id === id) button.setAttribute('aria-current', 'true'); else button.removeAttribute('aria-current');
    }
  }

  #paint() {
    const p = this.#p;
    const wanted = p.search.value;
    const found = [...this.#users.values()].filter((user) => matches(user, wanted));
    const focused = document.activeElement?.dataset?.id;
    p.list.replaceChildren(...found.slice(0, 2000).map((user) => this.#row(user)));
    if (focused) p.list.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
    p.more.hidden = this.#all || this.#users.size === 0;
    setText(p.more, `${pageSize} more`);
    const of = this.#all ? plural(this.#users.size, 'user') : `the first ${this.#users.size} users`;
    setText(p.count, !this.#users.size && this.#all ? 'There is no user yet.' : wanted.trim() ? `${found.length} of ${of}${this.#all ? '' : '; Enter looks among all for an exact id, address or alias'}` : this.#all ? of : `The first ${plural(this.#users.size, 'user')}, by id`);
  }

  #row(user) {
    const second = [user.email && user.email !== titleOf(user) ? user.email : '', user.id].filter(Boolean).join(' · ');
    return element('li', {}, element('button', { type: 'button', class: 'user-row', 'data-id': user.id, 'aria-current': this.#chosen === user.id ? 'true' : null, onclick: () => this.#choose(user.id) },
      element('span', { class: 'user-title' }, titleOf(user)),
      user.isDisabled ? element('span', { class: 'user-mark' }, 'disabled') : null,
      element('span', { class: 'user-second quiet' }, second)));
  }
}

// ---- a new user. All fields are optional; an account without any way to sign in needs confirmation.

export class NewUser {
  #hub;
  #hooks;
  #p = {};

  /** hooks: { made(id), close() } */
  constructor(hub, hooks) {
    this.#hub = hub;
    this.#hooks = hooks;
    const p = this.#p;
    const input = (name, title, more = {}) => field(title, p[name] = textInput({ id: `new-${name}`, ...more }));
    p.claims = element('textarea', { id: 'new-claims', rows: 2, spellcheck: 'false' });
    p.verified = element('input', { type: 'checkbox', id: 'new-verified' });
    this.element = element('form', { class: 'user-detail user-new', hidden: true, autocomplete: 'off', novalidate: true, onsubmit: (event) => { event.preventDefault(); this.#make(); } },
      element('header', { class: 'pane-head' }, element('h2', {}, 'New user'), button('×', () => hooks.close(), { class: 'icon', 'aria-label': 'Close' })),
      element('div', { class: 'user-part' },
        input('email', 'e-mail address', { type: 'email' }), input('password', 'password', { type: 'password', autocomplete: 'new-password' }),
        input('name', 'name to show'), input('alias', 'alias to sign in with instead of the address'), input('id', 'id (empty: the hub makes one)'),
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
    if (!wanted.email && !wanted.alias && !wanted.localId && !await askUser('Make a guest?',
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
      this.#hooks.created(localId);
    } catch (refusal) {
      setText(p.result, refusal.message);
    } finally {
      p.button.disabled = false;
    }
  }
}
