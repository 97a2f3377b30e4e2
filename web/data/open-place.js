// A place whose children are shown: what is known of them, which are loaded, and which are open themselves. It only listens to what
// is on the screen.

import { compareKeys } from '../client/paths.js';
import { readNames, readPrefix } from '../client/place-names.js';
import { indexFor } from '../client/tree-node.js';
import { BlockList } from './block-list.js';
import { PlaceBlocks } from './place-blocks.js';
import { rowsOf } from './tree-rows.js';

export class OpenPlace {
  /** loading | children | leaf | empty | refused */
  state = 'loading';
  leaf = null;
  priority = null;       // of a leaf
  refusal = null;
  isCounted = false;     // all names were read once
  kids = new Map();      // key → { place, offset }: children that are open
  isStale = false;       // the connection is lost: this is the last known state
  #source;
  #hooks;
  #abort = new AbortController();
  #blocks;
  #leafWatch = null;
  #soon = 0;

  /**
   * hooks: changed(place): rows differ; lit(place, key, deep): the row of a child, or with deep something below it, has changed.
   * prefix: only children whose keys begin with it.
   */
  constructor(source, path, hooks, prefix = '') {
    this.path = path;
    this.prefix = prefix;
    this.#source = source;
    this.#hooks = hooks;
    this.#blocks = new PlaceBlocks(source, path, {
      came: (change, initial, key) => {
        this.isStale = false;
        if (!initial) this.#light(change, key);
        hooks.changed(this);
      },
      changed: () => hooks.changed(this),
      emptied: () => { if (this.isCounted) this.#startSoon(); },
      failed: (refusal) => {
        if (refusal.code === 'disconnected') { this.isStale = true; return; }
        this.state = 'refused';
        this.refusal = refusal;
        hooks.changed(this);
      },
      lost: () => { this.isStale = true; hooks.changed(this); },
    });
    this.start();
  }

  get list() { return this.#blocks.list; }
  get loaded() { return this.#blocks.loaded; }

  /** Number of rows below the row of this place. */
  get rows() {
    let rows = this.state === 'children' ? this.list.count : 1;
    if (this.state === 'leaf') rows = 0;
    for (const { place } of this.kids.values()) rows += place.rows;
    return rows;
  }

  /** Its whole value in export form, undefined unless it is loaded. Its own priority is not known. */
  get value() {
    if (this.state === 'leaf') return this.priority == null ? this.leaf : { '.value': this.leaf, '.priority': this.priority };
    const only = this.list.blocks.length === 1 && !this.prefix ? this.list.blocks[0].content : null;
    return this.state === 'empty' ? null : only?.isLive ? only.exported : undefined;
  }

  get count() { return this.state === 'children' ? this.list.count : 0; }

  /** Reads the names again; open children stay open. */
  async start() {
    this.#abort.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    this.#leafWatch?.();
    this.#leafWatch = null;
    const list = new BlockList();
    try {
      const told = (isFirst, isCounted) => {
        this.isCounted = isCounted;
        if (isFirst) this.#begin(list);
        this.#hooks.changed(this);
      };
      const leaf = this.prefix ? await readPrefix(this.#source, this.path, this.prefix, list, told, signal) : await readNames(this.#source, this.path, list, told, signal);
      if (signal.aborted) return;
      if (leaf !== undefined) this.#noChildren(leaf);
    } catch (fault) {
      if (signal.aborted || fault.name === 'AbortError') return;
      if (fault.code === 'disconnected') { this.isStale = true; } else { this.state = 'refused'; this.refusal = fault; }
      this.#hooks.changed(this);
    }
  }

  close() {
    this.#abort.abort();
    clearTimeout(this.#soon);
    this.#leafWatch?.();
    this.#blocks.begin(this.list);
    for (const { place } of this.kids.values()) place.close();
    this.kids.clear();
  }

  /** Continues after a reconnect with requests that could not be sent. */
  resume() {
    if (this.state === 'loading' || (this.isStale && !this.loaded) || !this.isCounted) this.start();
    for (const { place } of this.kids.values()) place.resume();
  }

  // ---- names

  #begin(list) {
    this.#blocks.begin(list);
    this.state = 'children';
    this.isStale = false;
  }

  #noChildren(leaf) {
    this.close();
    this.state = leaf === null ? 'empty' : 'leaf';
    this.leaf = leaf;
    this.isCounted = true;
    this.isStale = false;
    this.#hooks.changed(this);
    this.#leafWatch = watchLeaf(this.#source.hub.trees, this.path, {
      children: () => { this.state = 'loading'; this.start(); },
      leaf: (value, priority, quiet) => {
        this.priority = priority;
        if (value === this.leaf) return;
        this.leaf = value;
        this.state = value === null ? 'empty' : 'leaf';
        if (!quiet) this.#hooks.lit(this, null, false);
        this.#hooks.changed(this);
      },
      stale: (isStale) => { this.isStale = isStale; this.#hooks.changed(this); },
      refused: (refusal) => { this.state = 'refused'; this.refusal = refusal; this.#hooks.changed(this); },
    });
    if (this.state !== 'loading') return;
    this.#leafWatch(); // another view listens there, and has already seen children
    this.#leafWatch = null;
  }

  // ---- rows

  /** The child at `position`: { key, node, single, block }; key is null while it is not known. */
  at(position) {
    const index = this.list.blockAt(position), block = this.list.blocks[index];
    return block?.content?.at(position - this.list.startOf(index)) ?? { key: null, node: null, single: null };
  }

  /** The position of a key, exact when its block is loaded. */
  positionOf(key, offset = 0) {
    const index = this.list.blockOf(key), block = this.list.blocks[index];
    if (!block) return 0;
    const { content } = block;
    let inside = offset;
    if (content?.order) inside = indexFor(content.order, key);
    else if (content?.keys) inside = content.keys.findIndex((other) => compareKeys(other, key) >= 0);
    return this.list.startOf(index) + Math.max(0, Math.min(inside < 0 ? block.count : inside, Math.max(0, block.count - 1)));
  }

  /** Opens a child, so that its children are rows, too. */
  open(key, hooks) {
    if (this.kids.has(key)) return this.kids.get(key).place;
    const position = this.positionOf(key);
    const place = new OpenPlace(this.#source, this.#source.childPath(this.path, key), hooks);
    this.kids.set(key, { place, offset: position - this.list.startOf(this.list.blockOf(key)) });
    return place;
  }

  shut(key) {
    this.kids.get(key)?.place.close();
    this.kids.delete(key);
  }

  /** Children that are open, in order: [{ key, place, position }]. */
  openKids() {
    return [...this.kids].map(([key, { place, offset }]) => ({ key, place, position: this.positionOf(key, offset) })).sort((a, b) => a.position - b.position || compareKeys(a.key, b.key));
  }

  /** Loads the children between these positions ([[from, to], …]) and releases all others. */
  show(ranges) { if (this.state === 'children') this.#blocks.show(ranges); }

  #startSoon() {
    this.#soon ||= setTimeout(() => { this.#soon = 0; this.start(); }, 50);
  }

  /** Lights up the rows in which a change is visible. */
  #light(change, single) {
    if (!change) { this.#hooks.lit(this, single, true); return; }
    for (const { key, deep, isGone } of rowsOf(change)) {
      if (isGone) this.shut(key);
      this.#hooks.lit(this, isGone ? null : key, deep);
    }
  }
}

/**
 * Watches a place without children: a value, or nothing. It cannot be large, so the place itself is listened to until it has children.
 * hooks: children() once it has some; leaf(value, priority, quiet) for the current value (null: nothing), quiet when it is not a change;
 * stale(isStale) when the connection is lost or restored; refused(refusal). Returns the function that ends it.
 */
function watchLeaf(trees, path, hooks) {
  let isQuiet = true;
  const look = (tree, quiet) => {
    const { root } = tree.model;
    if (root.count) hooks.children(); else hooks.leaf(root.isLeaf ? root.value : null, root.priority, quiet);
  };
  const watch = trees.open(path, {
    change: (change, tree) => look(tree, isQuiet || change.initial),
    state: (tree) => { if (tree.state === 'refused') hooks.refused(tree.refusal); else hooks.stale(tree.state === 'stale'); },
  });
  if (watch.tree.model.known) look(watch.tree, true);
  isQuiet = false;
  return () => watch.close();
}
