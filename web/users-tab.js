// Users: the accounts of the hub, for administrators. The list comes page by page; who is looked for by an exact id, address or alias is
// found however many there are.

import { Gate, accounts, ask } from './admin-calls.js';
import { element, plural, setText } from './dom.js';
import { UserDetail } from './users-detail.js';
import { NewUser } from './users-new.js';
import { matches, titleOf, userOf } from './users-model.js';

const pageSize = 100;

export function makeTab(hub) {
  const tab = new UsersTab(hub);
  return { element: tab.gate.element, show: () => tab.gate.show(), hide: () => tab.gate.hide(), get state() { return tab.state; } };
}

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
    this.maker = new NewUser(hub, { made: (id) => this.#find(id), close: () => this.#choose(null) });
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
    p.more = element('button', { class: 'link', id: 'users-more', type: 'button', onclick: () => this.#load() }, 'More');
    p.side = element('div', { class: 'user-side' }, this.detail.element, this.maker.element, p.blank = element('p', { class: 'blank' }, 'Choose a user, or make a new one.'));
    p.root = element('div', { class: 'users' },
      element('div', { class: 'user-main' },
        element('form', { class: 'user-bar', id: 'user-find', autocomplete: 'off', onsubmit: (event) => { event.preventDefault(); if (p.search.value.trim()) this.#find(p.search.value.trim()); } },
          p.search, element('button', { class: 'button' }, 'Find'), element('button', { class: 'button primary', id: 'user-new', type: 'button', onclick: () => this.#choose('new') }, 'New user')),
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
      const page = await ask(this.#hub, `/identitytoolkit.googleapis.com/v1/projects/-/accounts:batchGet?maxResults=${pageSize}${this.#next ? `&nextPageToken=${encodeURIComponent(this.#next)}` : ''}`);
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
      const { user: entry, alias } = await ask(this.#hub, '/.account/admin/find', { json: { user: name } });
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
