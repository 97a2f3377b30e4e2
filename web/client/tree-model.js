// A local copy of one place of the tree, kept from the hub's pushes. Pure: no page, no socket.
//
//   put / merge ──► nodes change in place ──► Change {added, changed, removed, structure}
//
// Nodes keep their identity while they exist, so views can hang rows and points on them. Every operation costs
// what it writes, never the size of the tree: a snapshot that repeats what is known reports nothing.

import { compareKeys, splitPath, startsWith } from './paths.js';
import { Change, Node, indexFor } from './tree-node.js';

export class TreeModel {
  constructor() {
    this.root = new Node('', null);
    this.known = false; // a snapshot has arrived
  }

  find(path) {
    let node = this.root;
    for (const key of path) {
      node = node.child(key);
      if (!node) return undefined;
    }
    return node;
  }

  /** Overwrites the place `path` (keys below the root) with a wire value in export form. Null removes. */
  put(path, wire, change = new Change()) {
    if (path.length === 0 && !this.known) {
      this.known = true;
      change.initial = true;
    }
    if (path.length && path[path.length - 1] === '.priority') {
      const node = this.find(path.slice(0, -1));
      if (node && !node.isEmpty) setPriority(node, wire ?? null, change);
      return change;
    }
    if (isNothing(wire)) {
      const node = this.find(path);
      if (node && node !== this.root) {
        detach([node], node.parent, change);
        prune(node.parent, change);
      } else if (node) {
        write(node, null, change);
      }
      return change;
    }
    let node = this.root;
    for (let i = 0; i < path.length; i++) {
      const next = node.child(path[i]);
      if (next) { node = next; continue; }
      // All nodes from here down are new: build them first, then attach them.
      const top = new Node(path[i], node);
      let bottom = top;
      for (let j = i + 1; j < path.length; j++) {
        const below = new Node(path[j], bottom);
        attach([below], bottom);
        bottom = below;
      }
      build(bottom, wire);
      if (bottom.isEmpty) return change;
      if (node.isLeaf) { node.value = undefined; change.changed.add(node); }
      attach([top], node);
      change.added.push(top);
      change.structure.add(node);
      return change;
    }
    write(node, wire, change);
    if (node.isEmpty && node !== this.root) prune(node, change);
    return change;
  }

  /** Applies all entries of a merge at `path`; keys of `entries` are relative paths (contract §2.3). */
  merge(path, entries, change = new Change()) {
    for (const [key, wire] of Object.entries(entries ?? {})) {
      this.put([...path, ...key.split('/').filter(Boolean)], wire, change);
    }
    return change;
  }
}

/** Null, {} and [] count as nothing, also when nested (contract §4.1). */
export function isNothing(wire) {
  if (wire === null || wire === undefined) return true;
  if (typeof wire !== 'object') return false;
  if ('.value' in wire) return isNothing(wire['.value']);
  for (const key in wire) if (key !== '.priority' && !isNothing(wire[key])) return false;
  return true;
}

/** The part of a wire value at `path` below it; null when absent. */
export function wireAt(wire, path) {
  for (const key of path) {
    if (wire === null || typeof wire !== 'object') return null;
    wire = Object.hasOwn(wire, key) ? wire[key] : null;
  }
  return wire ?? null;
}

function bodyOf(wire) {
  return wire !== null && typeof wire === 'object' && '.value' in wire ? wire['.value'] : wire;
}

function priorityOf(wire) {
  return wire !== null && typeof wire === 'object' ? wire['.priority'] ?? null : null;
}

/** Fills a fresh node that no view has seen. */
function build(node, wire) {
  const body = bodyOf(wire);
  node.priority = priorityOf(wire);
  if (body === null || body === undefined) return;
  if (typeof body !== 'object') { node.value = body; return; }
  const fresh = [];
  for (const key of Object.keys(body)) {
    if (key[0] === '.' || body[key] === null) continue;
    const child = new Node(key, node);
    build(child, body[key]);
    if (!child.isEmpty) fresh.push(child);
  }
  attach(fresh, node);
}

/** Sets an existing node equal to a wire value, changing only what differs. */
function write(node, wire, change) {
  const body = bodyOf(wire);
  setPriority(node, priorityOf(wire), change);
  if (body === null || body === undefined || typeof body !== 'object') {
    if (node.order?.length) detach(node.order.slice(), node, change);
    const value = body ?? undefined;
    if (node.value !== value) { node.value = value; change.changed.add(node); }
    return;
  }
  if (node.isLeaf) { node.value = undefined; change.changed.add(node); }
  const fresh = [];
  const left = [];
  const seen = new Set();
  for (const key of Object.keys(body)) {
    if (key[0] === '.' || body[key] === null) continue;
    const child = node.child(key);
    if (child) {
      seen.add(key);
      if (isNothing(body[key])) left.push(child); else write(child, body[key], change);
    } else {
      const added = new Node(key, node);
      build(added, body[key]);
      if (!added.isEmpty) fresh.push(added);
    }
  }
  if (node.order && seen.size < node.order.length) {
    for (const child of node.order) if (!seen.has(child.key)) left.push(child);
  }
  if (left.length) detach(left, node, change);
  if (fresh.length) {
    attach(fresh, node);
    change.added.push(...fresh);
    change.structure.add(node);
  }
}

function setPriority(node, priority, change) {
  if (node.priority === priority) return;
  node.priority = priority;
  change.changed.add(node);
}

/** A node without children and value does not exist: removes it and every ancestor that this empties. */
function prune(node, change) {
  while (node.parent && node.isEmpty) {
    detach([node], node.parent, change);
    node = node.parent;
  }
}

function attach(fresh, parent) {
  parent.children ??= new Map();
  parent.order ??= [];
  const order = parent.order;
  for (const node of fresh) parent.children.set(node.key, node);
  if (fresh.length > 8) {
    for (const node of fresh) order.push(node);
    order.sort((a, b) => compareKeys(a.key, b.key));
    return;
  }
  for (const node of fresh) order.splice(indexFor(order, node.key), 0, node);
}

function detach(nodes, parent, change) {
  for (const node of nodes) {
    parent.children.delete(node.key);
    node.gone = true;
    change.removed.push(node);
  }
  if (nodes.length > 8) {
    parent.order = parent.order.filter((node) => !node.gone);
  } else {
    for (const node of nodes) parent.order.splice(indexFor(parent.order, node.key), 1);
  }
  change.structure.add(parent);
}

/** Applies a push of the realtime protocol to the model of a place (`parts`); returns what it changed. */
export function applyPush(model, parts, pushed, kind, wire) {
  const change = new Change();
  const puts = kind === 'd' ? [[pushed, wire]] : Object.entries(wire ?? {}).map(([key, value]) => [[...pushed, ...splitPath(key)], value]);
  for (const [at, value] of puts) {
    if (startsWith(at, parts)) model.put(at.slice(parts.length), value, change);
    else if (startsWith(parts, at)) model.put([], wireAt(value, parts.slice(at.length)), change);
  }
  return change;
}
