// The page's observers: a client of the observe protocol (vigla.js) for the current hub and namespace, while any observer exists.

import { Vigla } from '../vigla.js';

export class Observe {
  /** { code, message } of the refused token. */
  authFault = null;
  credentials = { fresh: async () => '' };
  #target = null;
  #client = null;
  #running = new Set();
  #asking = 0;            // requests under way
  #changed;

  /** `changed()` is called after every change of the connection. */
  constructor(changed = () => {}) { this.#changed = changed; }

  /** target: { host, ns, secure }. Running observers start again there. */
  connect(target) {
    this.disconnect();
    this.#target = target;
    for (const one of this.#running) this.#begin(one);
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
    this.#asking += 1;
    try {
      return await (this.#client ??= this.#made()).ask(request);
    } finally {
      this.#asking -= 1;
      this.#rest();
    }
  }

  /**
   * hear(event) gets the client's events, and { event: 'lost' } while there is no connection. Returns the function that ends it; its
   * `move({ lat, lng })` moves the centre of a circle, and resolves when it has moved.
   */
  observe(path, wanted, hear) {
    const one = { path, wanted, hear, observer: null };
    this.#running.add(one);
    if (this.#target) this.#begin(one);
    const end = () => {
      one.observer?.end();
      if (this.#running.delete(one)) this.#rest();
    };
    end.move = async (centre) => {
      await one.observer?.move(centre);
      const { query } = one.wanted; // after a reconnect it starts with its current centre
      one.wanted = { ...one.wanted, query: { ...query, near: { ...query.near, ...centre } } };
    };
    return end;
  }

  #rest() { if (!this.#running.size && !this.#asking) this.disconnect(); }

  #begin(one) {
    this.#client ??= this.#made();
    one.observer = this.#client.observe(one.path, one.wanted, (event) => {
      one.hear(event.error?.code === 'closed' ? { event: 'lost' } : event);
    });
  }

  #made() {
    const { host, ns, secure } = this.#target;
    const onended = () => {}; // the observing view reports it
    return new Vigla(`${secure ? 'https' : 'http'}://${host}`, { ns, token: () => this.credentials.fresh(), onended, onstate: ({ state, error }) => {
      if (state === 'waiting') for (const { hear } of this.#running) hear({ event: 'lost' });
      if (state === 'credentialRefused') this.authFault = { code: error.code, message: error.text };
      if (state === 'connecting') this.authFault = null;
      this.#changed();
    } });
  }
}
