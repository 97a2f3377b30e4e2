// The latest requests that the rules refused, live, each a click away from its explanation.

import { Repeating, ask } from '../page/administration.js';
import { clockTime, element, plural, pressedIn, setText } from '../page/dom.js';

const everyMs = 2000;
const shown = 100;

export class RefusalsView {
  #hub;
  #list;
  #count;
  #blank;
  #latest = 0;
  #generation = 0;
  #repeating;
  #isPressed;

  /** explain(refusal): shows the reason. told(count): the number of refusals since the start. */
  constructor(hub, explain) {
    this.#hub = hub;
    this.explain = explain;
    this.#list = element('ol', { class: 'refusals', 'aria-label': 'Latest refusals, the newest first' });
    this.#isPressed = pressedIn(this.#list);
    this.#count = element('p', { class: 'quiet', role: 'status' });
    this.#blank = element('p', { class: 'blank' }, 'Nothing was refused since the hub was started. What the rules refuse appears here as it happens.');
    this.element = element('div', { class: 'pane' }, this.#count, this.#blank, this.#list);
    this.#repeating = new Repeating(everyMs, () => this.#read());
  }

  get rows() { return this.#list.childElementCount; }

  start() { this.#repeating.start(); }
  stop() { this.#repeating.stop(); }

  /** Resets for another hub or namespace. */
  clear() {
    this.#generation++;
    this.#latest = 0;
    this.#list.replaceChildren();
  }

  async #read() {
    const generation = this.#generation;
    let answer;
    try { answer = await ask(this.#hub, `/.settings/refusals.json?after=${this.#latest}`); } catch { return; }
    if (generation !== this.#generation || this.#isPressed()) return;
    // A restarted hub counts from 1 again.
    if (answer.latest < this.#latest) { this.clear(); return; }
    const isFirst = this.#latest === 0;
    this.#latest = answer.latest;
    for (const refusal of answer.refusals) this.#list.prepend(this.#row(refusal, !isFirst));
    while (this.#list.childElementCount > shown) this.#list.lastElementChild.remove();
    this.#blank.hidden = this.#list.childElementCount > 0;
    setText(this.#count, answer.latest ? `${plural(answer.latest, 'refusal')} since the hub was started; the latest are kept, without values.` : '');
  }

  #row(refusal, isNew) {
    const [path] = refusal.paths;
    const more = refusal.paths.length - 1 + refusal.morePaths;
    return element('li', { class: isNew ? 'fresh' : null },
      element('button', { type: 'button', class: 'refusal', onclick: () => this.explain(refusal) },
        element('time', {}, clockTime(refusal.at)),
        element('span', { class: 'refusal-operation' }, refusal.operation),
        element('span', { class: 'refusal-path' }, more > 0 ? `${path} and ${more} more` : path),
        element('span', { class: 'refusal-who quiet' }, refusal.uid === null ? 'signed out' : `as ${refusal.uid}`)));
  }
}
