// The observe protocol: WebSocket, JSON text, one object per frame. Child and value events of any number of places.
// The socket is opened with the first observer and closed with the last.

import { ReconnectingSocket } from './socket.js';

export class Observe {
  /** offline | connecting | connected | waiting */
  phase = 'offline';
  authFault = null;
  credentials = { token: '' };
  #target = null;
  #observers = new Map();
  #waiting = new Map();
  #next = 1;
  #socket;
  #changed;

  constructor(changed = () => {}) {
    this.#changed = changed;
    this.#socket = new ReconnectingSocket({
      url: () => {
        const { host, ns, secure } = this.#target;
        return `${secure ? 'wss' : 'ws'}://${host}/.observe?ns=${encodeURIComponent(ns)}`;
      },
      opened: () => this.#opened(),
      message: (text) => this.#receive(text),
      lost: () => {
        this.#waiting.clear();
        for (const { handlers } of this.#observers.values()) handlers.lost();
      },
      phase: () => {
        this.phase = this.#socket.phase === 'open' ? 'connected' : this.#socket.phase === 'idle' ? 'offline' : this.#socket.phase;
        this.#changed();
      },
    });
  }

  /** target: { host, ns, secure }. Running observers move to the new target. */
  connect(target) {
    this.#target = target;
    this.authFault = null;
    this.#socket.stop();
    if (this.#observers.size) this.#socket.start();
  }

  disconnect() { this.#socket.stop(); }

  /**
   * events: subset of "added" "changed" "removed" "value".
   * handlers: ready(seq), event(message), refused({code, message}), lost(). Returns the function that ends it.
   */
  observe(path, events, handlers) {
    const id = this.#next++;
    this.#observers.set(id, { path, events, handlers });
    if (this.phase === 'connected') this.#ask(id);
    else if (this.phase === 'offline' && this.#target) this.#socket.start();
    return () => {
      if (!this.#observers.delete(id)) return;
      if (this.#observers.size === 0) this.#socket.stop();
      else if (this.phase === 'connected') this.#request({ op: 'unobserve', sub: id }, () => {}, () => {});
    };
  }

  #opened() {
    this.#waiting.clear();
    this.authFault = null;
    this.authenticate();
    for (const id of this.#observers.keys()) this.#ask(id);
  }

  /** Tells the hub who this is; once more when the token was renewed. */
  authenticate() {
    const { token } = this.credentials;
    if (!token || this.phase !== 'connected') return;
    this.#request({ op: 'auth', token }, () => this.#changed(), (error) => {
      this.authFault = error;
      this.#changed();
    });
  }

  /** The id of the request is the number of the subscription from then on. */
  #ask(id) {
    const { path, events, handlers } = this.#observers.get(id);
    this.#waiting.set(id, {
      resolve: (ok) => handlers.ready(ok?.seq ?? null),
      reject: (error) => handlers.refused(error),
    });
    this.#socket.send(JSON.stringify({ id, op: 'observe', path, events }));
  }

  #request(body, resolve, reject) {
    const id = this.#next++;
    this.#waiting.set(id, { resolve, reject });
    this.#socket.send(JSON.stringify({ id, ...body }));
  }

  #receive(text) {
    let message;
    try { message = JSON.parse(text); } catch { return; }
    if (message.sub !== undefined) {
      const observer = this.#observers.get(message.sub);
      if (!observer) return;
      if (message.error) observer.handlers.refused(message.error); else observer.handlers.event(message);
      return;
    }
    const waiting = this.#waiting.get(message.id);
    if (!waiting) return;
    this.#waiting.delete(message.id);
    this.#socket.proved();
    if (message.error) waiting.reject(message.error); else waiting.resolve(message.ok);
  }
}
