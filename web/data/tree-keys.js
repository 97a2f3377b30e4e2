// The keys of the tree: arrows, Home, End and page keys move, right and left open and close, Enter opens or edits, F2 edits, Insert
// adds, Delete removes. And which row a click is meant for.

import { describe } from './tree-rows.js';

/** The action of a key in a row, or null. tree: { rows, page, move(index), above(), toggle(open), edit(), select(), add(), remove() }. */
export function keyAction({ key, altKey, metaKey, ctrlKey }, row, tree) {
  if (altKey || metaKey || (ctrlKey && key !== 'Home' && key !== 'End')) return null;
  const content = describe(row);
  const moves = {
    ArrowDown: () => tree.move(row.index + 1),
    ArrowUp: () => tree.move(row.index - 1),
    PageDown: () => tree.move(row.index + tree.page),
    PageUp: () => tree.move(row.index - tree.page),
    Home: () => tree.move(0),
    End: () => tree.move(tree.rows - 1),
  };
  const isKnown = row.kind === 'root' || row.key !== null;
  const actions = !isKnown ? {} : {
    ArrowRight: () => { if (content.open === false) tree.toggle(true); else if (content.open) tree.move(row.index + 1); },
    Enter: () => { if (content.editable) tree.edit(); else if (content.open !== null) tree.toggle(); },
    F2: () => { if (content.editable) tree.edit(); },
    ' ': () => tree.select(),
    Insert: () => tree.add(),
    Delete: () => tree.remove(),
  };
  actions.ArrowLeft = () => { if (content.open && row.kind === 'child') tree.toggle(false); else if (row.parent) tree.move(tree.above()); };
  return moves[key] ?? actions[key] ?? null;
}

const stillPixels = 6; // a pointer that moves less between press and release clicks

/**
 * A press whose click counts for the pressed row. When rows above it are added or removed before the release, browsers report another row or none.
 */
export class Press {
  #pathOf;
  #down = null;

  /** pathOf(target): the current path of the row that contains an element. */
  constructor(box, pathOf) {
    this.#pathOf = pathOf;
    box.addEventListener('pointerdown', ({ target, clientX, clientY }) => { this.#down = { target, path: pathOf(target), clientX, clientY }; });
  }

  /** The row that a click is meant for; null when it is gone. Moving the pointer away cancels the press. */
  meant(event) {
    const down = this.#down;
    this.#down = null;
    if (!down || Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) > stillPixels) return event.target;
    return this.#pathOf(down.target) === down.path ? down.target : null;
  }
}
