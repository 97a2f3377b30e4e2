// A WebSocket that reconnects: back-off with jitter, immediate retry when the network or the page returns.
//
//   idle ─start─► connecting ─open─► open ─lost─► waiting ─delay─► connecting …      stop ─► idle

/** Milliseconds to wait before attempt `attempt` (0 = the first retry). Half of the delay is jitter. */
export function backoff(attempt, random = Math.random) {
  const ceiling = Math.min(20000, 400 * 1.7 ** Math.min(attempt, 20));
  return Math.round(ceiling / 2 + random() * (ceiling / 2));
}

export class ReconnectingSocket {
  /** idle | connecting | open | waiting */
  phase = 'idle';
  attempt = 0;
  retryAt = 0;
  lastCode = 0;
  lastReason = '';
  #socket = null;
  #timer = 0;
  #hooks;

  /** hooks: url() → address, opened(), message(text), lost(), phase() — called after every change of phase. */
  constructor(hooks) {
    this.#hooks = hooks;
    if (typeof addEventListener === 'function') {
      addEventListener('online', () => this.retryNow());
      globalThis.document?.addEventListener('visibilitychange', () => {
        if (document.visibilityState === 'visible') this.retryNow();
      });
    }
  }

  start() {
    this.stop();
    this.attempt = 0;
    this.#dial();
  }

  stop() {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    if (socket) letGo(socket);
    if (this.phase !== 'idle') {
      const wasOpen = this.phase === 'open';
      this.#enter('idle');
      if (wasOpen) this.#hooks.lost();
    }
  }

  /** Skips the rest of the delay. */
  retryNow() {
    if (this.phase !== 'waiting') return;
    clearTimeout(this.#timer);
    this.#dial();
  }

  /** Closes a connection that no longer answers. */
  drop(reason) {
    const socket = this.#socket;
    if (!socket) return;
    letGo(socket);
    this.#closed(socket, 0, reason);
  }

  /** Resets the back-off after a working connection. */
  proved() { this.attempt = 0; }

  /** Sends a text; false when not connected. */
  send(text) {
    if (this.phase !== 'open') return false;
    this.#socket.send(text);
    return true;
  }

  #dial() {
    let socket;
    try {
      socket = new WebSocket(this.#hooks.url());
    } catch {
      this.lastReason = 'The address cannot be dialled. Check the host field: it holds host:port, without a scheme.';
      this.#enter('idle');
      return;
    }
    this.#socket = socket;
    this.#enter('connecting');
    socket.onopen = () => { this.#enter('open'); this.#hooks.opened(); };
    socket.onmessage = (event) => { if (typeof event.data === 'string') this.#hooks.message(event.data); };
    socket.onclose = (event) => this.#closed(socket, event.code, event.reason);
  }

  #closed(socket, code, reason) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    this.lastCode = code;
    this.lastReason = reason;
    const wasOpen = this.phase === 'open';
    const delay = backoff(this.attempt++);
    this.retryAt = Date.now() + delay;
    this.#timer = setTimeout(() => this.#dial(), delay);
    this.#enter('waiting');
    if (wasOpen) this.#hooks.lost();
  }

  #enter(phase) {
    this.phase = phase;
    this.#hooks.phase();
  }
}

/** Ends a connection that is of no more use. Closed while it is being made, the browser would write a warning: it is closed when it is open. */
function letGo(socket) {
  socket.onmessage = socket.onclose = null;
  socket.onopen = () => socket.close();
  if (socket.readyState !== WebSocket.CONNECTING) socket.close();
}
