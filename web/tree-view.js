// The live tree on the page. Rows exist only for open nodes and in pages of 100; a change touches only the rows that
// show it. Rows light up when their own value changed; a closed row glows when something below it did.

import { element, perFrame, setText, typeOf } from './dom.js';
import { elide, joinPath } from './paths.js';

const pageSize = 100;

export class TreeView {
  /** The last paths that lit up since this place was opened, oldest first. */
  flashed = [];

  #list;
  #hooks;
  #tree = null;
  #rows = new Map();      // Node → Row
  #top = null;
  #dirty = new Set();     // nodes whose row text may differ
  #structure = new Set(); // nodes whose shown children may differ
  #dead = [];             // rows of removed nodes
  #lit = new Set();
  #glow = new Set();
  #focus = null;
  #selected = null;
  #flush = perFrame(() => this.#paint());

  /** hooks: select(path) when a node is chosen, enter(path) when the tree should go there. */
  constructor(list, hooks) {
    this.#list = list;
    this.#hooks = hooks;
    list.addEventListener('click', (event) => this.#click(event));
    list.addEventListener('dblclick', (event) => {
      const row = this.#rowOf(event.target);
      if (row && !row.node.isLeaf) this.#hooks.enter(this.#pathOf(row.node));
    });
    list.addEventListener('keydown', (event) => this.#key(event));
    list.addEventListener('focusin', (event) => {
      const row = this.#rowOf(event.target);
      if (row) this.#roving(row);
    });
  }

  /** Shows another tree; null shows nothing. */
  show(tree) {
    this.#tree = tree;
    this.flashed = [];
    this.#rows.clear();
    for (const set of [this.#dirty, this.#structure, this.#lit, this.#glow]) set.clear();
    this.#dead = [];
    this.#list.replaceChildren();
    this.#top = this.#focus = this.#selected = null;
    if (!tree) return;
    const parts = tree.parts;
    this.#top = this.#makeRow(tree.model.root, 1, parts.length ? parts[parts.length - 1] : '/');
    this.#list.append(this.#top.item);
    this.#roving(this.#top);
    this.#open(this.#top);
  }

  /** Collects the changes of a push; the page is updated in the next frame. */
  change(change, tree) {
    if (tree !== this.#tree) return;
    for (const node of change.removed) this.#forget(node);
    for (const node of change.changed) this.#touch(node, !change.initial);
    for (const node of change.structure) {
      if (node.gone) continue;
      this.#structure.add(node);
      this.#touch(node, false);
    }
    for (const node of change.added) this.#touch(node, !change.initial);
    if (change.initial) {
      this.#structure.add(tree.model.root);
      this.#dirty.add(tree.model.root);
    } else {
      for (const node of change.removed) this.#shine(node.parent, true);
    }
    this.#flush();
  }

  /** Number of rows on the page. */
  get rowCount() { return this.#rows.size; }

  /** Paths (from the root of the tree) of rows that are lit at this moment. */
  get litPaths() {
    return [...this.#rows.values()].filter((row) => row.litUntil > performance.now()).map((row) => this.#pathOf(row.node));
  }

  /** Opens every node on the way to `path`, which is relative to the shown place. */
  reveal(parts) {
    let node = this.#tree?.model.root;
    for (const key of parts) {
      const row = node && this.#rows.get(node);
      if (!row) return;
      if (!row.open) this.#open(row);
      this.#paint();
      node = node.child(key);
    }
  }

  #touch(node, shine) {
    // The row of the node and that of its parent, whose short preview shows it.
    this.#dirty.add(node);
    if (node.parent) this.#dirty.add(node.parent);
    if (shine) this.#shine(node, false);
  }

  #shine(node, removal) {
    if (!removal && (this.#rows.has(node) || (node.parent && this.#rows.get(node.parent)?.open))) { this.#lit.add(node); return; }
    while (node && !this.#rows.has(node)) node = node.parent;
    if (node) this.#glow.add(node);
  }

  #forget(node) {
    const row = this.#rows.get(node);
    if (row) {
      this.#dead.push(row);
      this.#drop(row);
    }
    this.#dirty.delete(node);
    this.#structure.delete(node);
  }

  #drop(row) {
    this.#rows.delete(row.node);
    this.#lit.delete(row.node);
    this.#glow.delete(row.node);
    for (const child of row.shown) this.#drop(child);
  }

  #paint() {
    if (!this.#tree) return;
    const focused = this.#list.contains(document.activeElement);
    for (const row of this.#dead) {
      if (row.contains(this.#focus)) this.#focus = row.parent;
      row.parent?.shown.delete(row);
      row.item.remove();
    }
    if (this.#dead.length && this.#focus) {
      this.#roving(this.#focus);
      if (focused && !this.#list.contains(document.activeElement)) this.#focus.line.focus({ preventScroll: true });
    }
    this.#dead = [];
    for (const node of this.#structure) {
      const row = this.#rows.get(node);
      if (row?.open) this.#fill(row);
    }
    this.#structure.clear();
    for (const node of this.#dirty) {
      const row = this.#rows.get(node);
      if (row) this.#write(row);
    }
    this.#dirty.clear();
    for (const node of this.#lit) this.#flash(this.#rows.get(node), 'lit');
    for (const node of this.#glow) if (!this.#lit.has(node)) this.#flash(this.#rows.get(node), 'glow');
    // Rows that are hidden now would light up when they are shown again, so the mark does not outlive the light.
    const flashed = [...this.#lit, ...this.#glow].map((node) => this.#rows.get(node)).filter(Boolean);
    if (flashed.length) setTimeout(() => { for (const row of flashed) if (row.flashedAt < performance.now() - 1600) delete row.line.dataset.flash; }, 1700);
    this.#lit.clear();
    this.#glow.clear();
  }

  #flash(row, kind) {
    if (!row) return;
    // Two equal animations in turn: restarting one would force a layout of the page.
    row.turn = row.turn === 'a' ? 'b' : 'a';
    row.line.dataset.flash = `${kind}-${row.turn}`;
    row.flashedAt = performance.now();
    if (kind !== 'lit') return;
    row.litUntil = row.flashedAt + 1600;
    this.flashed.push(this.#pathOf(row.node));
    if (this.flashed.length > 200) this.flashed.shift();
  }

  #makeRow(node, level, name) {
    const twist = element('span', { class: 'twist', 'aria-hidden': 'true' });
    const key = element('span', { class: 'key' }, name ?? node.key);
    const value = element('span', { class: 'value' });
    const count = element('span', { class: 'count' });
    const note = element('span', { class: 'note' });
    const line = element('div', { class: 'line', role: 'treeitem', tabindex: '-1', 'aria-level': String(level) }, twist, key, count, value, note);
    const item = element('li', { role: 'none' }, line);
    line.style.setProperty('--level', String(level - 1));
    const row = {
      node, level, item, line, count, value, note,
      open: false, group: null, limit: pageSize, shown: new Set(), parent: null, more: null, turn: 'b', litUntil: 0, flashedAt: 0,
      contains(other) { for (let r = other; r; r = r.parent) if (r === this) return true; return false; },
    };
    line.row = row;
    this.#rows.set(node, row);
    this.#write(row);
    return row;
  }

  #write(row) {
    const { node, line, count, value, note } = row;
    if (node.isLeaf) {
      const type = typeOf(node.value);
      const text = type === 'string' ? JSON.stringify(node.value) : String(node.value);
      setText(value, elide(text, 240));
      value.className = `value type-${type}`;
      value.title = text.length > 240 ? elide(text, 2000) : '';
      line.removeAttribute('aria-expanded');
      if (row.open) this.#close(row);
    } else if (node.count) {
      setText(value, row.open ? '' : summary(node));
      value.className = 'value summary';
      line.setAttribute('aria-expanded', String(row.open));
    } else {
      setText(value, row === this.#top ? 'null' : '');
      value.className = 'value type-null';
      line.removeAttribute('aria-expanded');
    }
    setText(count, node.count ? node.count.toLocaleString('en') : '');
    setText(note, node.priority === null ? '' : `priority ${elide(JSON.stringify(node.priority), 24)}`);
  }

  #open(row) {
    if (row.open || row.node.isLeaf) return;
    row.open = true;
    row.group = element('ul', { role: 'group' });
    row.item.append(row.group);
    this.#fill(row);
    this.#write(row);
  }

  #close(row) {
    if (!row.open) return;
    row.open = false;
    if (this.#focus && this.#focus !== row && row.contains(this.#focus)) this.#roving(row);
    for (const child of row.shown) this.#drop(child);
    row.shown.clear();
    row.group.remove();
    row.group = row.more = null;
    row.limit = pageSize;
    this.#write(row);
  }

  /** Brings the shown children in line with the model: the first `limit` of them, in order. */
  #fill(row) {
    const order = row.node.order ?? [];
    const count = Math.min(order.length, row.limit);
    let place = row.group.firstElementChild;
    const wanted = new Set();
    for (let i = 0; i < count; i++) {
      const node = order[i];
      let child = this.#rows.get(node);
      if (child && child.item === place) { place = place.nextElementSibling; wanted.add(child); continue; }
      if (!child) {
        child = this.#makeRow(node, row.level + 1);
        child.parent = row;
        row.shown.add(child);
      }
      wanted.add(child);
      row.group.insertBefore(child.item, place);
    }
    if (wanted.size < row.shown.size) {
      for (const child of row.shown) {
        if (wanted.has(child)) continue;
        row.shown.delete(child);
        this.#drop(child);
        child.item.remove();
      }
    }
    const left = order.length - count;
    if (left > 0) {
      if (!row.more) {
        row.more = element('li', { class: 'more', role: 'none' },
          element('button', { type: 'button', class: 'link', 'data-more': 'page' }),
          element('button', { type: 'button', class: 'link', 'data-more': 'all' }));
        row.more.style.setProperty('--level', String(row.level));
        row.more.row = row;
      }
      const [page, all] = row.more.children;
      setText(page, `Show ${Math.min(left, pageSize * 2)} more`);
      setText(all, `all ${left.toLocaleString('en')}`);
      all.hidden = left <= pageSize * 2 || left > 5000;
      row.group.append(row.more);
    } else if (row.more) {
      row.more.remove();
      row.more = null;
    }
  }

  #rowOf(target) { return target.closest?.('.line')?.row ?? null; }

  #pathOf(node) { return joinPath([...this.#tree.parts, ...node.path]); }

  #click(event) {
    const more = event.target.closest('[data-more]');
    if (more) {
      const row = more.closest('.more').row;
      row.limit = more.dataset.more === 'all' ? row.node.count : row.limit + pageSize * 2;
      this.#fill(row);
      return;
    }
    const row = this.#rowOf(event.target);
    if (!row) return;
    this.#select(row);
    if (event.detail < 2 && !row.node.isLeaf && row.node.count) this.#toggle(row);
  }

  #toggle(row) { if (row.open) this.#close(row); else this.#open(row); }

  #select(row) {
    if (this.#selected) this.#selected.line.removeAttribute('aria-selected');
    this.#selected = row;
    row.line.setAttribute('aria-selected', 'true');
    row.line.focus({ preventScroll: true });
    this.#roving(row);
    this.#hooks.select(this.#pathOf(row.node), row.node);
  }

  #roving(row) {
    if (this.#focus && this.#focus !== row) this.#focus.line.tabIndex = -1;
    this.#focus = row;
    row.line.tabIndex = 0;
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const row = this.#rowOf(event.target);
    if (!row) return;
    const lines = () => [...this.#list.querySelectorAll('.line')];
    const step = (by) => { const all = lines(); all[all.indexOf(row.line) + by]?.focus(); };
    const actions = {
      ArrowDown: () => step(1),
      ArrowUp: () => step(-1),
      ArrowRight: () => { if (row.node.count && !row.open) this.#open(row); else if (row.open) step(1); },
      ArrowLeft: () => { if (row.open) this.#close(row); else row.parent?.line.focus(); },
      Home: () => lines()[0]?.focus(),
      End: () => lines().at(-1)?.focus(),
      Enter: () => { this.#select(row); if (!row.node.isLeaf && row.node.count) this.#toggle(row); },
      ' ': () => this.#select(row),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

/** The first few values of a closed node, to recognise it by. */
function summary(node) {
  const parts = [];
  let length = 0;
  for (const child of node.order) {
    const text = child.isLeaf ? `${child.key}: ${elide(typeof child.value === 'string' ? JSON.stringify(child.value) : String(child.value), 28)}` : child.key;
    length += text.length;
    if (parts.length && (parts.length === 4 || length > 110)) { parts.push('…'); break; }
    parts.push(text);
  }
  return parts.join(', ');
}

