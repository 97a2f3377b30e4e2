// The camera of the map: centre and zoom, gliding to their targets; auto-fit that leaves the view alone while
// the points fill it well, because a map that breathes all the time is hard to read. Pure.

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

  /** Fits to `points` (with `to` on the unit square) when a fit is due; `moved` says that some of them moved. True while a fit is still to come. */
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

  /** Moves the view to a point, at most `metres` high, or exactly so. */
  goTo(at, latitude, metres, exactly = false) {
    const zoom = Math.log((Math.max(200, this.height) * metresPerUnit(latitude)) / metres);
    this.aim = { x: at.x, y: at.y, zoom: Math.max(exactly ? widestZoom : this.aim.zoom, zoom) };
  }
}

// ---- Web Mercator on the unit square, distances, and round steps for grid and scale. Pure.

const earthCircumferenceMetres = 40075016.686;
const degrees = Math.PI / 180;
export const latitudeLimit = 85.05;

/** Degrees → x, y in 0…1; y grows to the south. */
export function project(latitude, longitude) {
  const limited = Math.max(-latitudeLimit, Math.min(latitudeLimit, latitude));
  const sine = Math.sin(limited * degrees);
  return { x: longitude / 360 + 0.5, y: 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI) };
}

export function unproject(x, y) {
  return { latitude: Math.atan(Math.sinh((0.5 - y) * 2 * Math.PI)) / degrees, longitude: (x - 0.5) * 360 };
}

/** Metres on the ground per unit of x at a latitude. */
export function metresPerUnit(latitude) {
  return earthCircumferenceMetres * Math.cos(latitude * degrees);
}

/** Great-circle distance in metres (mean radius). */
export function distanceMetres(a, b) {
  const dLat = (b.latitude - a.latitude) * degrees, dLng = (b.longitude - a.longitude) * degrees;
  const h = Math.sin(dLat / 2) ** 2 + Math.cos(a.latitude * degrees) * Math.cos(b.latitude * degrees) * Math.sin(dLng / 2) ** 2;
  return 2 * 6371008.8 * Math.asin(Math.min(1, Math.sqrt(h)));
}

/** The smallest of 1, 2, 5 × 10ⁿ that is at least `least`. */
export function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 5]) if (factor * power >= least * 0.999999) return factor * power;
  return 10 * power;
}

/** The largest round length of at most `most` metres, with its text. */
export function scaleLength(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  const metres = (most >= 5 * power ? 5 : most >= 2 * power ? 2 : 1) * power;
  return { metres, text: metres >= 1000 ? `${(metres / 1000).toLocaleString('en')} km` : `${Number(metres.toPrecision(1))} m` };
}

/** Decimals that distinguish neighbouring grid lines. */
export function stepDecimals(step) {
  return Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
}

// ---- Input on the map: dragging, wheel, two fingers, clicks and keys.

const clickPixels = 3; // a shorter movement is a click

/**
 * actions: zoomBy(amount, x, y), panBy(dx, dy, atOnce), point(x, y), pointNowhere(), press(x, y); grab(x, y): whether drag(x, y) replaces
 * panBy; keys: { name of a key, with "Shift+" before an arrow's: its action }.
 */
export function handleInput(canvas, actions, keys) {
  const pointers = new Map();
  let dragged = 0, grabbed = false;
  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    actions.zoomBy(-event.deltaY * (event.deltaMode ? 0.06 : 0.0022), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    dragged = 0;
    grabbed = pointers.size === 1 && actions.grab(event.offsetX, event.offsetY);
  });
  canvas.addEventListener('pointermove', (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) { actions.point(event.offsetX, event.offsetY); return; }
    const now = { x: event.offsetX, y: event.offsetY };
    dragged += Math.hypot(now.x - last.x, now.y - last.y);
    if (pointers.size === 1) {
      if (dragged > clickPixels && grabbed) actions.drag(now.x, now.y);
      else if (dragged > clickPixels) actions.panBy(now.x - last.x, now.y - last.y, true);
    } else {
      const other = [...pointers.entries()].find(([id]) => id !== event.pointerId)[1];
      const before = Math.hypot(last.x - other.x, last.y - other.y), after = Math.hypot(now.x - other.x, now.y - other.y);
      if (before > 0 && after > 0) actions.zoomBy(Math.log(after / before), (now.x + other.x) / 2, (now.y + other.y) / 2);
    }
    pointers.set(event.pointerId, now);
  });
  const up = (event) => {
    if (!pointers.delete(event.pointerId) || dragged > clickPixels || event.type !== 'pointerup') return;
    actions.point(event.offsetX, event.offsetY);
    actions.press(event.offsetX, event.offsetY);
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('pointerleave', () => actions.pointNowhere());
  canvas.addEventListener('dblclick', (event) => actions.zoomBy(0.9, event.offsetX, event.offsetY));
  canvas.addEventListener('keydown', (event) => {
    const name = event.shiftKey && event.key.startsWith('Arrow') ? `Shift+${event.key}` : event.key;
    if (!keys[name] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[name]();
  });
}
