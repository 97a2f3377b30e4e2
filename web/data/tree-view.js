// The tree on the page: a window of rows over any number of them. A row lights up when its value changes, and glows when a value
// below it does.

import { joinPath, splitPath, startsWith } from '../client/paths.js';
import { PlaceSource } from '../client/place-source.js';
import { element, perFrame } from '../page/dom.js';
import { OpenPlace } from './open-place.js';
import { RowList } from './row-list.js';
import { Press, keyAction } from './tree-keys.js';
import { Lights, LinePool, describe } from './tree-rows.js';
import { TreeScroll } from './tree-scroll.js';

export class TreeView {
  source;
  #scroller = element('div', { class: 'tree-scroll', role: 'group', 'aria-label': 'Data', tabindex: '-1' });
  #box = element('div', { class: 'tree', role: 'tree', 'aria-label': 'Data', 'aria-multiselectable': 'false' });
  #hooks;
  #list = new RowList();
  #scroll;
  #lines = new LinePool(this.#box);
  #rows = [];             // the rows on the page
  #lights = new Lights();
  #selected = null;       // path
  #focus = null;          // path of the row that the Tab key focuses
  #target = null;           // a row to go to when its position is known
  #awaited = -1;          // index of a row that was moved to and is not loaded yet
  #visible = false;
  #draw = perFrame(() => this.#paint());

  /** hooks: select(path), enter(path), edit(row, line), add(path), remove(path), changed(). */
  constructor(hub, hooks) {
    this.#hooks = hooks;
    this.source = new PlaceSource(hub);
    this.#scroller.append(this.#box);
    this.#scroll = new TreeScroll(this.#scroller, this.#box, { changed: (isScrolling) => this.#paint(isScrolling), measured: this.#draw });
    const press = new Press(this.#box, (target) => this.#rowOf(target)?.path);
    this.#box.addEventListener('click', (event) => this.#click(press.meant(event)));
    this.#box.addEventListener('dblclick', (event) => {
      const row = this.#rowOf(event.target);
      if (row?.kind === 'child' && row.key !== null && describe(row).open !== null) this.#hooks.enter(row.path);
    });
    this.#scroller.addEventListener('keydown', (event) => this.#key(event));
  }

  get element() { return this.#scroller; }
  /** The last paths that lit up since this place was opened, oldest first. */
  get flashed() { return this.#lights.last; }
  get root() { return this.#list.root; }
  get selected() { return this.#selected; }

  /** Shows a place; null shows nothing and listens to nothing. */
  open(path, prefix = '') {
    this.#list.root?.close();
    this.#lights.clear();
    this.#target = null;
    this.#selected = path;
    this.#focus = path;
    this.#list.root = path === null ? null : new OpenPlace(this.source, path, this.#placeHooks, prefix);
    this.#scroll.goTo(0);
    this.#draw();
  }

  get visible() { return this.#visible; }
  set visible(visible) {
    this.#visible = visible;
    if (visible) this.#scroll.measure();
  }

  resume() { this.#list.root?.resume(); this.#draw(); }
  refresh() { this.#list.root?.start(); }

  /** The rows on the page: [{ path, key, value, count, type, lit }]. */
  get shown() {
    return this.#rows.map((row) => ({ path: row.path, depth: row.depth, ...describe(row), lit: this.#lines.line(row.path)?.dataset.flash ?? null }));
  }

  get figures() {
    let loaded = 0;
    const count = (place) => { loaded += place.loaded; for (const kid of place.kids.values()) count(kid.place); };
    if (this.root) count(this.root);
    return { rows: this.#list.total, lines: this.#lines.count, blocks: loaded, requests: this.source.requests, top: this.#scroll.top, box: this.#scroll.map.box };
  }

  /** The row of a path on the page, if it is there. */
  rowFor(path) { return this.#rows.find((row) => row.path === path && row.kind !== 'note') ?? null; }

  /** The value of a place in export form; undefined unless all of it is loaded. */
  valueAt(path) {
    const row = this.rowFor(path);
    if (!row) return undefined;
    return row.node ? row.node.exported() : row.kind === 'root' ? row.place.value : undefined;
  }

  /** Selects a place of this tree and scrolls to it; the places above it are opened. */
  reveal(path, { focus = false } = {}) {
    const base = splitPath(this.root.path), parts = splitPath(path);
    if (!startsWith(parts, base)) return;
    this.#target = { parts: parts.slice(base.length), focus, from: document.activeElement, tries: 40 };
    this.select(path);
    this.#goToTarget();
  }

  select(path) {
    this.#selected = path;
    this.#focus = path;
    this.#hooks.select(path);
    this.#draw();
  }

  toggle(path, open) {
    const row = this.rowFor(path);
    if (!row || row.kind !== 'child' || row.key === null) return;
    const isOpen = row.parent.kids.has(row.key);
    if (isOpen === (open ?? !isOpen)) return;
    if (isOpen) row.parent.shut(row.key); else row.parent.open(row.key, this.#placeHooks);
    this.#draw();
  }

  #placeHooks = {
    changed: () => { this.#draw(); },
    lit: (place, key, deep) => {
      this.#lights.light(key === null ? place.path : joinPath([...splitPath(place.path), key]), deep);
    },
  };

  // ---- drawing

  /** While the list scrolls fast, nothing is requested until it comes to rest. */
  #paint(isScrolling = false) {
    if (!this.#visible || !this.root) { this.#clear(); return; }
    const { map } = this.#scroll, list = this.#list;
    const anchor = this.#rows.find((row) => row.index * map.rowHeight >= map.top && row.key !== null);
    if (anchor && map.top > 0 && !isScrolling) this.#keepInPlace(anchor);
    this.#scroll.rows = list.total;
    const [first, last] = map.range();
    const { rows, shown } = list.window(first, last);
    this.#show(shown, isScrolling);
    this.#rows = rows;
    const held = this.#lines.held;
    this.#lines.sync(rows, { top: (row) => map.rowTop(row.index), selected: this.#selected, focus: this.#focus });
    if (held && !this.#lines.lineOf(held)) this.#keepFocus(held, isScrolling);
    if (this.#awaited >= 0 && rows.some((row) => row.index === this.#awaited && row.key !== null)) this.#move(this.#awaited);
    this.#lights.shine((path) => this.#lines.line(path));
    this.#hooks.changed();
    if (this.#target) this.#goToTarget();
  }

  /** The focused row is gone: move the focus to the list while it scrolls, otherwise to the row that replaced it. */
  #keepFocus(held, isScrolling) {
    const row = isScrolling ? null : this.#rows.find((other) => other.index === Math.min(held.index, this.#list.total - 1));
    ((row && this.#lines.lineOf(row)) ?? this.#scroller).focus({ preventScroll: true });
  }

  /** Keeps the visible rows in place when rows above them are added or removed. */
  #keepInPlace(anchor) {
    if (anchor.kind !== 'child') return;
    const base = splitPath(this.root.path).length;
    const index = this.#list.indexOf(splitPath(anchor.path).slice(base));
    if (index < 0 || index === anchor.index) return;
    this.#scroll.shift(index - anchor.index, this.#list.total);
  }

  #show(shown, isScrolling) {
    if (isScrolling && this.#scroll.isFast) return;
    this.#release(this.root, shown);
    for (const [place, ranges] of shown) place.show(ranges);
  }

  /** Ends the listens of a place and of the open places in it, except those that are shown. */
  #release(place, shown = null) {
    if (!shown?.has(place)) place.show([]);
    for (const kid of place.kids.values()) this.#release(kid.place, shown);
  }

  #clear() {
    this.#lines.clear();
    this.#rows = [];
    if (this.root) this.#release(this.root);
  }

  // ---- navigation

  #goToTarget() {
    const target = this.#target, { parts } = target;
    let place = this.root;
    for (let level = 0; level < parts.length - 1; level++) {
      if (place.state === 'loading') return;
      if (place.state !== 'children') { this.#target = null; return; }
      place = place.open(parts[level], this.#placeHooks);
    }
    if (place.state === 'loading' || (target.tries -= 1) < 0) { if (target.tries < 0) this.#target = null; return; }
    const index = this.#list.indexOf(parts);
    if (index < 0) { this.#target = null; return; }
    this.#scroll.rows = this.#list.total;
    if (this.#scroll.reveal(index, this.#scroll.map.rowHeight * 2)) this.#draw();
    const path = joinPath([...splitPath(this.root.path), ...parts]), line = this.#lines.line(path);
    if (!line || line.row?.key === null) return;
    this.#target = null;
    // Do not take the focus from a user who has moved it meanwhile.
    if (target.focus && [target.from, document.body].includes(document.activeElement)) line.focus({ preventScroll: true });
  }

  // ---- input

  #rowOf(target) { return target.closest?.('.line')?.row ?? null; }

  #click(target) {
    const row = target && this.#rowOf(target);
    if (!row || target.closest('.editor') || (row.key === null && row.kind === 'child')) return;
    const line = target.closest('.line');
    this.#awaited = -1;
    this.#target = null;
    this.select(row.path);
    line.focus({ preventScroll: true });
    if (row.kind === 'note') return;
    const content = describe(row);
    if (target.closest('.value') && content.editable) this.#hooks.edit(row, line);
    else if (target.closest('.twist, .key') && content.open !== null) this.toggle(row.path);
  }

  #move(index, { focus = true } = {}) {
    index = Math.max(0, Math.min(this.#list.total - 1, index));
    this.#target = null;
    if (this.#scroll.reveal(index)) this.#paint();
    const row = this.#rows.find((other) => other.index === index);
    if (!row) return;
    const isKnown = row.kind !== 'child' || row.key !== null;
    this.#awaited = isKnown ? -1 : index;
    if (row.kind !== 'note' && isKnown) this.select(row.path);
    if (focus) this.#lines.lineOf(row)?.focus({ preventScroll: true });
  }

  #key(event) {
    if (event.target.closest('.editor')) return;
    const { map } = this.#scroll;
    const row = this.#rowOf(event.target) ?? this.rowFor(this.#focus) ?? this.#rows.find((other) => other.index * map.rowHeight >= map.top);
    if (!row) return;
    const action = keyAction(event, row, {
      rows: this.#list.total,
      page: Math.max(1, Math.floor(map.view / map.rowHeight) - 1),
      move: (index) => this.#move(index),
      above: () => this.#list.indexOf(splitPath(row.parent.path).slice(splitPath(this.root.path).length)),
      toggle: (open) => this.toggle(row.path, open),
      edit: () => this.#hooks.edit(row, this.#lines.line(row.path)),
      select: () => this.select(row.path),
      add: () => this.#hooks.add(row.path),
      remove: () => this.#hooks.remove(row.path),
    });
    if (!action) return;
    event.preventDefault();
    action();
  }
}
