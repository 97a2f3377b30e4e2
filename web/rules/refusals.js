// The latest requests that the rules refused, live, each a click away from its explanation.

import { LogReader } from '../page/administration.js';
import { clockTime, element, plural, pressedIn, setText } from '../page/dom.js';

const everyMs = 2000;
const shown = 100;

export class RefusalsView {
  #list;
  #count;
  #blank;
  #reader;

  /** explain(refusal): shows the reason. */
  constructor(hub, explain) {
    this.explain = explain;
    this.#list = element('ol', { class: 'refusals', 'aria-label': 'Latest refusals, the newest first' });
    this.#count = element('p', { class: 'quiet', role: 'status' });
    this.#blank = element('p', { class: 'blank' }, 'Nothing was refused since the hub was started. What the rules refuse appears here as it happens.');
    this.element = element('div', { class: 'pane' }, this.#count, this.#blank, this.#list);
    this.#reader = new LogReader(hub, '/.settings/refusals.json', everyMs, {
      isPaused: pressedIn(this.#list),
      added: (answer, isFirst) => this.#add(answer, isFirst),
      cleared: () => this.#list.replaceChildren(),
    });
  }

  get rows() { return this.#list.childElementCount; }

  start() { this.#reader.start(); }
  stop() { this.#reader.stop(); }
  clear() { this.#reader.clear(); }

  #add({ latest, refusals }, isFirst) {
    for (const refusal of refusals) this.#list.prepend(this.#row(refusal, !isFirst));
    while (this.#list.childElementCount > shown) this.#list.lastElementChild.remove();
    this.#blank.hidden = this.#list.childElementCount > 0;
    setText(this.#count, latest ? `${plural(latest, 'refusal')} since the hub was started; the latest are kept, without values.` : '');
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
