// A text area with line numbers, in which faults are underlined. No library: the text area does the editing, a layer
// behind it draws the marks and scrolls with it.

import { element } from '../page/dom.js';

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

// ---- the text

// The text of a rules file in the editor: places by line and column, and the difference of two texts. Pure.
//
// Lines and columns are 1-based; columns count UTF-16 units, as the hub's do.

const wordPart = /[\w$.]/;
/** Most cells of a comparison's table; above it, the differing part is shown as replaced as a whole. */
const mostCells = 4_000_000;

/** The offset of a place in a text; of the nearest one when the text has no such place. */
export function offsetOf(text, line, column) {
  let start = 0;
  for (let at = 1; at < line; at++) {
    const end = text.indexOf('\n', start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  const end = text.indexOf('\n', start);
  return Math.min(start + Math.max(0, column - 1), end < 0 ? text.length : end);
}

export function lineCount(text) {
  let lines = 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}

/**
 * What to draw for faults: [{ line, before, marked, kind, text }], in the order of the text. `marked` is the word or the quoted text
 * at the place (a space at the end of a line), `before` the line up to it.
 */
export function markers(text, faults) {
  const lines = text.split('\n');
  return faults.filter(({ line }) => line >= 1 && line <= lines.length).map(({ line, column, message, hint, kind = 'fault' }) => {
    const source = lines[line - 1].replace(/\r$/, '');
    const start = Math.min(Math.max(0, column - 1), source.length);
    let end = start;
    if (source[start] === '"') end = (source.indexOf('"', start + 1) + 1) || source.length;
    else while (end < source.length && wordPart.test(source[end])) end++;
    if (end === start) end = Math.min(start + 1, source.length);
    return { line, before: source.slice(0, start), marked: source.slice(start, end) || ' ', kind, text: hint ? `${message} (${hint})` : message };
  }).sort((a, b) => a.line - b.line || a.before.length - b.before.length);
}

/** The lines of two texts: [{ kind: 'same' | 'gone' | 'new', text, old, now }], `old` and `now` the line's number in each (or null). */
export function compare(before, after) {
  const a = before.split('\n'), b = after.split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const result = [];
  let old = 0, now = 0;
  const add = (kind, text) => result.push({ kind, text, old: kind === 'new' ? null : ++old, now: kind === 'gone' ? null : ++now });
  for (let i = 0; i < head; i++) add('same', a[i]);
  for (const [kind, text] of inner(a.slice(head, a.length - tail), b.slice(head, b.length - tail))) add(kind, text);
  for (let i = a.length - tail; i < a.length; i++) add('same', a[i]);
  return result;
}

/** By the longest common subsequence. O(lines × lines), bounded. */
function inner(a, b) {
  if (!a.length || !b.length || a.length * b.length > mostCells) return [...a.map((text) => ['gone', text]), ...b.map((text) => ['new', text])];
  const width = b.length + 1;
  const length = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      length[i * width + j] = a[i] === b[j] ? length[(i + 1) * width + j + 1] + 1 : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
    }
  }
  const result = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { result.push(['same', a[i]]); i++; j++; }
    else if (i < a.length && (j === b.length || length[(i + 1) * width + j] >= length[i * width + j + 1])) result.push(['gone', a[i++]]);
    else result.push(['new', b[j++]]);
  }
  return result;
}

/** The changed lines with `around` lines of context, and { kind: 'skip', count } for the lines between; empty for equal texts. */
export function hunks(lines, around = 3) {
  const shown = new Uint8Array(lines.length);
  lines.forEach(({ kind }, at) => {
    if (kind !== 'same') shown.fill(1, Math.max(0, at - around), Math.min(lines.length, at + around + 1));
  });
  const result = [];
  for (let at = 0; at < lines.length; at++) {
    if (shown[at]) result.push(lines[at]);
    else if (result.at(-1)?.kind === 'skip') result.at(-1).count++;
    else result.push({ kind: 'skip', count: 1 });
  }
  return lines.some(({ kind }) => kind !== 'same') ? result : [];
}

/** { added, removed } lines. */
export function changedLines(lines) {
  return { added: lines.filter(({ kind }) => kind === 'new').length, removed: lines.filter(({ kind }) => kind === 'gone').length };
}
