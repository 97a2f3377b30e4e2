// The traffic of a realtime connection: messages in frames, and keep-alive.
//
// A message longer than 16,384 UTF-16 units is one frame with the decimal number of segments, then the segments (contract §1.6).

export const segmentLength = 16384;

/** The frames that carry `text`. */
export function cut(text) {
  if (text.length <= segmentLength) return [text];
  const frames = [];
  for (let start = 0; start < text.length;) {
    let end = Math.min(start + segmentLength, text.length);
    // A lone surrogate cannot be encoded: leave the pair to the next segment.
    const unit = text.charCodeAt(end - 1);
    if (end < text.length && unit >= 0xd800 && unit <= 0xdbff) end -= 1;
    frames.push(text.slice(start, end));
    start = end;
  }
  return [String(frames.length), ...frames];
}

/** Joins inbound frames. `receive` returns a whole message, or null while segments are missing. */
export class FrameJoiner {
  #missing = 0;
  #segments = [];

  receive(text) {
    if (this.#missing > 0) {
      this.#segments.push(text);
      this.#missing -= 1;
      if (this.#missing > 0) return null;
      const whole = this.#segments.join('');
      this.#segments = [];
      return whole;
    }
    if (text.length <= 6 && /^[0-9]*$/.test(text)) {
      this.#missing = Number(text); // "0" and "" announce nothing
      return null;
    }
    return text;
  }
}

// ---- keep-alive

// Keep-alive of a realtime connection: pings that measure the round trip, the end of a connection that no longer answers, and a
// frame when nothing else was sent for long.

const idleMs = 45000;      // contract §1.5: the frame "0" after this long without traffic
const answerMs = 12000;    // a ping unanswered for this long means the connection is dead
const pingEveryMs = 15000;
const youngMs = 5000;      // a connection is young for this long: pinged more often, and not proved yet
const youngPingMs = 1500;

export class KeepAlive {
  roundTripMs = null;
  #hooks;
  #lastSent = 0;
  #pingAt = 0;
  #lastPing = 0;
  #timer = 0;

  /** hooks: ping(), idle() send a frame; dead(): the hub stopped answering; proved(): the connection works. */
  constructor(hooks) {
    this.#hooks = hooks;
    globalThis.document?.addEventListener('visibilitychange', () => {
      if (this.#timer && document.visibilityState === 'visible') this.#ping();
    });
  }

  /** The hub has greeted. */
  start() {
    this.stop();
    const since = Date.now();
    this.#timer = setInterval(() => {
      const now = Date.now(), isYoung = now - since < youngMs;
      if (!isYoung) this.#hooks.proved();
      if (this.#pingAt && performance.now() - this.#pingAt > answerMs) this.#hooks.dead();
      else if (now - this.#lastPing > (isYoung ? youngPingMs : pingEveryMs)) this.#ping();
      else if (now - this.#lastSent > idleMs) { this.sent(); this.#hooks.idle(); }
    }, 1000);
    this.#ping();
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = this.#pingAt = 0;
    this.roundTripMs = null;
  }

  /** Something was sent. */
  sent() { this.#lastSent = Date.now(); }

  /** Handles the answer to a ping; false when no ping was pending. */
  answered() {
    if (!this.#pingAt) return false;
    this.roundTripMs = performance.now() - this.#pingAt;
    this.#pingAt = 0;
    return true;
  }

  #ping() {
    if (this.#pingAt) return;
    this.#pingAt = performance.now();
    this.#lastPing = Date.now();
    this.#hooks.ping();
  }
}
