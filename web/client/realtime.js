// The browser's side of realtime protocol v5 (contract §1.2–§1.6, §2.1–§2.6): one socket, hello, chunked frames,
// keep-alive, requests with answers, default listens that are restored after every reconnect.

import { ReconnectingSocket } from '../vigla.js';
import { FrameJoiner, KeepAlive, cut } from './frames.js';
import { Listens, Refusal, Requests } from './listens.js';
import { joinPath, pushIds, splitPath } from './paths.js';

export class Realtime {
  /** offline | connecting | greeting | connected | waiting */
  phase = 'offline';
  clockOffsetMs = 0;   // hub clock − browser clock
  session = null;
  identity = null;     // null = visitor, else { uid?, admin? }
  authFault = null;    // Refusal of the last token
  shutdown = null;     // the hub told clients not to reconnect
  pushes = 0;          // pushes received since the page was opened
  credentials = { token: '', isSecret: false, actAs: undefined };
  /** Called when the hub has revoked the token: gets another one, or returns false. */
  revoked = async () => false;

  #target = null;
  #dialHost = null;
  #listens = new Listens();
  #requests = new Requests();
  #joiner = new FrameJoiner();
  #socket;
  #alive;
  #changed;
  #nextPushId = pushIds();

  /** `changed()` is called after every change of the public state. */
  constructor(changed) {
    this.#changed = changed;
    this.#socket = new ReconnectingSocket({
      url: () => this.#url(),
      opened: () => {
        this.#joiner = new FrameJoiner();
        this.#requests.begin();
      },
      message: (text) => {
        const whole = this.#joiner.receive(text);
        if (whole !== null) this.#receive(whole);
      },
      lost: () => this.#lost(),
      phase: () => this.#follow(),
    });
    this.#alive = new KeepAlive({
      ping: () => this.#transmit({ t: 'c', d: { t: 'p', d: {} } }),
      idle: () => this.#socket.send('0'),
      dead: () => this.#socket.drop('The hub stopped answering.'),
      proved: () => this.#socket.proved(),
    });
  }

  get roundTripMs() { return this.#alive.roundTripMs; }
  get retryAt() { return this.#socket.retryAt; }
  get attempt() { return this.#socket.attempt; }
  get lastCode() { return this.#socket.lastCode; }
  get lastReason() { return this.#socket.lastReason; }
  get serverNow() { return Date.now() + this.clockOffsetMs; }
  get connected() { return this.phase === 'connected'; }

  /** target: { host: "name:port", ns, secure }. The identity is that of `credentials`. */
  connect(target) {
    this.#target = target;
    this.#dialHost = null;
    this.session = null;
    this.shutdown = null;
    this.authFault = null;
    this.#socket.start();
  }

  disconnect() { this.#socket.stop(); }
  retryNow() { this.#socket.retryNow(); }

  /**
   * A default listen. handlers: push(pathParts, kind "d"|"m", wire), ready(empty), refused(Refusal), lost().
   * `ready(true)` means that the hub confirmed an empty place without a push (contract §2.5, 2).
   * One listen per path; returns the function that ends it.
   */
  listen(path, handlers) { return this.#begin(this.#listens.add(path, handlers)); }

  /**
   * A listen of a query, such as { i: '.key', sp: 'a', ep: 'b', l: 50, vf: 'l' } (contract §3.1); any number for each path. The same
   * handlers; pushes contain only what is in its window. Returns the function that ends it.
   */
  listenQuery(path, query, handlers) { return this.#begin(this.#listens.add(path, handlers, query)); }

  /** The number of places and queries that are currently listened to. */
  get listens() { return this.#listens.count; }

  set(path, value) { return this.#send('p', { p: path, d: value }); }
  update(path, entries) { return this.#send('m', { p: path, d: entries }); }
  remove(path) { return this.#send('p', { p: path, d: null }); }
  /** Reads once; with a query only what is in its window. */
  get(path, query = {}) { return this.#send('g', { p: path, q: query }); }

  /** A key that sorts by the hub's time. */
  newKey() { return this.#nextPushId(this.serverNow); }

  /** Writes below a fresh push id; resolves with the id. */
  async push(path, value) {
    const key = this.newKey();
    await this.set(joinPath([...splitPath(path), key]), value);
    return key;
  }

  #url() {
    const { host, ns, secure } = this.#target;
    const session = this.session ? `&ls=${encodeURIComponent(this.session)}` : '';
    return `${secure ? 'wss' : 'ws'}://${this.#dialHost ?? host}/.ws?v=5&ns=${encodeURIComponent(ns)}${session}`;
  }

  #follow() {
    const phases = { idle: 'offline', connecting: 'connecting', open: 'greeting', waiting: 'waiting' };
    this.phase = phases[this.#socket.phase];
    this.#changed();
  }

  #lost() {
    this.#alive.stop();
    this.#requests.lost();
    for (const listen of this.#listens.all) {
      listen.snapshot = false;
      listen.handlers.lost();
    }
  }

  #receive(text) {
    let message;
    try { message = JSON.parse(text); } catch { return; }
    if (message.t === 'c') this.#control(message.d ?? {});
    else if (message.t === 'd') this.#data(message.d ?? {});
  }

  #control({ t, d }) {
    if (t === 'h') {
      this.clockOffsetMs = d.ts - Date.now();
      this.session = d.s;
      this.#greeted();
    } else if (t === 'o') {
      if (this.#alive.answered()) this.#changed();
    } else if (t === 'r') {
      this.#dialHost = typeof d === 'string' ? d : null;
      this.#socket.drop('The hub asked to reconnect.');
      this.#socket.retryNow();
    } else if (t === 's') {
      this.shutdown = String(d ?? '');
      this.#socket.stop();
    }
  }

  #greeted() {
    this.phase = 'connected';
    this.identity = null;
    this.authFault = null;
    this.#send('s', { c: { 'vigla.console': 1 } }).catch(() => {});
    this.authenticate();
    // Answers come in request order (contract §2.5, 1): listens may follow the token without waiting.
    for (const listen of this.#listens.all) this.#ask(listen);
    this.#alive.start();
    this.#changed();
  }

  /** Sends the credential to the hub; again after the token was renewed. */
  authenticate() {
    if (!this.connected) return;
    const { token, isSecret, actAs } = this.credentials;
    if (!token) return;
    const body = isSecret && actAs !== undefined ? { cred: token, authvar: actAs } : { cred: token };
    this.#send(isSecret ? 'gauth' : 'auth', body).then(
      (answer) => { this.identity = isSecret ? { admin: true } : answer?.auth ?? {}; this.#changed(); },
      (refusal) => {
        if (refusal.code === 'disconnected') return;
        this.revoked(refusal).then((renewed) => {
          if (renewed) return; // the new token is on its way
          this.identity = null;
          this.authFault = refusal;
          this.#changed();
        });
      },
    );
  }

  #begin(listen) {
    if (this.connected) this.#ask(listen);
    return () => {
      if (!this.#listens.remove(listen) || !this.connected) return;
      this.#send('n', listen.query ? { p: listen.path, q: listen.query, t: listen.tag } : { p: listen.path }).catch(() => {});
    };
  }

  #ask(listen) {
    const { path, query, tag } = listen;
    this.#send('q', query ? { p: path, q: query, t: tag, h: '' } : { p: path, h: '' }).then(
      () => { if (this.#listens.has(listen)) listen.handlers.ready(!listen.snapshot); },
      (refusal) => { if (refusal.code !== 'disconnected' && this.#listens.has(listen)) listen.handlers.refused(refusal); },
    );
  }

  #data(message) {
    if ('r' in message) { this.#requests.answered(message); return; }
    const { a, b } = message;
    if (!b) return;
    if (a === 'd' || a === 'm') {
      this.pushes += 1;
      this.#listens.push(splitPath(b.p), a, b.d, b.t);
    } else if (a === 'c') {
      const refusal = new Refusal('permission_denied', 'The hub ended this listen: it is no longer permitted.');
      for (const listen of this.#listens.cancelled(b.p, b.q)) listen.handlers.refused(refusal);
    } else if (a === 'ac') {
      const refusal = new Refusal(b.s ?? 'expired_token', String(b.d ?? ''));
      this.revoked(refusal).then((renewed) => {
        if (renewed) return; // the hub closes the connection; the next one brings the new token
        this.identity = null;
        this.authFault = refusal;
        this.#changed();
      });
    }
  }

  #send(action, body) {
    if (!this.connected) {
      return Promise.reject(new Refusal('disconnected', 'Not connected. Nothing was sent.'));
    }
    return this.#requests.send(action, body, (message) => this.#transmit(message));
  }

  #transmit(message) {
    this.#alive.sent();
    for (const frame of cut(JSON.stringify(message))) this.#socket.send(frame);
  }
}
