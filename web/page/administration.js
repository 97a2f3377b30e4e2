// What the tabs for administrators share: requests to the hub, the notice for others, and repeated reading.

import { accountFault } from '../client/credentials.js';
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
export async function request(hub, path, { method, json, text, signal } = {}) {
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
  if (error?.message) return accountFault(error.message);
  if (status === 401 || status === 403) return 'This takes an administrator.';
  return typeof error === 'string' ? error : `The hub answered ${status}.`;
}

/** Calls the account administration of the hub's only project. */
export const accounts = (hub, action, json) => request(hub, `/identitytoolkit.googleapis.com/v1/projects/-/accounts${action}`, { json });

/** Whether the page's requests are an administrator's, also when that administrator acts as a user. */
export const isAdministrator = (hub) => Boolean(hub.credentials.isSecret && hub.realtime.identity?.admin);

/**
 * Shows a tab's content to administrators only, and shows others how to become one. `begin` is called when the content is shown, `end` when it
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

/** A tab (app.js) of an object with a `gate` and a `state`. */
export const gatedTab = (tab) => ({ element: tab.gate.element, show: () => tab.gate.show(), hide: () => tab.gate.hide(), get state() { return tab.state; } });

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

// ---- The hub's logs of numbered entries: refused requests, and the lines of its log.

/** Reads the new entries of a log every `everyMs` milliseconds while it is started. */
export class LogReader {
  #hub;
  #path;
  #hooks;
  #latest = 0;      // number of the last entry
  #generation = 0;  // counts resets: answers to earlier requests are dropped
  #repeating;

  /**
   * path: of the log. hooks: isPaused(); added(answer, isFirst): new entries, for the first time all that the hub keeps; cleared(): discard
   * the entries; failed(error).
   */
  constructor(hub, path, everyMs, hooks) {
    this.#hub = hub;
    this.#path = path;
    this.#hooks = hooks;
    this.#repeating = new Repeating(everyMs, () => this.#read());
  }

  start() { this.#repeating.start(); }
  stop() { this.#repeating.stop(); }

  /** Starts again with all entries, for another hub or namespace. */
  clear() {
    this.#generation += 1;
    this.#latest = 0;
    this.#hooks.cleared();
  }

  async #read() {
    const { isPaused, added, failed } = this.#hooks, generation = this.#generation;
    if (isPaused()) return;
    let answer;
    try {
      answer = await request(this.#hub, `${this.#path}?after=${this.#latest}`);
    } catch (error) {
      if (generation === this.#generation) failed?.(error);
      return;
    }
    if (generation !== this.#generation || isPaused()) return;
    // A restarted hub counts from 1 again.
    if (answer.latest < this.#latest) { this.clear(); return; }
    const isFirst = this.#latest === 0;
    this.#latest = answer.latest;
    added(answer, isFirst);
  }
}
