// A query that is listened to, with a model of the children in its window.

import { splitPath, startsWith } from './paths.js';
import { Change, TreeModel, wireAt } from './tree-model.js';

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
    const tell = (change) => {
      const initial = quiet;
      quiet = false;
      if (initial || !change.isEmpty) changed(change, initial);
    };
    this.#end = realtime.listenQuery(path, query, {
      push: (pushed, kind, wire) => {
        const change = applyPush(this.model, parts, pushed, kind, wire);
        this.isLive = true;
        tell(change);
      },
      ready: (empty) => {
        this.isLive = true;
        if (empty) tell(this.model.put([], null));
      },
      refused: failed,
      lost: () => { this.isLive = false; quiet = true; lost(); },
    });
  }

  end() { this.#end(); }
}
