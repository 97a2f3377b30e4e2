// Events of the children in a query's window, computed from the pushes of the realtime protocol as the SDKs do.

import { compareKeys, splitPath } from '../client/paths.js';
import { TreeModel, applyPush } from '../client/tree-model.js';
import { compareValues } from './query.js';

/** The children of a model in the order of a query. Pure. */
export class WindowOrder {
  #query;
  #keys = [];            // in order
  #values = new Map();   // key → the value it is ordered by

  constructor(query) { this.#query = query; }

  /** The events of a change: [{ event, key, prev, value }]: removed, added, moved, changed, in this order. */
  events(change, root) {
    const touched = new Set();
    for (const node of [...change.removed, ...change.added, ...change.changed, ...change.structure]) {
      let child = node;
      while (child.parent?.parent) child = child.parent;
      if (child.parent) touched.add(child);
    }
    const events = [], added = [], moved = [], changed = [];
    for (const node of touched) {
      const isHere = root.child(node.key) === node, was = this.#values.has(node.key);
      if (!isHere) {
        if (root.child(node.key) || !was) continue;
        this.#take(node.key);
        events.push({ event: 'removed', key: node.key, value: node.exported() });
      } else if (!was) {
        added.push(node);
      } else {
        const value = this.#valueOf(node);
        if (compareValues(value, this.#values.get(node.key)) !== 0) moved.push(node);
        changed.push(node);
      }
    }
    if (change.initial && !touched.size) added.push(...root.order ?? []);
    // Moved children are removed before any is inserted, so that positions are right.
    const before = new Map(moved.map((node) => [node, this.#take(node.key)]));
    const put = (node) => { this.#values.set(node.key, this.#valueOf(node)); this.#keys.splice(this.#place(node.key), 0, node.key); };
    for (const node of added) put(node);
    for (const node of moved) put(node);
    const eventOf = (event, node) => ({ event, key: node.key, prev: this.#keys[this.#keys.indexOf(node.key) - 1] ?? null, value: node.exported() });
    added.sort((a, b) => this.#compare(a.key, b.key));
    events.push(...added.map((node) => eventOf('added', node)));
    events.push(...moved.filter((node) => this.#keys.indexOf(node.key) !== before.get(node)).map((node) => eventOf('moved', node)));
    events.push(...changed.map((node) => eventOf('changed', node)));
    return events;
  }

  #valueOf(node) {
    const { order, child } = this.#query;
    if (order === 'priority') return node.priority;
    if (order === 'value') return node.isLeaf ? node.value : {};
    if (order !== 'child') return null;
    let inner = node;
    for (const key of splitPath(child)) inner = inner?.child(key);
    return !inner ? null : inner.isLeaf ? inner.value : {};
  }

  #compare(a, b) { return compareValues(this.#values.get(a), this.#values.get(b)) || compareKeys(a, b); }

  #place(key) {
    let low = 0, high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compare(this.#keys[middle], key) < 0) low = middle + 1; else high = middle;
    }
    return low;
  }

  /** Removes a key; returns its previous position. */
  #take(key) {
    const index = this.#keys.indexOf(key);
    this.#keys.splice(index, 1);
    this.#values.delete(key);
    return index;
  }
}

/** handlers: ready(), event({ event, key, prev, value, initial }), refused(error), lost(). */
export function observeQuery(realtime, query, events, handlers) {
  const parts = splitPath(query.path);
  let model = new TreeModel(), order = new WindowOrder(query), isReady = false, isFresh = true;
  const report = (change) => {
    if (!change.initial && change.isEmpty) return;
    for (const event of order.events(change, model.root)) if (events.includes(event.event)) handlers.event({ ...event, initial: !isReady });
    if (events.includes('value')) handlers.event({ event: 'value', value: model.root.exported(), initial: !isReady });
  };
  return realtime.listenQuery(query.path, query.wire, {
    push: (pushed, kind, wire) => {
      if (isFresh) { model = new TreeModel(); order = new WindowOrder(query); isFresh = false; }
      report(applyPush(model, parts, pushed, kind, wire));
    },
    ready: (empty) => {
      if (empty) { isFresh = false; report(model.put([], null)); }
      isReady = true;
      handlers.ready();
    },
    refused: (refusal) => handlers.refused({ code: refusal.code, message: refusal.message }),
    lost: () => { isFresh = true; isReady = false; handlers.lost(); },
  });
}
