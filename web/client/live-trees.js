// Places kept live: one listen and one model per path, shared by all views of that path; and windows of a query.

import { joinPath, splitPath } from './paths.js';
import { TreeModel, applyPush } from './tree-model.js';

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

// ---- A listen of a query, with a model of the children in its window.

export class LiveWindow {
  model = new TreeModel();
  isLive = false;
  #end;

  /**
   * changed(change, initial): initial for the first content, also after a lost connection; failed(refusal), lost(). Listens until end().
   */
  constructor(realtime, path, query, { changed, failed, lost }) {
    const parts = splitPath(path);
    let quiet = true; // the first content is not a change
    const report = (change) => {
      const initial = quiet;
      quiet = false;
      if (initial || !change.isEmpty) changed(change, initial);
    };
    this.#end = realtime.listenQuery(path, query, {
      push: (pushed, kind, wire) => {
        const change = applyPush(this.model, parts, pushed, kind, wire);
        this.isLive = true;
        report(change);
      },
      ready: (empty) => {
        this.isLive = true;
        if (empty) report(this.model.put([], null));
      },
      refused: failed,
      lost: () => { this.isLive = false; quiet = true; lost(); },
    });
  }

  end() { this.#end(); }
}
