// Administrators' requests to a hub, and what a tab shows to other users.

import { wording } from '../users/accounts.js';
import { element } from './dom.js';
import { SignInOffer } from './offers.js';

/** An unsuccessful answer: `status`, and the whole `body`. The message is a sentence. */
export class Refused extends Error {
  constructor(status, body, message) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/**
 * Sends a request and returns the answer as JSON. `json` or `text` is the request body.
 * Throws `Refused` for every status other than 200, with status 0 when there is no answer.
 */
export async function ask(hub, path, { method, json, text, signal } = {}) {
  const body = json === undefined ? text : JSON.stringify(json);
  let response, answer;
  try {
    response = await hub.fetch(path, { method: method ?? (body === undefined ? 'GET' : 'POST'), body, signal });
    answer = await response.text();
  } catch (fault) {
    if (fault.name === 'AbortError') throw fault;
    throw new Refused(0, null, 'The hub did not answer.');
  }
  let parsed = null;
  try { parsed = JSON.parse(answer); } catch { /* metrics, and proxies' pages */ }
  if (response.ok) return parsed ?? answer;
  throw new Refused(response.status, parsed, sentence(response.status, parsed));
}

function sentence(status, body) {
  const error = body?.error;
  if (error?.message) return wording(error.message);
  if (status === 401 || status === 403) return 'This takes an administrator.';
  return typeof error === 'string' ? error : `The hub answered ${status}.`;
}

/** Calls the account administration of the hub's only project. */
export const accounts = (hub, action, json) => ask(hub, `/identitytoolkit.googleapis.com/v1/projects/-/accounts${action}`, { json });

/** Whether the page's requests are an administrator's, also when that administrator acts as a user. */
export const isAdministrator = (hub) => Boolean(hub.credentials.isSecret && hub.realtime.identity?.admin);

/**
 * Shows a tab's content to administrators only, and tells others how to become one. `begin` is called when the content is shown, `end` when it
 * is hidden; both are called again when the page moves to another hub or namespace.
 */
export class Gate {
  #hub;
  #visible = false;
  #open = false;
  #offer;

  constructor(hub, name, content, { begin, end }) {
    this.#hub = hub;
    this.#offer = new SignInOffer(hub);
    this.content = content;
    this.begin = begin;
    this.end = end;
    this.blank = element('div', { class: 'gate' },
      element('h2', {}, 'For administrators'),
      element('p', {}, `Only an administrator of the hub sees its ${name.toLowerCase()}.`), this.#offer.element);
    this.element = element('section', { class: 'gated', 'aria-label': name }, this.blank, content);
    hub.on('connection', () => this.#settle());
    hub.on('moved', () => {
      this.#close();
      this.#settle();
      if (this.#visible) this.#offer.update();
    });
  }

  show() { this.#visible = true; this.#offer.update(); this.#settle(); }
  hide() { this.#visible = false; this.#close(); }

  #settle() {
    const allowed = isAdministrator(this.#hub);
    // Keep an administrator's content visible while the page reconnects.
    const stays = this.#open && this.#hub.credentials.isSecret && !this.#hub.realtime.authFault;
    this.blank.hidden = allowed || stays;
    this.content.hidden = !(allowed || stays);
    if (!this.#visible) return;
    if (allowed && !this.#open) { this.#open = true; this.begin(); }
    if (!allowed && !stays) this.#close();
  }

  #close() {
    if (!this.#open) return;
    this.#open = false;
    this.end();
  }
}

/** Repeats work every `ms` milliseconds while it is on, one run after the other; an error of one run does not end it. */
export class Repeating {
  #work;
  #ms;
  #timer = 0;
  #on = false;

  constructor(ms, work) { this.#ms = ms; this.#work = work; }

  start() {
    if (this.#on) return;
    this.#on = true;
    this.#step();
  }

  stop() { this.#on = false; clearTimeout(this.#timer); }

  async #step() {
    try { await this.#work(); } finally { if (this.#on) this.#timer = setTimeout(() => this.#step(), this.#ms); }
  }
}
