// The nodes of a local copy of the tree (tree-model.js), and their changes. Pure.

import { compareKeys } from './paths.js';

/** One place. A leaf has `value`; an inner node has `children` by key and `order`, the same nodes in key order. */
export class Node {
  constructor(key, parent) {
    this.key = key;
    this.parent = parent;
    this.value = undefined;
    this.priority = null;
    this.children = null;
    this.order = null;
    this.gone = false; // removed from the tree; `parent` still says where it was
  }

  get isLeaf() { return this.value !== undefined; }
  get isEmpty() { return this.value === undefined && this.count === 0; }
  get count() { return this.order ? this.order.length : 0; }

  child(key) { return this.children?.get(key); }

  /** Keys from below the model's root down to this node. */
  get path() {
    const parts = [];
    for (let node = this; node.parent; node = node.parent) parts.push(node.key);
    return parts.reverse();
  }

  /** The value in plain form; `depth` limits how far down (deeper objects become "…"). */
  plain(depth = Infinity) {
    if (this.isLeaf) return this.value;
    if (!this.order?.length) return null;
    if (depth <= 0) return '…';
    const object = {};
    for (const child of this.order) define(object, child.key, child.plain(depth - 1));
    return object;
  }

  /** The value of the first of these children that has one of a type, such as "number"; an empty text does not count. */
  firstValue(keys, type) {
    return keys.map((key) => this.child(key)?.value).find((value) => typeof value === type && value !== '');
  }

  /** The value in export form, with priorities (contract §4.3). */
  exported() {
    if (this.isLeaf) return this.priority === null ? this.value : { '.value': this.value, '.priority': this.priority };
    if (!this.order?.length) return null;
    const object = {};
    if (this.priority !== null) object['.priority'] = this.priority;
    for (const child of this.order) define(object, child.key, child.exported());
    return object;
  }
}

// "__proto__" is a legal key; plain assignment would lose it.
function define(object, key, value) {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

/** The actual changes of one or several pushes. */
export class Change {
  constructor() {
    this.added = [];             // top nodes of new subtrees
    this.changed = new Set();    // nodes whose own value or priority differs
    this.removed = [];           // top nodes of removed subtrees
    this.structure = new Set();  // nodes whose list of children differs
    this.initial = false;        // the first snapshot of this model: nothing to light up
  }

  /** The change from an empty model to the current one. */
  static whole() {
    const change = new Change();
    change.initial = true;
    return change;
  }

  get isEmpty() {
    return !this.initial && !this.added.length && !this.changed.size && !this.removed.length && !this.structure.size;
  }
}

/** The position of `key`, existing or new, in a sorted list. The end is tried first: push ids arrive there. */
export function indexFor(order, key) {
  let low = 0, high = order.length;
  if (high && compareKeys(order[high - 1].key, key) < 0) return high;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareKeys(order[middle].key, key) < 0) low = middle + 1; else high = middle;
  }
  return low;
}
