// Rows that light up because their value changed, or glow because something below them did.

const lastMs = 1700;
const remembered = 200;

export class Lights {
  /** The last paths that lit up, oldest first. */
  last = [];
  #next = new Map(); // path → "lit" | "glow", of the next frame

  clear() {
    this.last = [];
    this.#next.clear();
  }

  light(path, deep) {
    if (!deep || !this.#next.has(path)) this.#next.set(path, deep ? 'glow' : 'lit');
  }

  /** Lights the rows on the page; lineOf(path) is the element of a row, if it has one. */
  shine(lineOf) {
    for (const [path, kind] of this.#next) {
      const line = lineOf(path);
      // What changed below an open row has a row of its own.
      if (!line || (kind === 'glow' && line.row.place?.state === 'children')) continue;
      line.dataset.flash = line.dataset.flash === `${kind}-a` ? `${kind}-b` : `${kind}-a`;
      clearTimeout(line.flashEnd);
      line.flashEnd = setTimeout(() => { delete line.dataset.flash; }, lastMs);
      this.last.push(path);
    }
    if (this.last.length > remembered) this.last.splice(0, this.last.length - remembered);
    this.#next.clear();
  }
}

/** The rows that a change of a list of children shows in: [{ key, deep: below it, isGone: the row itself }]. Pure. */
export function rowsOf(change) {
  const rows = [];
  const add = (node, isRemoved) => {
    let deep = false;
    if (!node.parent) return;
    while (node.parent.parent) { node = node.parent; deep = true; }
    // In the place of a child that is gone glows the place that it was in.
    rows.push({ key: node.key, deep: deep || isRemoved, isGone: isRemoved && !deep });
  };
  for (const node of [...change.changed, ...change.added]) add(node, false);
  for (const node of change.removed) add(node, true);
  return rows;
}
