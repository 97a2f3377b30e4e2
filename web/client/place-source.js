// Reads parts of a place without all of it: names of children by pages, sizes, and small values.

import { Refusal } from './listens.js';
import { joinPath, splitPath } from './paths.js';
import { NameReader, nameOf } from './place-names.js';

const smallBytes = 128 << 10;
const atOnce = 4; // concurrent requests; browsers open six connections to a host

export class PlaceSource {
  #hub;
  #running = 0;
  #queue = [];
  requests = 0; // since the page was opened

  constructor(hub) { this.#hub = hub; }

  get hub() { return this.#hub; }

  childPath(path, key) { return joinPath([...splitPath(path), key]); }

  /**
   * Names behind the key `after` (null: from the beginning), at most `limit`. `found` gets each as JSON without quotes (nameOf), while
   * the answer arrives. Without names it resolves with { leaf }: the place's value, null for nothing. Rejects with a Refusal.
   */
  async names(path, { after = null, limit, last = false, signal } = {}, found) {
    const parameters = { shallow: 'true', [last ? 'limitToLast' : 'limitToFirst']: String(limit) };
    if (after !== null) parameters.startAfter = JSON.stringify(after);
    const response = await this.#ask(path, parameters, { signal });
    const reader = new NameReader(), decoder = new TextDecoder();
    const body = response.body.getReader();
    for (;;) {
      const { done, value } = await body.read();
      if (done) break;
      reader.feed(decoder.decode(value, { stream: true }), found);
    }
    reader.end(found);
    return { leaf: reader.leaf };
  }

  /** All names of a page as strings: { keys, leaf }. */
  async page(path, options) {
    const keys = [];
    const { leaf } = await this.names(path, options, (raw) => keys.push(nameOf(raw)));
    return { keys, leaf };
  }

  /** Whether the answer to a request would be small. */
  async isSmall(path, parameters, signal) {
    const response = await this.#ask(path, { ...parameters, format: 'export', sizeUpTo: String(smallBytes) }, { signal });
    return await response.json() !== null;
  }

  /** A value in export form if it is small, else undefined. */
  async small(path, parameters = {}, signal) {
    const response = await this.#ask(path, { ...parameters, ...(parameters.shallow ? {} : { format: 'export' }) }, { signal });
    if (response.headers.has('content-length')) return response.json();
    response.body.cancel().catch(() => {});
    return undefined;
  }

  async #ask(path, parameters, init) {
    await this.#turn();
    this.requests += 1;
    try {
      const response = await this.#hub.fetch(this.#hub.placeAddress(path, parameters), init);
      if (response.ok) return response;
      const { error } = await response.json().catch(() => ({}));
      throw new Refusal(response.status === 401 ? 'permission_denied' : `HTTP ${response.status}`, error ?? '');
    } catch (fault) {
      if (fault instanceof Refusal || fault.name === 'AbortError') throw fault;
      throw new Refusal('disconnected', 'The hub did not answer.');
    } finally {
      this.#running -= 1;
      this.#queue.shift()?.();
    }
  }

  #turn() {
    if (this.#running < atOnce) { this.#running += 1; return Promise.resolve(); }
    return new Promise((go) => this.#queue.push(() => { this.#running += 1; go(); }));
  }
}

// ---- Sizes of places before they are read, so that no request has to fail to find out; and the texts of failed requests.

/** The bytes of a place in export form, or of what `parameters` select; null when they exceed `atMost`, or the hub's limit for one answer. */
export async function sizeOf(hub, path, atMost, { parameters = {}, signal } = {}) {
  const response = await hub.fetch(hub.placeAddress(path, { ...parameters, format: 'export', sizeUpTo: String(Math.max(1, atMost)) }), { signal });
  if (!response.ok) throw await fault(response);
  return response.json();
}

/** An Error with the hub's text, from a refused request. */
export async function fault(response) {
  const { error } = await response.json().catch(() => ({}));
  if (Array.isArray(error)) return new Error(`The rules do not allow it: ${error.join(' ')}`);
  return new Error(response.status === 401 ? 'The rules do not allow it.' : `The hub refused: ${typeof error === 'string' ? error : `HTTP ${response.status}`}`);
}
