// Local trees kept live: one listen and one model per path, shared by all views of that path.

import { applyPush } from './live-window.js';
import { TreeModel } from './tree-model.js';
import { joinPath, splitPath } from './paths.js';

/** One watched place: its model, and whether it is up to date. */
class LiveTree {
  /** loading | live | stale (connection lost; shows the last known state) | refused */
  state = 'loading';
  refusal = null;
  model = new TreeModel();
  watchers = new Set();
  end = null;

  constructor(path) {
    this.path = path;
    this.parts = splitPath(path);
  }

  enter(state, refusal = null) {
    this.state = state;
    this.refusal = refusal;
    for (const watcher of this.watchers) watcher.state?.(this);
  }

  apply(pushed, kind, wire) {
    this.report(applyPush(this.model, this.parts, pushed, kind, wire));
  }

  report(change) {
    if (change.isEmpty) return;
    for (const watcher of this.watchers) watcher.change?.(change, this);
  }
}

export class LiveTrees {
  #realtime;
  #trees = new Map();

  constructor(realtime) { this.#realtime = realtime; }

  /**
   * watcher: { change(Change, tree), state(tree) }, called for later changes; the current state is in the returned
   * tree. Returns { tree, close() }.
   */
  open(path, watcher) {
    path = joinPath(splitPath(path));
    let tree = this.#trees.get(path);
    if (!tree) {
      tree = new LiveTree(path);
      this.#trees.set(path, tree);
      this.#start(tree);
    }
    tree.watchers.add(watcher);
    let open = true;
    return {
      tree,
      close: () => {
        if (!open) return;
        open = false;
        tree.watchers.delete(watcher);
        if (tree.watchers.size) return;
        tree.end();
        this.#trees.delete(path);
      },
    };
  }

  #start(tree) {
    tree.end = this.#realtime.listen(tree.path, {
      push: (parts, kind, wire) => tree.apply(parts, kind, wire),
      ready: (empty) => {
        if (empty) tree.report(tree.model.put([], null));
        tree.enter('live');
      },
      refused: (refusal) => {
        const change = tree.model.put([], null);
        tree.report(change);
        tree.model.known = false;
        tree.enter('refused', refusal);
      },
      lost: () => tree.enter(tree.model.known ? 'stale' : 'loading'),
    });
  }
}
