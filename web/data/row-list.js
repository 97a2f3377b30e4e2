// The rows of a tree with open places in it, as one list; no objects are created for invisible rows. Pure.

/** What a row shows. kind: root | child | note (a place that has no children to show). */
class Row {
  constructor(kind, path, depth, fields) {
    this.kind = kind;
    this.path = path;
    this.depth = depth;
    Object.assign(this, fields);
  }
}

export class RowList {
  /** root: an OpenPlace, or null. */
  root = null;

  get total() { return this.root ? this.root.rows + 1 : 0; }

  /** The rows from `first` to `last`, and which children of which places they are: { rows, shown: Map(place → [[from, to], …]) }. */
  window(first, last) {
    const rows = [], shown = new Map();
    if (!this.root || last < first) return { rows, shown };
    if (first === 0) rows.push(new Row('root', this.root.path, 0, { index: 0, key: null, place: this.root, parent: null, node: null, single: null, position: 0, siblings: 1 }));
    this.#collect(this.root, 1, 1, first, last, rows, shown);
    return { rows, shown };
  }

  /** The row of a place, if all places above it are open; otherwise -1. `inside` are the keys from the root of the list down to it. */
  indexOf(inside) {
    let place = this.root, row = 0;
    for (let level = 0; level < inside.length; level++) {
      if (!place || place.state !== 'children') return -1;
      const key = inside[level], position = place.positionOf(key, place.kids.get(key)?.offset);
      let before = 0;
      for (const kid of place.openKids()) if (kid.position < position) before += kid.place.rows;
      row += 1 + position + before;
      place = place.kids.get(key)?.place ?? null;
    }
    return row;
  }

  #collect(place, start, depth, first, last, rows, shown) {
    if (place.state !== 'children') {
      if (place.rows && start >= first && start <= last) rows.push(new Row('note', place.path, depth, { index: start, place, parent: place, key: null, node: null, single: null }));
      return;
    }
    const ranges = [];
    shown.set(place, ranges);
    let at = start, position = 0;
    const stretch = (count) => {
      const from = Math.max(first, at), to = Math.min(last, at + count - 1);
      if (from <= to) {
        ranges.push([position + from - at, position + to - at]);
        for (let row = from; row <= to; row++) this.#child(place, position + row - at, row, depth, rows);
      }
      at += count;
      position += count;
    };
    for (const kid of place.openKids()) {
      if (at > last) break;
      stretch(kid.position + 1 - position);
      if (at <= last && at + kid.place.rows > first) this.#collect(kid.place, at, depth + 1, first, last, rows, shown);
      at += kid.place.rows;
    }
    if (at <= last) stretch(place.count - position);
  }

  #child(place, position, index, depth, rows) {
    const { key, node, single } = place.at(position);
    const path = key === null ? `${place.path}#${position}` : (place.path === '/' ? '' : place.path) + '/' + key;
    rows.push(new Row('child', path, depth, { index, key, node, single, parent: place, place: key === null ? null : place.kids.get(key)?.place ?? null, position, siblings: place.count }));
  }
}
