// What administrators ask a hub, and what a tab shows to everybody else.

import { element } from './dom.js';
import { SignInOffer } from './first-steps.js';
import { wording } from './users-model.js';

/** An answer that is no success: `status`, and the whole `body`. The message is a sentence. */
export class Refused extends Error {
  constructor(status, body, message) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/**
 * Asks and returns the answer as JSON. `json` or `text` is the body of the request.
 * Throws `Refused` for every other status than 200, and for no answer with status 0.
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

/** Accounts, as the administration of the hub's only project. */
export const accounts = (hub, action, json) => ask(hub, `/identitytoolkit.googleapis.com/v1/projects/-/accounts${action}`, { json });

/** Whether requests of the page are an administrator's, whoever he acts as in the data. */
export const isAdministrator = (hub) => Boolean(hub.credentials.isSecret && hub.realtime.identity?.admin);

/**
 * Shows a tab's content to administrators only, and to others how to become one. `begin` is called when it is shown to one, `end` when it
 * is not shown any more; both again when the page moves to another hub or namespace.
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
    // Between two connections of an administrator his content stays.
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

/** Repeats work every so many ms while it is on, each time behind the time before; a fault of one time does not end it. */
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
