// @ts-self-types="./vigla.d.ts"
// A client of a Vigla hub for browsers, Node, Deno and Bun, in one file. See docs/clients.md.
//
//   const hub = new Vigla('http://127.0.0.1:9000');
//   await hub.set('/status', 'open');
//   for await (const { value } of hub.observe('/status')) console.log(value);

let Socket = globalThis.WebSocket; // missing in Node before 22: vigla-node.js is loaded with the first connection
const tickMs = 20000; // a hub that is silent for one tick is pinged; after three the connection is closed

/** `code`: of the protocol, or connection_lost, closed. Types: vigla.d.ts. */
export class ViglaError extends Error {
  constructor({ code, message, member, messages = [], ...rest }) {
    super(`${message} (${code})${messages.length ? `: ${messages.join(' ')}` : ''}`);
    Object.assign(this, { name: 'ViglaError', code, text: message, member, messages }, rest);
  }
}

/** Why the hub would refuse a move, or null: a reconnect with it would end the observer. Only the hub checks regions. */
function moveFault(query, near) {
  const fault = (member, message) => new ViglaError({ code: 'bad_request', message, member });
  if (near?.within !== undefined) {
    if (query?.within === undefined) return fault('sub', 'The observer has no region that could be moved.');
    return Object.keys(near).length > 1 ? fault('within', '"within" stands alone') : null;
  }
  if (!query?.near) return fault('sub', 'The observer has no circle that could be moved.');
  if (Object.keys(near ?? {}).sort().join() !== 'lat,lng') {
    return fault('near', '"move" takes "lat" and "lng", and leaves the radius and the limit as they are');
  }
  for (const [name, most] of [['lat', 90], ['lng', 180]]) {
    const isFine = typeof near[name] === 'number' && Math.abs(near[name]) <= most;
    if (!isFine) return fault(`near.${name}`, `must be a number from -${most} to ${most}`);
  }
  return null;
}

/** Milliseconds before attempt 0, 1, …: up to 250, doubled until 15,000, and half of it by chance. */
export function backoff(attempt, random = Math.random) {
  return Math.round((Math.min(15000, 250 * 2 ** Math.min(attempt, 10)) / 2) * (1 + random()));
}

/** A WebSocket that reconnects: idle ─start─► connecting ─► open ─lost─► waiting ─backoff─► connecting …; stop ─► idle. */
export class ReconnectingSocket {
  phase = 'idle';
  attempt = 0;
  retryAt = 0;
  lastCode = 0;
  lastReason = '';
  #socket = null;
  #timer = 0;
  #hooks;
  #wakeListeners;

  /** hooks: url(), opened(), message(text), lost(), phase() after each change of it, woken() when the device wakes up. */
  constructor(hooks) { this.#hooks = hooks; }

  start() {
    this.stop();
    this.attempt = 0;
    this.#wakeListeners = new AbortController();
    const { signal } = this.#wakeListeners, woken = () => { this.retryNow(); if (this.phase === 'open') this.#hooks.woken?.(); };
    globalThis.addEventListener?.('online', woken, { signal });
    globalThis.document?.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && woken(), { signal });
    this.#dial();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#wakeListeners?.abort();
    if (this.#socket) closeSilently(this.#socket);
    this.#socket = null;
    if (this.phase !== 'idle') this.#enter('idle');
  }

  retryNow() {
    if (this.phase !== 'waiting') return;
    clearTimeout(this.#timer);
    this.#dial();
  }

  /** Drops a connection that does not answer. */
  drop(reason) {
    if (!this.#socket) return;
    closeSilently(this.#socket);
    this.#closed(0, reason);
  }

  /** The connection works: the next loss starts with the shortest delay. */
  proved() { this.attempt = 0; }

  send(text) {
    if (this.phase === 'open') this.#socket.send(text);
    return this.phase === 'open';
  }

  #dial() {
    if (!Socket) return this.#load();
    try {
      this.#socket = new Socket(this.#hooks.url());
    } catch (error) {
      return this.#giveUp(`No WebSocket can be opened to this address: ${error.message}`);
    }
    const socket = this.#socket;
    socket.onopen = () => { this.#enter('open'); this.#hooks.opened(); };
    socket.onmessage = ({ data }) => this.#hooks.message(data);
    socket.onclose = ({ code, reason }) => socket === this.#socket && this.#closed(code, reason);
    // Node 20 only reports an error when there is no connection.
    socket.onerror = () => setTimeout(() => socket.onclose?.({ code: 1006, reason: '' }), 100);
    this.#enter('connecting');
  }

  #load() {
    const { signal } = this.#wakeListeners;
    import('./vigla-node.js').then(({ NodeSocket }) => {
      Socket = NodeSocket;
      if (!signal.aborted) this.#dial();
    }, (error) => { if (!signal.aborted) this.#giveUp(`Node before 22 needs vigla-node.js beside vigla.js: ${error.message}`); });
  }

  /** Stops, because no later attempt would succeed. */
  #giveUp(reason) {
    this.lastReason = reason;
    this.#enter('idle');
  }

  #closed(code, reason) {
    this.#socket = null;
    this.lastCode = code;
    this.lastReason = reason;
    const delay = backoff(this.attempt++);
    this.retryAt = Date.now() + delay;
    this.#timer = setTimeout(() => this.#dial(), delay);
    this.#enter('waiting');
  }

  #enter(phase) {
    const wasOpen = this.phase === 'open';
    this.phase = phase;
    this.#hooks.phase();
    if (wasOpen) this.#hooks.lost();
  }
}

/** Closes a socket once it is open: browsers warn otherwise. */
function closeSilently(socket) {
  socket.onmessage = socket.onclose = null;
  socket.onopen = () => socket.close();
  if (socket.readyState) socket.close();
}

const closed = (reason) => new ViglaError({ code: 'closed', message: reason ?? 'The client was closed.' });
const lostText = 'The connection was lost before the answer came; the request may have been carried out.';
const lost = () => new ViglaError({ code: 'connection_lost', message: lostText });

// The defaults of `onstate` and `onended`: unhandled errors are shown on the console.
const warnOfEnd = (path, error) => console.warn(`The hub ended the observer of ${path}: ${error.message}`);
function warnOfState() {
  let last = ''; // an unreachable hub is reported once
  return ({ state, error }) => {
    if (error && error.message !== last) console.warn(`Vigla client, ${state}: ${error.message}`);
    last = state === 'connected' ? '' : error?.message ?? last;
  };
}

/** Reports what a callback throws, which does not stop the client. */
function call(back, ...facts) { try { back(...facts); } catch (error) { queueMicrotask(() => { throw error; }); } }

/** The result of `observe`. Without a handler, iterate over it: `for await (const event of observer)` throws the error that ends it. */
export class Observer {
  /** Whether the rules do not declare the order of the query. */
  lacksIndex = false;
  #calls;
  #queue = [];
  #wake = null;

  constructor(calls) { this.#calls = calls; }

  /** Ends the observer. */
  end() {
    this.#calls.end();
    this.tell({ event: 'ended', error: closed() });
  }

  /** Moves a circle, or with `{ within }` a region; the observer gets the difference. */
  move(to) { return this.#calls.move(to); }

  tell(event) {
    this.#queue.push(event);
    this.#wake?.();
  }

  async *[Symbol.asyncIterator]() {
    try {
      for (;;) {
        for (const event of this.#queue.splice(0)) {
          if (event.event !== 'ended') yield event;
          else if (event.error.code === 'closed') return;
          else throw event.error;
        }
        if (!this.#queue.length) await new Promise((wake) => { this.#wake = wake; });
      }
    } finally { this.#calls.end(); }
  }
}

/** One user of a hub. */
export class Vigla {
  /** connecting | connected | waiting | closed */
  state = 'connecting';
  #socket;
  #token;
  #onstate;
  #onended;
  #closedWith = null;
  #next = 1;
  #ticks = 0;               // since the hub last sent something
  #timer;
  #turn = 0;                // counts connections
  #pending = new Map();       // id → { resolve, reject }: sent, not answered
  #unsent = [];             // { send, reject }: waits for a connection, in the order of the calls
  #observers = new Map();   // id → what is observed and its progress; the id is the observer's for good
  #signing = [];            // { resolve, reject } of auth calls without an answer

  /**
   * @param {string} address  such as http://127.0.0.1:9000?ns=NAME; https, ws and wss are the same
   * @param {import('./vigla.d.ts').Options} [options]  token: a function is called for every connection. onstate: called for each state,
   *   and for credentialRefused, when it continues as a visitor. onended: called when the hub has ended an observer with a handler.
   *   Both warn on the console by default.
   */
  constructor(address, { ns, token, onstate = warnOfState(), onended = warnOfEnd } = {}) {
    const url = new URL(address.replace(/^http/, 'ws'));
    url.pathname = '/.observe';
    url.searchParams.set('v', '1');
    if (ns) url.searchParams.set('ns', ns);
    this.#token = token;
    this.#onstate = (change) => call(onstate, change);
    this.#onended = onended;
    this.#socket = new ReconnectingSocket({
      url: () => url.href,
      opened: () => this.#opened(this.#turn),
      message: (text) => this.#received(JSON.parse(text)),
      lost: () => this.#lost(),
      phase: () => this.#follow(),
      woken: () => this.#watch(2),
    });
    this.#watch();
    this.#socket.start();
  }

  /** Acts as the token's user from now on. Resolves with the uid. */
  auth(token) {
    this.#token = token;
    return new Promise((resolve, reject) => {
      if (this.state === 'closed') return reject(this.#closedWith);
      this.#signing.push({ resolve, reject });
      if (this.state === 'connected') this.#sign(this.#turn);
    });
  }

  /**
   * Observes a place: first its current data, then every change.
   * @param {string} path @param {import('./vigla.d.ts').Wanted} [wanted]
   * @param {(event: import('./vigla.d.ts').Event) => void} [handler]  gets `ended` last
   * @returns {Observer}
   */
  observe(path, { events = ['value'], query, maxHz } = {}, handler) {
    const id = this.#next++;
    // "ready" is always requested, so that an observer knows its position even at an empty place.
    const isBare = !['value', 'count', 'ready'].some((name) => events.includes(name));
    const wanted = { path, events: isBare ? [...events, 'ready'] : events, query, maxHz };
    const o = { ...wanted, isBare, handler, error: null, since: null, held: [], moves: 0, isMoving: false };
    o.observer = new Observer({
      end: () => {
        o.error ??= closed();
        if (this.#observers.delete(id) && this.state === 'connected') this.ask({ op: 'unobserve', sub: id }).catch(() => {});
      },
      move: (near) => this.#move(id, o, near),
    });
    this.#observers.set(id, o);
    if (this.state === 'closed') this.#end(id, this.#closedWith);
    else this.#whenConnected({ send: () => this.#begin(id), reject: () => {} });
    return o.observer;
  }

  async get(path, query) { return (await this.ask({ op: 'get', path, query })).value; }
  async count(path, query) { return (await this.ask({ op: 'count', path, query })).count; }
  /** The number of the commit, as with `update` and `remove`. */
  async set(path, value) { return (await this.ask({ op: 'set', path, value })).seq; }
  async update(path, value) { return (await this.ask({ op: 'update', path, value })).seq; }
  async remove(path) { return (await this.ask({ op: 'remove', path })).seq; }
  /** The key of the new child. */
  async push(path, value) { return (await this.ask({ op: 'push', path, value })).key; }
  async ping() { await this.ask({ op: 'ping' }); }

  /** Registers set, update, remove or cancel for the end of this connection. Register it again at each `connected`. */
  async onDisconnect(what, path, value) { await this.ask({ op: 'onDisconnect', do: what, path, value }); }

  /** Sets a place to update(current value); retries up to 25 times in all if another writer was faster. Resolves with the value. */
  async transaction(path, update) {
    let was = await this.get(path);
    for (let left = 24; ; left--) {
      const value = await update(was);
      try {
        await this.ask({ op: 'transaction', path, was, value });
        return value;
      } catch (error) {
        if (error.code !== 'stale' || !left) throw error;
        was = 'value' in error ? error.value : await this.get(path);
      }
    }
  }

  /** Ends the connection and all observers for good. */
  close() { this.#close(); }

  /** reason: why the client stopped, which becomes the error of its state. */
  #close(reason) {
    if (this.state === 'closed') return;
    this.state = 'closed';
    this.#closedWith = closed(reason);
    clearInterval(this.#timer);
    this.#socket.stop();
    for (const { reject } of [...this.#unsent.splice(0), ...this.#signing.splice(0)]) reject(this.#closedWith);
    for (const id of [...this.#observers.keys()]) this.#end(id, this.#closedWith);
    this.#onstate(reason ? { state: 'closed', error: this.#closedWith } : { state: 'closed' });
  }

  // ---- requests

  /** Any request of the protocol, such as { op: 'get', path }. Resolves with its `ok`. */
  ask(request) {
    return new Promise((resolve, reject) => {
      if (this.state === 'closed') return reject(this.#closedWith);
      const id = this.#next++, text = JSON.stringify({ id, ...request });
      this.#whenConnected({ send: () => this.#send(id, text, { resolve, reject }), reject });
    });
  }

  #move(id, o, near) {
    let settle;
    const moved = new Promise((resolve, reject) => { settle = { resolve, reject }; });
    const fail = (error) => {
      // The end is reported once: who moves the observer without awaiting this need not handle it again.
      if (o.error) moved.catch(() => {});
      settle.reject(o.error ?? error);
    };
    const before = o.query, number = this.#next++, fault = moveFault(before, near);
    if (o.error || fault) {
      fail(fault);
      return moved;
    }
    const change = near.within === undefined ? { near } : { within: near.within };
    o.query = { ...before, ...(change.near ? { near: { ...before.near, ...near } } : change) };
    // Until the difference after the answer has arrived, events may belong to either area.
    o.moves += 1;
    o.isMoving = true;
    if (this.state !== 'connected') settle.resolve();
    else this.#send(number, JSON.stringify({ id: number, op: 'move', sub: id, ...change }), {
      resolve: () => { o.moves -= 1; settle.resolve(); },
      reject: (error) => {
        if (error.code === 'connection_lost') return settle.resolve(); // the next one begins there
        o.query = before;
        o.moves -= 1;
        fail(error);
      },
    });
    return moved;
  }

  #whenConnected(item) { if (this.state === 'connected') item.send(); else this.#unsent.push(item); }

  #send(id, text, answer) {
    this.#pending.set(id, answer);
    this.#socket.send(text);
  }

  /** Begins an observer, or resumes it. */
  #begin(id) {
    const o = this.#observers.get(id);
    if (!o) return;
    const { path, events, query, maxHz } = o, since = o.isMoving ? null : o.since;
    Object.assign(o, { isBegun: true, moves: 0, held: [] });
    this.#send(id, JSON.stringify({ id, op: 'observe', path, events, query, maxHz, since }), {
      resolve: (ok) => {
        o.epoch = ok.epoch;
        o.observer.lacksIndex = ok.lacksIndex === true;
        // Held until the first event after it: until then the earlier events count.
        if (o.since && (ok.reset || !since)) o.held = [{ event: 'reset', seq: ok.seq }];
      },
      reject: (error) => { if (error.code !== 'connection_lost') this.#end(id, error); },
    });
  }

  #end(id, error) {
    const o = this.#observers.get(id);
    this.#observers.delete(id);
    o.error = error;
    this.#deliver(o, { event: 'ended', error });
    if (o.handler && error.code !== 'closed') call(this.#onended, o.path, error);
  }

  #deliver(o, event) { if (o.handler) call(o.handler, event); else o.observer.tell(event); }

  /** Sends the credential, if there is one; false when the connection has ended meanwhile. */
  async #sign(turn) {
    const from = this.#token;
    let token = from;
    try {
      if (typeof from === 'function') token = await from();
    } catch (error) {
      if (turn === this.#turn) this.#socket.drop(String(error?.message ?? error));
    }
    if (turn !== this.#turn) return false;
    const calls = this.#signing.splice(0), id = this.#next++;
    const answer = {
      resolve: ({ uid }) => { for (const { resolve } of calls) resolve(uid); },
      reject: (error) => {
        if (error.code === 'connection_lost') return this.#signing.unshift(...calls); // the credential is sent again
        if (this.#token === token) this.#token = null;
        if (!calls.length) this.#onstate({ state: 'credentialRefused', error });
        for (const { reject } of calls) reject(error);
      },
    };
    if (token) this.#send(id, JSON.stringify({ id, op: 'auth', token }), answer); else answer.resolve({});
    return true;
  }

  // ---- the connection

  async #opened(turn) {
    if (!await this.#sign(turn)) return;
    this.state = 'connected';
    for (const [id, o] of this.#observers) if (o.isBegun) this.#begin(id);
    for (const { send } of this.#unsent.splice(0)) send();
    this.#onstate({ state: 'connected' });
  }

  #received({ id, sub, ok, error, more, ...event }) {
    this.#ticks = 0;
    const o = this.#observers.get(sub);
    if (o) {
      if (error) return this.#end(sub, new ViglaError(error));
      o.held.push(event);
      if (more) return;
      o.since = { epoch: o.epoch, seq: event.seq };
      o.isMoving = o.moves > 0;
      for (const one of o.held.splice(0)) {
        if (this.#observers.has(sub) && !(o.isBare && one.event === 'ready')) this.#deliver(o, one);
      }
    } else if (this.#pending.has(id)) {
      const { resolve, reject } = this.#pending.get(id);
      this.#pending.delete(id);
      this.#socket.proved();
      if (error) reject(new ViglaError(error)); else resolve(ok);
    }
  }

  #lost() {
    this.#turn += 1;
    const asked = [...this.#pending.values()];
    this.#pending.clear();
    for (const { reject } of asked) reject(lost());
  }

  #follow() {
    const { phase, lastCode, lastReason, retryAt } = this.#socket;
    this.#ticks = 0;
    if (this.state === 'closed' || phase === 'open') return;
    if (phase === 'idle') return this.#close(lastReason);
    this.state = phase;
    const error = new ViglaError({ code: 'connection_lost', message: lastReason || `The connection ended with ${lastCode}.` });
    this.#onstate(phase === 'waiting' ? { state: phase, error, retryMs: retryAt - Date.now() } : { state: phase });
  }

  #watch(ticks = 0) {
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.#tick(), tickMs);
    if (ticks) { this.#ticks = ticks - 1; this.#tick(); }
  }

  #tick() {
    this.#ticks += 1;
    if (this.#ticks > 2) this.#socket.drop('The hub does not answer.');
    else if (this.state === 'connected') this.ping().catch(() => {});
  }
}
