// The listens of a realtime connection, which of them a push is for (contract §2.5, §2.6), and its pending requests. Pure.

import { joinPath, splitPath } from './paths.js';

export class Listens {
  #places = new Map();  // path → default listen
  #queries = new Map(); // tag → listen of a query
  #nextTag = 1;

  get count() { return this.#places.size + this.#queries.size; }
  get all() { return [...this.#places.values(), ...this.#queries.values()]; }

  /** One default listen for each path; with a query any number. Its `snapshot` says whether all initial data has arrived. */
  add(path, handlers, query = null) {
    const listen = { path, parts: splitPath(path), handlers, query, tag: query ? this.#nextTag++ : null, snapshot: false };
    if (query) this.#queries.set(listen.tag, listen); else this.#places.set(path, listen);
    return listen;
  }

  has(listen) {
    return (listen.query ? this.#queries.get(listen.tag) : this.#places.get(listen.path)) === listen;
  }

  /** False if it had already ended. */
  remove(listen) {
    if (!this.has(listen)) return false;
    return listen.query ? this.#queries.delete(listen.tag) : this.#places.delete(listen.path);
  }

  /** Passes on a push: with a tag to that query, otherwise to every default listen at, above or below the place. */
  push(parts, kind, wire, tag) {
    const listens = tag === undefined ? [...this.#places.values()].filter((listen) => related(parts, listen.parts)) : [this.#queries.get(tag)];
    for (const listen of listens) {
      if (!listen) continue;
      if (kind === 'd' && parts.length <= listen.parts.length) listen.snapshot = true;
      listen.handlers.push(parts, kind, wire);
    }
  }

  /** The listens that the hub ended: of these queries at a path, without queries the default one. */
  cancelled(path, queries) {
    const place = joinPath(splitPath(path));
    if (!queries) return this.#places.has(place) ? [this.#places.get(place)] : [];
    const ended = queries.map(written);
    return [...this.#queries.values()].filter((listen) => joinPath(listen.parts) === place && ended.includes(written(listen.query)));
  }
}

/** A query as text; the order of its members does not matter. */
const written = (query) => JSON.stringify(Object.entries(query).sort(([a], [b]) => (a < b ? -1 : 1)));

/** Whether one path is at, above or below the other. */
function related(a, b) {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return false;
  return true;
}

// ---- Pending requests of the realtime protocol, by their request numbers.

/** A refused request; `code` is the status of the response (contract §2.4). */
export class Refusal extends Error {
  constructor(code, text) {
    super(text || code);
    this.code = code;
  }
}

export class Requests {
  #waiting = new Map();
  #next = 1;

  /** Resets for another connection, whose numbers start again. */
  begin() {
    this.#waiting.clear();
    this.#next = 1;
  }

  /** Sends a request by transmit(message); resolves with its answer, rejects with a Refusal. */
  send(action, body, transmit) {
    const r = this.#next++;
    const answer = new Promise((resolve, reject) => this.#waiting.set(r, { resolve, reject }));
    transmit({ t: 'd', d: { r, a: action, b: body } });
    return answer;
  }

  answered({ r, b }) {
    const waiting = this.#waiting.get(r);
    if (!waiting) return;
    this.#waiting.delete(r);
    const { s, d } = b ?? {};
    if (s === 'ok') waiting.resolve(d); else waiting.reject(new Refusal(s ?? 'failure', typeof d === 'string' ? d : ''));
  }

  /** Rejects pending requests: the connection ended, so their results are unknown. */
  lost() {
    const lost = new Refusal('disconnected', 'The connection ended before the hub answered. The write may or may not have landed: look at the tree before repeating it.');
    for (const { reject } of this.#waiting.values()) reject(lost);
    this.#waiting.clear();
  }
}
