// A user's sessions, with a button to end them.

import { Repeating, request } from '../page/administration.js';
import { age, button, element, plural } from '../page/dom.js';

const everyMs = 5000;

export class SessionList {
  #hub;
  #id = null;
  #body;
  #all;
  #repeating;
  list = [];

  constructor(hub) {
    this.#hub = hub;
    this.#body = element('ul', { class: 'sessions' });
    this.#all = button('End all sessions', () => this.#end(null), { id: 'sessions-end' });
    this.element = element('div', {}, this.#body, this.#all);
    this.#repeating = new Repeating(everyMs, () => this.#id && this.show(this.#id));
  }

  start() { this.#repeating.start(); }
  stop() { this.#repeating.stop(); }

  /** Shows the sessions of the account with this id, freshly read. */
  async show(id) {
    const isOther = id !== this.#id;
    this.#id = id;
    if (isOther) this.#paint([]);
    if (!id) return;
    try {
      const { sessions } = await request(this.#hub, '/.account/admin/sessions', { json: { user: id } });
      if (this.#id === id) this.#paint(sessions);
    } catch (fault) {
      if (this.#id === id) this.#body.replaceChildren(element('li', { class: 'bad' }, fault.message));
    }
  }

  #paint(sessions) {
    // Unchanged sessions stay, so that they keep the focus.
    if (sessions.length && JSON.stringify(sessions) === JSON.stringify(this.list)) return;
    this.list = sessions;
    this.#all.hidden = sessions.length === 0;
    this.#body.replaceChildren(...sessions.map((session) => element('li', {},
      element('div', {},
        element('p', {}, `${session.provider} · used ${used(session.lastUsedAt)}`),
        element('p', { class: 'quiet' }, [session.peer, session.userAgent].filter(Boolean).join(' · ') || 'unknown device')),
      button('End', () => this.#end(session.id), { class: 'button plain', 'aria-label': `End the session of ${session.provider} from ${session.peer ?? 'an unknown address'}` }))));
    if (!sessions.length) this.#body.append(element('li', { class: 'quiet' }, 'Signed in nowhere.'));
  }

  async #end(session) {
    const id = this.#id;
    try {
      const { ended } = await request(this.#hub, '/.account/admin/end-session', { json: { user: id, ...(session && { session }) } });
      this.#hub.say(`${plural(ended, 'session')} ended.`);
    } catch (fault) {
      this.#hub.say(fault.message, { bad: true });
    }
    this.show(id);
  }
}

function used(ms) {
  const text = age(Date.now() - ms);
  return text === 'now' ? 'just now' : `${text} ago`;
}
