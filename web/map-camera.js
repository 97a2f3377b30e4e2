// The camera of the map: centre and zoom, gliding to their targets; auto-fit that leaves the view alone while
// the points fill it well, because a map that breathes all the time is hard to read. Pure.

import { metresPerUnit, unproject } from './map-projection.js';

const leastFitMetres = 600;
const fitEveryMs = 400;
const widestZoom = Math.log(200), closestZoom = Math.log(2 ** 31);

export class MapCamera {
  width = 0;
  height = 0;
  autoFit = true;
  /** Centre on the unit square of the projection; zoom = ln(pixels per unit). */
  view = { x: 0.5, y: 0.5, zoom: Math.log(600) };
  aim = { ...this.view };
  #placed = false;
  #due = true;       // something moved since the last fit
  #fittedAt = -Infinity;

  get scale() { return Math.exp(this.view.zoom); }
  get centre() { return unproject(this.view.x, this.view.y); }

  resize(width, height) {
    this.width = width;
    this.height = height;
    this.fitSoon();
  }

  /** The next fit jumps instead of gliding, because another place is shown. */
  forget() { this.#placed = false; }

  fitSoon() {
    this.#due = true;
    this.#fittedAt = -Infinity;
  }

  /** Fits to `points` (with `to` on the unit square) when that is due; `moved` says that some of them moved. True while a fit is still to come. */
  follow(points, moved, now) {
    this.#due ||= moved;
    if (!this.autoFit || !this.#due || !this.width) return false;
    if (now - this.#fittedAt < fitEveryMs) return true;
    this.#due = false;
    if (points.size === 0) return false;
    this.#fittedAt = now;
    let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
    for (const { to } of points.values()) {
      left = Math.min(left, to.x); right = Math.max(right, to.x);
      top = Math.min(top, to.y); bottom = Math.max(bottom, to.y);
    }
    const x = (left + right) / 2, y = (top + bottom) / 2;
    const least = leastFitMetres / metresPerUnit(unproject(x, y).latitude);
    const padX = Math.min(90, this.width * 0.2), padY = Math.min(72, this.height * 0.14);
    const zoom = Math.log(Math.min((this.width - 2 * padX) / Math.max(right - left, least), (this.height - 2 * padY) / Math.max(bottom - top, least)));
    const scale = Math.exp(this.aim.zoom);
    const inside = (px, py) => Math.abs(px - this.aim.x) * scale < this.width / 2 - padX * 0.35 && Math.abs(py - this.aim.y) * scale < this.height / 2 - padY * 0.35;
    if (this.#placed && inside(left, top) && inside(right, bottom) && zoom - this.aim.zoom < 0.45) return false;
    this.aim = { x, y, zoom: zoom - 0.08 };
    if (!this.#placed) { this.view = { ...this.aim }; this.#placed = true; }
    return false;
  }

  /** Moves the view towards its target; true while it moves. */
  glide(seconds, atOnce = false) {
    const part = atOnce ? 1 : 1 - Math.exp(-seconds * 7);
    let moving = false;
    for (const name of ['zoom', 'x', 'y']) {
      const gap = this.aim[name] - this.view[name];
      const tiny = name === 'zoom' ? 0.0005 : 0.05 / this.scale;
      if (Math.abs(gap) < tiny || atOnce) { this.view[name] = this.aim[name]; continue; }
      this.view[name] += gap * part;
      moving = true;
    }
    return moving;
  }

  /** Unit square → pixels. */
  pixel(at) {
    const { scale } = this;
    return [(at.x - this.view.x) * scale + this.width / 2, (at.y - this.view.y) * scale + this.height / 2];
  }

  /** Zooms by e^amount about a pixel, which stays where it is. */
  zoomBy(amount, x = this.width / 2, y = this.height / 2) {
    const before = Math.exp(this.aim.zoom);
    this.aim.zoom = Math.max(widestZoom, Math.min(closestZoom, this.aim.zoom + amount));
    const after = Math.exp(this.aim.zoom);
    const dx = x - this.width / 2, dy = y - this.height / 2;
    this.aim.x += dx / before - dx / after;
    this.aim.y += dy / before - dy / after;
  }

  panBy(dx, dy, atOnce) {
    const { scale } = this;
    this.aim.x -= dx / scale;
    this.aim.y -= dy / scale;
    if (atOnce) { this.view.x = this.aim.x; this.view.y = this.aim.y; }
  }

  /** Looks at a point, at most `metres` high. */
  goTo(at, latitude, metres) {
    this.aim = { x: at.x, y: at.y, zoom: Math.max(this.aim.zoom, Math.log((Math.max(200, this.height) * metresPerUnit(latitude)) / metres)) };
  }
}
