// The rows of the tree: their content, their elements, and how they light up.

import { elide, splitPath } from '../client/paths.js';
import { element, setText, typeOf } from '../page/dom.js';

/** The content of a row: { key, value, type, count, note, open (null: nothing below), editable }. */
export function describe(row) {
  const { place, node, single } = row;
  const content = { key: '', value: '', type: '', count: '', note: '', open: null, editable: false };
  if (row.kind === 'note') {
    content.note = place.state === 'loading' ? 'loading' : place.state === 'empty' ? 'nothing here' : refusal(place);
    return content;
  }
  if (row.kind === 'root') {
    content.key = splitPath(row.path).at(-1) ?? '/';
    if (place.state === 'leaf') return leaf(content, place.leaf, place.priority);
    content.open = true;
    content.count = counted(place);
    return content;
  }
  if (row.key === null) { content.key = '…'; return content; }
  content.key = elide(row.key, 120);
  if (place) content.open = true;
  if (node?.isLeaf) return leaf(content, node.value, node.priority);
  if (place?.state === 'children') { content.count = counted(place); }
  if (node) {
    content.open ??= false;
    if (!place) {
      content.value = summary(node);
      content.count = node.count.toLocaleString('en');
    }
    if (node.priority !== null) content.note = `priority ${JSON.stringify(node.priority)}`;
  } else if (single?.kind === 'named') {
    content.open ??= false;
    if (!place) {
      content.value = single.names.length ? `${single.names.join(', ')}${single.more ? ', …' : ''}` : 'a long text';
      content.count = single.more ? `${single.names.length}+` : String(single.names.length || '');
    }
    content.note = 'large';
  } else if (single?.kind === 'gone') {
    content.note = 'removed';
  } else if (single?.kind === 'failed') {
    content.note = 'not readable';
  }
  return content;
}

function leaf(content, value, priority) {
  content.type = typeOf(value);
  content.value = typeof value === 'string' ? JSON.stringify(elide(value, 400)) : String(value);
  if (priority !== null && priority !== undefined) content.note = `priority ${JSON.stringify(priority)}`;
  content.editable = true;
  return content;
}

const counted = (place) => (place.state === 'children' ? place.count.toLocaleString('en') + (place.isCounted ? '' : '+') : '');

const refusal = (place) => (place.refusal?.code === 'permission_denied' ? 'the rules do not let you read here' : `refused: ${place.refusal?.message ?? ''}`);

/** The first few values of a closed node, to recognise it. */
function summary(node) {
  const parts = [];
  let length = 0;
  for (const child of node.order ?? []) {
    const text = child.isLeaf ? `${child.key}: ${elide(typeof child.value === 'string' ? JSON.stringify(child.value) : String(child.value), 28)}` : child.key;
    length += text.length;
    if (parts.length && (parts.length === 4 || length > 110)) { parts.push('…'); break; }
    parts.push(elide(text, 80));
  }
  return parts.join(', ');
}

/** The rows in which a change of a list of children is visible: [{ key, deep: below it, isGone: the row itself }]. Pure. */
export function rowsOf(change) {
  const rows = [];
  const add = (node, isRemoved) => {
    let deep = false;
    if (!node.parent) return;
    while (node.parent.parent) { node = node.parent; deep = true; }
    // For a removed child its former parent glows.
    rows.push({ key: node.key, deep: deep || isRemoved, isGone: isRemoved && !deep });
  };
  for (const node of [...change.changed, ...change.added]) add(node, false);
  for (const node of change.removed) add(node, true);
  return rows;
}

// ---- The elements of the rows. They are reused for other rows.

/** A note has the path of its place, and a separate element. */
const nameOf = (row) => (row.kind === 'note' ? `${row.path}#note` : row.path);

export class LinePool {
  #box;
  #lines = new Map(); // name → element
  #free = [];

  /** box: the element that contains them. */
  constructor(box) { this.#box = box; }

  get count() { return this.#lines.size; }

  /** The element of the row of a path, if it is on the page. */
  line(path) { return this.#lines.get(path) ?? null; }
  lineOf(row) { return this.#lines.get(nameOf(row)) ?? null; }

  /** The row that has the focus, or null. */
  get held() { return this.#box.contains(document.activeElement) ? document.activeElement.closest('.line')?.row ?? null : null; }

  /** Shows exactly these rows. top(row): its position; selected, focus: paths of rows. */
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
    // The Tab key must always reach some row.
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

function makeRow() {
  const row = element('div', { class: 'line', role: 'treeitem', tabindex: '-1' },
    element('span', { class: 'twist', 'aria-hidden': 'true' }), element('span', { class: 'key' }), element('span', { class: 'value' }),
    element('span', { class: 'count' }), element('span', { class: 'note' }));
  [row.twist, row.keyPart, row.valuePart, row.countPart, row.notePart] = row.children;
  return row;
}

/** Writes a Row (row-list.js) into its element; touches only what differs. */
function writeRow(line, row, { selected, focused }) {
  const shown = describe(row);
  setText(line.keyPart, shown.key);
  setText(line.valuePart, shown.value);
  setText(line.countPart, shown.count);
  setText(line.notePart, shown.note);
  setClass(line.valuePart, shown.type ? `value type-${shown.type}` : 'value summary');
  setClass(line, `line${row.kind === 'note' ? ' line-note' : ''}${row.key === null && row.kind === 'child' ? ' line-unknown' : ''}`);
  set(line, 'aria-level', String(row.depth + 1));
  set(line, 'aria-expanded', shown.open === null ? null : String(shown.open));
  set(line, 'aria-selected', selected ? 'true' : null);
  set(line, 'tabindex', focused ? '0' : '-1');
  set(line, 'aria-setsize', row.kind === 'child' ? String(row.siblings) : null);
  set(line, 'aria-posinset', row.kind === 'child' ? String(row.position + 1) : null);
  set(line.valuePart, 'title', shown.type ? `${shown.type === 'string' ? 'text' : shown.type}${shown.editable ? ': click to change' : ''}` : null);
  if (line.depth !== row.depth) { line.depth = row.depth; line.style.setProperty('--level', String(row.depth)); }
}

function set(target, name, value) {
  if (value === null) { if (target.hasAttribute(name)) target.removeAttribute(name); } else if (target.getAttribute(name) !== value) target.setAttribute(name, value);
}

function setClass(target, name) { if (target.className !== name) target.className = name; }

// ---- Rows that light up because their value changed, or glow because a value below them did.

const lastMs = 1700;
const remembered = 200;

export class Lights {
  /** The last paths that lit up, oldest first. */
  last = [];
  #next = new Map(); // path → "lit" | "glow", of the next frame

  clear() {
    this.last = [];
    this.#next.clear();
  }

  light(path, deep) {
    if (!deep || !this.#next.has(path)) this.#next.set(path, deep ? 'glow' : 'lit');
  }

  /** Lights the rows on the page; lineOf(path) is the element of a row, if it has one. */
  shine(lineOf) {
    for (const [path, kind] of this.#next) {
      const line = lineOf(path);
      // A change below an open row is shown by its own row.
      if (!line || (kind === 'glow' && line.row.place?.state === 'children')) continue;
      line.dataset.flash = line.dataset.flash === `${kind}-a` ? `${kind}-b` : `${kind}-a`;
      clearTimeout(line.flashEnd);
      line.flashEnd = setTimeout(() => { delete line.dataset.flash; }, lastMs);
      this.last.push(path);
    }
    if (this.last.length > remembered) this.last.splice(0, this.last.length - remembered);
    this.#next.clear();
  }
}
