// Requests of the realtime protocol that wait for their answers, by the numbers that they were sent with.

import { Refusal } from './listens.js';

export class Requests {
  #waiting = new Map();
  #next = 1;

  /** Another connection: numbers begin anew. */
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

  /** The connection ended: what became of those under way is not known. */
  lost() {
    const lost = new Refusal('disconnected', 'The connection ended before the hub answered. The write may or may not have landed: look at the tree before repeating it.');
    for (const { reject } of this.#waiting.values()) reject(lost);
    this.#waiting.clear();
  }
}
