// A text area with line numbers, in which faults are underlined where they are. No library: the text area does the editing, a layer
// behind it draws the marks and scrolls with it.

import { element } from './dom.js';
import { lineCount, markers, offsetOf } from './rules-text.js';

const lineHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--code-line')) || 20;

export class Editor {
  #area;
  #numbers;
  #marks;
  #lines = 0;

  /** changed(): the text was edited; done(): Ctrl+Enter. */
  constructor({ id, title, changed, done, describedBy }) {
    this.#numbers = element('div', { class: 'code-numbers', 'aria-hidden': 'true' });
    this.#marks = element('div', { class: 'code-marks', 'aria-hidden': 'true' });
    this.#area = element('textarea', {
      id, wrap: 'off', spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', 'aria-label': title, 'aria-describedby': describedBy,
      oninput: () => { this.#number(); changed?.(); },
      onscroll: () => this.#scroll(),
      onkeydown: (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); done?.(); } },
    });
    this.element = element('div', { class: 'code' },
      element('div', { class: 'code-gutter' }, this.#numbers), element('div', { class: 'code-field' }, this.#marks, this.#area));
    this.#number();
  }

  get value() { return this.#area.value; }
  set value(text) {
    if (text === this.#area.value) return;
    this.#area.value = text;
    this.mark([]);
    this.#number();
  }

  focus() { this.#area.focus(); }

  /** Underlines places: [{ line, column, message, hint, kind: 'fault' | 'warning' }]. */
  mark(faults) {
    const found = markers(this.value, faults);
    const seen = new Map();
    for (const { line, kind } of found) if (seen.get(line) !== 'fault') seen.set(line, kind);
    this.#marks.replaceChildren(...found.slice(0, 200).map(({ line, before, marked, kind }) => {
      const row = element('div', { class: 'code-mark' }, element('span', {}, before), element('mark', { class: `mark-${kind}` }, marked));
      row.style.setProperty('--line', line - 1);
      return row;
    }), ...[...seen].slice(0, 200).map(([line, kind]) => {
      const dot = element('i', { class: `code-dot mark-${kind}` });
      dot.style.setProperty('--line', line - 1);
      return dot;
    }));
    this.#area.toggleAttribute('aria-invalid', found.some(({ kind }) => kind === 'fault'));
    if (this.#area.hasAttribute('aria-invalid')) this.#area.setAttribute('aria-invalid', 'true');
  }

  /** Goes to a place and selects the word there. */
  reveal(line, column) {
    const start = offsetOf(this.value, line, column);
    const [mark] = markers(this.value, [{ line, column, message: '' }]);
    this.#area.focus();
    this.#area.setSelectionRange(start, Math.min(this.value.length, start + (mark?.marked.trim().length ?? 0)));
    const top = (line - 1) * lineHeight();
    if (top < this.#area.scrollTop || top > this.#area.scrollTop + this.#area.clientHeight - 40) this.#area.scrollTop = Math.max(0, top - this.#area.clientHeight / 3);
    this.#scroll();
  }

  #number() {
    const lines = lineCount(this.value);
    if (lines === this.#lines) return;
    this.#lines = lines;
    this.#numbers.textContent = Array.from({ length: lines }, (_, i) => i + 1).join('\n');
  }

  #scroll() {
    const { scrollTop, scrollLeft } = this.#area;
    this.#numbers.style.transform = `translateY(${-scrollTop}px)`;
    this.#marks.style.transform = `translate(${-scrollLeft}px, ${-scrollTop}px)`;
  }
}
