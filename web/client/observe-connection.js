// The page's observers: a client of the observe protocol (vigla.js) for the current hub and namespace, while any observer exists.

import { Vigla } from '../vigla.js';

export class ObserveConnection {
  /** { code, message } of the refused token. */
  authFault = null;
  credentials = { fresh: async () => '' };
  #target = null;
  #client = null;
  #observers = new Set();
  #requests = 0;          // under way
  #changed;

  /** `changed()` is called after every change of the connection. */
  constructor(changed = () => {}) { this.#changed = changed; }

  /** target: { host, ns, secure }. Running observers start again there. */
  connect(target) {
    this.disconnect();
    this.#target = target;
    for (const entry of this.#observers) this.#begin(entry);
  }

  disconnect() {
    this.authFault = null;
    const client = this.#client;
    this.#client = null;
    client?.close();
  }

  /** Sends the renewed token to the hub. */
  authenticate() { this.#client?.auth(() => this.credentials.fresh()).catch(() => {}); }

  /** Sends one request; resolves with the `ok` of the answer. */
  async ask(request) {
    this.#requests += 1;
    try {
      return await (this.#client ??= this.#createClient()).ask(request);
    } finally {
      this.#requests -= 1;
      this.#closeIfIdle();
    }
  }

  /**
   * handler(event) gets the client's events, and { event: 'lost' } while there is no connection. Returns the function that ends it; its
   * `move({ lat, lng })` moves the centre of a circle, and resolves when it has moved.
   */
  observe(path, wanted, handler) {
    const entry = { path, wanted, handler, observer: null };
    this.#observers.add(entry);
    if (this.#target) this.#begin(entry);
    const end = () => {
      entry.observer?.end();
      if (this.#observers.delete(entry)) this.#closeIfIdle();
    };
    end.move = async (centre) => {
      await entry.observer?.move(centre);
      const { query } = entry.wanted; // after a reconnect it starts with its current centre
      entry.wanted = { ...entry.wanted, query: { ...query, near: { ...query.near, ...centre } } };
    };
    return end;
  }

  #closeIfIdle() { if (!this.#observers.size && !this.#requests) this.disconnect(); }

  #begin(entry) {
    this.#client ??= this.#createClient();
    entry.observer = this.#client.observe(entry.path, entry.wanted, (event) => {
      entry.handler(event.error?.code === 'closed' ? { event: 'lost' } : event);
    });
  }

  #createClient() {
    const { host, ns, secure } = this.#target;
    const onended = () => {}; // the observing view reports it
    return new Vigla(`${secure ? 'https' : 'http'}://${host}`, { ns, token: () => this.credentials.fresh(), onended, onstate: ({ state, error }) => {
      if (state === 'waiting') for (const { handler } of this.#observers) handler({ event: 'lost' });
      if (state === 'credentialRefused') this.authFault = { code: error.code, message: error.text };
      if (state === 'connecting') this.authFault = null;
      this.#changed();
    } });
  }
}
