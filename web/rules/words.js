// In words: what the rules in the editor mean, in sentences that the hub makes of them. Loaded, with its css file, when it is first shown.

import { request } from '../page/administration.js';
import { element, field, isValidPath, pathInput, setText } from '../page/dom.js';

const shownPlaces = 300;
const labels = { read: 'read', write: 'write', valid: 'valid', follows: 'then', limits: 'limit', indexes: 'queries', function: 'function', unsupported: 'ignored' };

export class WordsView {
  #hub;
  #text;
  #asking = null;
  #p = {};
  /** The last answer: [{ place, sentences: [{ kind, text }] }]. */
  answer = null;

  /** text(): the edited rules. */
  constructor(hub, text) {
    this.#hub = hub;
    this.#text = text;
    document.head.append(element('link', { rel: 'stylesheet', href: 'rules/words.css' }));
    const p = this.#p;
    p.path = pathInput({ id: 'words-path', placeholder: '/: all places', onchange: () => this.update() });
    p.note = element('p', { class: 'quiet', role: 'status' });
    p.list = element('div', { class: 'words-places' });
    this.element = element('div', { class: 'words-view' },
      element('form', { class: 'fields', novalidate: true, onsubmit: (event) => { event.preventDefault(); this.update(); } },
        element('div', { class: 'wide' }, field('at and below', p.path))),
      p.note, p.list);
    // The place that is selected in the tree; a place typed here stays until another one is selected.
    hub.on('selected', () => this.#follow());
    this.#follow();
  }

  clear() {
    this.#asking?.abort();
    this.answer = null;
    this.#p.list.replaceChildren();
    setText(this.#p.note, '');
  }

  #follow() {
    this.#p.path.value = this.#hub.selected === '/' ? '' : this.#hub.selected;
    if (this.element?.offsetParent) this.update();
  }

  /** Asks again; faulty rules keep the sentences of the last ones. */
  async update() {
    const p = this.#p;
    if (!isValidPath(p.path)) return;
    this.#asking?.abort();
    const { signal } = this.#asking = new AbortController();
    try {
      const answer = await request(this.#hub, `/.settings/explainRules.json?place=${encodeURIComponent(p.path.value)}`, { text: this.#text(), signal });
      if (signal.aborted) return;
      if (answer.faults) {
        setText(p.note, 'The text in the editor is faulty. The sentences are those of the last one without faults.');
        return;
      }
      this.answer = answer;
      const more = answer.length - shownPlaces;
      setText(p.note, more > 0 ? `${more} more places: name one above.` : 'For clients. Administrators may do everything.');
      p.list.replaceChildren(...answer.slice(0, shownPlaces).map(({ place, sentences }) => element('section', {},
        element('h3', {}, place), element('dl', {}, ...rows(sentences)))));
    } catch (fault) {
      if (fault.name !== 'AbortError') setText(p.note, fault.message);
    }
  }
}

/** Sentences of one kind below each other, with one label. */
function rows(sentences) {
  const kinds = [...new Set(sentences.map(({ kind }) => kind))];
  return kinds.flatMap((kind) => [
    element('dt', {}, labels[kind] ?? kind),
    element('dd', {}, ...sentences.filter((sentence) => sentence.kind === kind).map(({ text }) => element('p', {}, ...parts(text)))),
  ]);
}

/** What stands in backticks is code. */
const parts = (text) => text.split('`').map((part, i) => (i % 2 ? element('code', {}, part) : part));
