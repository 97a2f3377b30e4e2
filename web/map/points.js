// Which nodes of a tree are points on a map, and how they moved. Pure.
//
// A node is a point when it has numeric children "latitude" and "longitude", however deep it lies. Its label is the
// key of the nearest ancestor with a meaningful name: "/users-follow/ana/danae/current" is "danae".

import { project } from './camera.js';

const wordless = new Set(['current', 'destination', 'location', 'position', 'place', 'point', 'coords', 'coordinates', 'geo', 'fix', 'last', 'live', 'home', 'where']);
const trailLength = 60;
const trailMs = 240000;
const nearPixels = 16;

export class MapPoints {
  points = new Map(); // Node → point
  hasMoved = false;   // since its reader last cleared the flag

  clear() {
    this.points.clear();
    this.hasMoved = true;
  }

  /** Follows one change of the tree at `base` (path parts). `now` in ms of any steady clock. */
  apply(change, tree, now) {
    const base = tree.parts;
    for (const node of change.removed) this.#walk(node, (inner) => { if (this.points.delete(inner)) this.hasMoved = true; });
    if (change.initial) {
      this.clear();
      this.#walk(tree.model.root, (inner) => this.#consider(inner, base, now));
    }
    for (const node of change.added) this.#walk(node, (inner) => this.#consider(inner, base, now));
    const parents = new Set();
    for (const node of [...change.added, ...change.changed, ...change.removed]) {
      if (node.parent && (node.key === 'latitude' || node.key === 'longitude')) parents.add(node.parent);
    }
    for (const parent of parents) if (!parent.gone) this.#consider(parent, base, now);
  }

  /** The walker's point that belongs to a destination, if it is known. */
  partner(point) {
    const above = point.node.parent;
    if (!above) return undefined;
    for (const node of [above, ...[...wordless].map((key) => above.child(key))]) {
      const other = node && this.points.get(node);
      if (other?.kind === 'fix') return other;
    }
    return undefined;
  }

  #walk(node, visit) {
    visit(node);
    if (node.order) for (const child of node.order) if (child.order) this.#walk(child, visit);
  }

  #consider(node, base, now) {
    const latitude = node.child('latitude')?.value, longitude = node.child('longitude')?.value;
    const known = this.points.get(node);
    if (typeof latitude !== 'number' || typeof longitude !== 'number' || Math.abs(latitude) > 90 || Math.abs(longitude) > 180) {
      if (known) { this.points.delete(node); this.hasMoved = true; }
      return;
    }
    if (!known) {
      const path = [...base, ...node.path];
      const at = project(latitude, longitude);
      this.points.set(node, {
        node, path, label: labelOf(path), kind: path.at(-1) === 'destination' ? 'destination' : 'fix',
        latitude, longitude, from: at, to: at, movedAt: now, glideMs: 0, intervalMs: 0, moves: 0, trail: [],
      });
      this.hasMoved = true;
      return;
    }
    if (known.latitude === latitude && known.longitude === longitude) return;
    known.trail.push({ x: known.to.x, y: known.to.y, latitude: known.latitude, longitude: known.longitude, at: known.movedAt });
    while (known.trail.length > trailLength || (known.trail.length && now - known.trail[0].at > trailMs)) known.trail.shift();
    known.from = shownAt(known, now);
    known.to = project(latitude, longitude);
    known.latitude = latitude;
    known.longitude = longitude;
    known.intervalMs = now - known.movedAt;
    known.glideMs = Math.max(150, Math.min(1200, known.intervalMs * 0.8));
    known.movedAt = now;
    known.moves += 1;
    this.hasMoved = true;
  }
}

/** Where to draw a point while it glides to its last fix. */
export function shownAt(point, now) {
  if (!point.glideMs) return point.to;
  const part = (now - point.movedAt) / point.glideMs;
  if (part >= 1) return point.to;
  const eased = 1 - (1 - part) ** 3;
  return { x: point.from.x + (point.to.x - point.from.x) * eased, y: point.from.y + (point.to.y - point.from.y) * eased };
}

export function labelOf(path) {
  for (let i = path.length - 1; i >= 0; i--) if (!wordless.has(path[i])) return path[i];
  return path.at(-1) ?? '/';
}

/** The drawn point closest to a pixel, or null if none is near; others go before destinations. */
export function nearestPoint(points, x, y) {
  let best = null, least = nearPixels;
  for (const point of points) {
    if (point.px === undefined) continue;
    const gap = Math.hypot(point.px - x, point.py - y) + (point.kind === 'destination' ? 4 : 0);
    if (gap < least) { least = gap; best = point; }
  }
  return best;
}
