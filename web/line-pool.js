// The elements of the rows on the page. They are used again for other rows; a row keeps its element as long as it is seen.

import { makeRow, writeRow } from './tree-rows.js';

/** A note has the path of its place, and an element of its own. */
const nameOf = (row) => (row.kind === 'note' ? `${row.path}#note` : row.path);

export class LinePool {
  #box;
  #lines = new Map(); // name → element
  #free = [];

  /** box: the element that they are in. */
  constructor(box) { this.#box = box; }

  get count() { return this.#lines.size; }

  /** The element of the row of a path, if it is on the page. */
  line(path) { return this.#lines.get(path) ?? null; }
  lineOf(row) { return this.#lines.get(nameOf(row)) ?? null; }

  /** The row that has the focus, if one has. */
  get held() { return this.#box.contains(document.activeElement) ? document.activeElement.closest('.line')?.row ?? null : null; }

  /** Shows these rows and no others. top(row): where it is drawn; selected, focus: paths of rows. */
  sync(rows, { top, selected, focus }) {
    const kept = new Set(rows.map(nameOf));
    for (const [name, line] of this.#lines) {
      if (kept.has(name)) continue;
      this.#lines.delete(name);
      this.#release(line);
    }
    for (const row of rows) {
      const line = this.lineOf(row) ?? this.#take(nameOf(row)), at = top(row), isPlace = row.kind !== 'note';
      line.row = row;
      if (line.top !== at) { line.top = at; line.style.transform = `translateY(${at}px)`; }
      writeRow(line, row, { selected: isPlace && row.path === selected, focused: isPlace && row.path === focus });
    }
    // Tab always comes to some row.
    if (!kept.has(focus)) this.line(rows.find((row) => row.kind !== 'note')?.path)?.setAttribute('tabindex', '0');
  }

  clear() {
    for (const line of this.#lines.values()) this.#release(line);
    this.#lines.clear();
  }

  #take(name) {
    const line = this.#free.pop() ?? makeRow();
    delete line.dataset.flash;
    this.#lines.set(name, line);
    if (line.parentNode !== this.#box) this.#box.append(line);
    line.hidden = false;
    return line;
  }

  #release(line) {
    line.row = null;
    line.hidden = true;
    this.#free.push(line);
  }
}
