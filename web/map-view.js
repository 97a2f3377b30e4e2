// A map without tiles: graticule, scale bar, points that glide from fix to fix with short trails, destinations, and
// diamonds for the entries of the timeline. One canvas; it is drawn only while something moves.

import { age, element } from './dom.js';
import { joinPath } from './paths.js';
import { MapPoints, shownAt } from './map-points.js';
import { distanceMetres, metresPerUnit, project, roundStep, scaleLength, stepDecimals, unproject } from './map-projection.js';

const hues = 6;
const nearPixels = 16;
const trailFadeMs = 240000;

export class MapView {
  fixes = new MapPoints();
  entries = new MapPoints();
  /** Frames drawn since the page was opened. */
  frames = 0;
  autoFit = true;

  #canvas;
  #pen;
  #card;
  #blank;
  #hooks;
  #width = 0;
  #height = 0;
  #view = { x: 0.5, y: 0.5, zoom: Math.log(600) };   // centre on the unit square; zoom = ln(pixels per unit)
  #aim = { ...this.#view };
  #placed = false;
  #visible = false;
  #asked = false;
  #lastFrame = 0;
  #lastFit = 0;
  #colours = null;
  #pointers = new Map();
  #dragged = 0;
  #hover = null;
  #marked = null;
  #still = matchMedia('(prefers-reduced-motion: reduce)');

  /** parts: canvas, card, blank, zoomIn, zoomOut, fit. hooks: select(path). */
  constructor(parts, hooks) {
    this.#canvas = parts.canvas;
    this.#pen = parts.canvas.getContext('2d');
    this.#card = parts.card;
    this.#blank = parts.blank;
    this.#hooks = hooks;
    this.fitButton = parts.fit;
    parts.zoomIn.addEventListener('click', () => this.#zoomBy(0.7));
    parts.zoomOut.addEventListener('click', () => this.#zoomBy(-0.7));
    parts.fit.addEventListener('click', () => this.#setAutoFit(true));
    new ResizeObserver(() => this.#resize()).observe(parts.canvas);
    for (const query of ['(prefers-color-scheme: dark)', '(prefers-contrast: more)']) {
      matchMedia(query).addEventListener('change', () => { this.#colours = null; this.draw(); });
    }
    this.#listen();
    setInterval(() => { if (this.#visible) { this.#showCard(); this.draw(); } }, 1000);
  }

  set visible(visible) {
    this.#visible = visible;
    if (visible) { this.#resize(); this.draw(); }
  }

  /** Another place is shown: forget the old view. */
  reset() {
    this.fixes.clear();
    this.#placed = false;
    this.#setAutoFit(true);
  }

  get state() {
    const list = (points) => [...points.points.values()].map(({ path, label, kind, latitude, longitude, moves }) => ({ path: joinPath(path), label, kind, latitude, longitude, moves }));
    return { points: list(this.fixes), entries: list(this.entries), autoFit: this.autoFit, frames: this.frames, centre: unproject(this.#view.x, this.#view.y) };
  }

  /** Rings a point on the map; null ends it. */
  mark(point, go = false) {
    this.#marked = point;
    if (point && go) {
      this.#setAutoFit(false);
      this.#aim = { x: point.to.x, y: point.to.y, zoom: Math.max(this.#aim.zoom, Math.log(earthScale(1200, point.latitude, this.#height))) };
    }
    this.draw();
  }

  /** Asks for a frame. */
  draw() {
    if (this.#asked || !this.#visible) return;
    this.#asked = true;
    requestAnimationFrame((now) => { this.#asked = false; this.#frame(now); });
  }

  // ---- view

  #resize() {
    const { clientWidth, clientHeight } = this.#canvas;
    if (!clientWidth || !clientHeight) return;
    const ratio = Math.min(3, devicePixelRatio || 1);
    this.#width = clientWidth;
    this.#height = clientHeight;
    this.#canvas.width = Math.round(clientWidth * ratio);
    this.#canvas.height = Math.round(clientHeight * ratio);
    this.#pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#lastFit = 0;
    this.fixes.hasMoved = true;
    if (this.#visible) this.#frame(performance.now());
  }

  #setAutoFit(on) {
    this.autoFit = on;
    this.fitButton.setAttribute('aria-pressed', String(on));
    this.#lastFit = 0;
    this.fixes.hasMoved = true;
    this.draw();
  }

  #fit(now) {
    if (!this.autoFit || !this.fixes.hasMoved || now - this.#lastFit < 400 || !this.#width) return;
    const all = this.fixes.points.size ? this.fixes.points : this.entries.points;
    if (!all.size) { this.fixes.hasMoved = false; return; }
    this.#lastFit = now;
    this.fixes.hasMoved = false;
    let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
    for (const { to } of all.values()) {
      left = Math.min(left, to.x); right = Math.max(right, to.x);
      top = Math.min(top, to.y); bottom = Math.max(bottom, to.y);
    }
    const middle = unproject((left + right) / 2, (top + bottom) / 2);
    const least = 600 / metresPerUnit(middle.latitude);
    const padX = Math.min(90, this.#width * 0.2), padY = Math.min(72, this.#height * 0.14);
    const room = { x: this.#width - 2 * padX, y: this.#height - 2 * padY };
    const zoom = Math.log(Math.min(room.x / Math.max(right - left, least), room.y / Math.max(bottom - top, least)));
    // Leave the view alone while the points fill it well: a map that breathes all the time is hard to read.
    const scale = Math.exp(this.#aim.zoom);
    const inside = (x, y) => Math.abs(x - this.#aim.x) * scale < this.#width / 2 - padX * 0.35 && Math.abs(y - this.#aim.y) * scale < this.#height / 2 - padY * 0.35;
    if (this.#placed && inside(left, top) && inside(right, bottom) && zoom - this.#aim.zoom < 0.45) return;
    this.#aim = { x: (left + right) / 2, y: (top + bottom) / 2, zoom: zoom - 0.08 };
    if (!this.#placed) { this.#view = { ...this.#aim }; this.#placed = true; }
  }

  #glide(seconds) {
    const part = this.#still.matches ? 1 : 1 - Math.exp(-seconds * 7);
    let moving = false;
    for (const name of ['zoom', 'x', 'y']) {
      const gap = this.#aim[name] - this.#view[name];
      const tiny = name === 'zoom' ? 0.0005 : 0.05 / Math.exp(this.#view.zoom);
      if (Math.abs(gap) < tiny) { this.#view[name] = this.#aim[name]; continue; }
      this.#view[name] += gap * part;
      moving = true;
    }
    return moving;
  }

  #pixel(at) {
    const scale = Math.exp(this.#view.zoom);
    return [(at.x - this.#view.x) * scale + this.#width / 2, (at.y - this.#view.y) * scale + this.#height / 2];
  }

  // ---- drawing

  #frame(now) {
    if (!this.#visible || !this.#width) return;
    this.frames += 1;
    const seconds = Math.min(0.1, (now - this.#lastFrame) / 1000);
    this.#lastFrame = now;
    this.#fit(now);
    let moving = this.#glide(seconds);
    const colours = this.#colours ??= readColours(this.#canvas);
    const pen = this.#pen;
    pen.fillStyle = colours.ground;
    pen.fillRect(0, 0, this.#width, this.#height);
    this.#graticule(colours);

    const drawn = [];
    const margin = 40;
    for (const point of this.fixes.points.values()) {
      const at = this.#still.matches ? point.to : shownAt(point, now);
      if (at !== point.to) moving = true;
      const [x, y] = this.#pixel(at);
      point.px = x;
      point.py = y;
      if (x > -margin && y > -margin && x < this.#width + margin && y < this.#height + margin) drawn.push(point);
    }
    this.#destinations(drawn, colours);
    this.#trails(drawn, colours, now);
    this.#diamonds(colours);
    this.#dots(drawn, colours, now);
    this.#labels(drawn, colours);
    this.#ring(colours);
    this.#scale(colours);
    this.#blankText();
    if (moving || this.fixes.hasMoved && this.autoFit) this.draw();
  }

  #graticule(colours) {
    const pen = this.#pen;
    const scale = Math.exp(this.#view.zoom);
    const centre = unproject(this.#view.x, this.#view.y);
    const step = Math.max(roundStep((110 / scale) * 360), 1e-5);
    const decimals = stepDecimals(step);
    const west = unproject(this.#view.x - this.#width / 2 / scale, 0.5).longitude;
    const east = unproject(this.#view.x + this.#width / 2 / scale, 0.5).longitude;
    const north = unproject(0.5, this.#view.y - this.#height / 2 / scale).latitude;
    const south = unproject(0.5, this.#view.y + this.#height / 2 / scale).latitude;
    const lngs = multiples(Math.max(west, -180), Math.min(east, 180), step);
    const stepLat = Math.max(roundStep(step * Math.cos(centre.latitude * Math.PI / 180) * 0.8), 1e-5);
    const lats = multiples(Math.max(south, -85), Math.min(north, 85), stepLat);
    pen.strokeStyle = colours.grid;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const lng of lngs) {
      const x = Math.round(this.#pixel(project(0, lng))[0]) + 0.5;
      pen.moveTo(x, 0); pen.lineTo(x, this.#height);
    }
    for (const lat of lats) {
      const y = Math.round(this.#pixel(project(lat, 0))[1]) + 0.5;
      pen.moveTo(0, y); pen.lineTo(this.#width, y);
    }
    pen.stroke();
    pen.font = `11px ${colours.font}`;
    pen.fillStyle = colours.quiet;
    pen.textAlign = 'center';
    pen.textBaseline = 'top';
    for (const lng of lngs) {
      const [x] = this.#pixel(project(0, lng));
      if (x > 90 && x < this.#width - 90) pen.fillText(`${Math.abs(lng).toFixed(decimals)}° ${lng < 0 ? 'W' : 'E'}`, x, 8);
    }
    pen.textAlign = 'left';
    pen.textBaseline = 'bottom';
    const latDecimals = stepDecimals(stepLat);
    for (const lat of lats) {
      const y = this.#pixel(project(lat, 0))[1];
      if (y > 40 && y < this.#height - 60) pen.fillText(`${Math.abs(lat).toFixed(latDecimals)}° ${lat < 0 ? 'S' : 'N'}`, 10, y - 2);
    }
  }

  #destinations(drawn, colours) {
    const pen = this.#pen;
    pen.lineWidth = 1.25;
    for (const point of drawn) {
      if (point.kind !== 'destination') continue;
      const partner = this.fixes.partner(point);
      const colour = colours.points[hueOf(point.label)];
      const strong = this.#hover && (this.#hover === point || this.#hover === partner);
      pen.strokeStyle = colour;
      if (partner) {
        pen.globalAlpha = strong ? 0.8 : 0.28;
        pen.setLineDash([2, 5]);
        pen.beginPath();
        pen.moveTo(partner.px, partner.py);
        pen.lineTo(point.px, point.py);
        pen.stroke();
        pen.setLineDash([]);
      }
      pen.globalAlpha = strong ? 1 : 0.75;
      pen.beginPath();
      pen.arc(point.px, point.py, 5, 0, 7);
      pen.stroke();
      pen.fillStyle = colour;
      pen.beginPath();
      pen.arc(point.px, point.py, 1.6, 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  #trails(drawn, colours, now) {
    const pen = this.#pen;
    pen.lineCap = pen.lineJoin = 'round';
    pen.lineWidth = 2;
    // One path per colour and age band: a few strokes per frame, however many points there are.
    const bands = 4;
    const paths = Array.from({ length: hues * bands }, () => null);
    for (const point of drawn) {
      if (!point.trail.length) continue;
      const hue = hueOf(point.label);
      const count = point.trail.length;
      let [x, y] = this.#pixel(point.trail[0]);
      for (let i = 1; i <= count; i++) {
        const [nx, ny] = i === count ? [point.px, point.py] : this.#pixel(point.trail[i]);
        if (i < count && Math.abs(nx - x) + Math.abs(ny - y) < 2.5) continue; // too short to see
        const age = (now - point.trail[i - 1].at) / trailFadeMs;
        const band = Math.max(0, bands - 1 - Math.floor(age * bands));
        const path = paths[hue * bands + band] ??= new Path2D();
        path.moveTo(x, y);
        path.lineTo(nx, ny);
        [x, y] = [nx, ny];
      }
    }
    paths.forEach((path, index) => {
      if (!path) return;
      pen.strokeStyle = colours.points[Math.floor(index / bands)];
      pen.globalAlpha = [0.14, 0.26, 0.4, 0.6][index % bands];
      pen.stroke(path);
    });
    pen.globalAlpha = 1;
  }

  #diamonds(colours) {
    const pen = this.#pen;
    for (const point of this.entries.points.values()) {
      const [x, y] = this.#pixel(point.to);
      point.px = x;
      point.py = y;
      if (x < -20 || y < -20 || x > this.#width + 20 || y > this.#height + 20) continue;
      pen.beginPath();
      pen.moveTo(x, y - 7); pen.lineTo(x + 7, y); pen.lineTo(x, y + 7); pen.lineTo(x - 7, y); pen.closePath();
      pen.fillStyle = colours.alarm;
      pen.strokeStyle = colours.ground;
      pen.lineWidth = 2;
      pen.fill();
      pen.stroke();
      pen.fillStyle = colours.ground;
      pen.fillRect(x - 0.75, y - 3.5, 1.5, 4);
      pen.fillRect(x - 0.75, y + 1.8, 1.5, 1.6);
    }
  }

  #dots(drawn, colours, now) {
    const pen = this.#pen;
    const radius = drawn.length > 150 ? 3.5 : drawn.length > 60 ? 4.25 : 5;
    for (const point of drawn) {
      if (point.kind === 'destination') continue;
      const colour = colours.points[hueOf(point.label)];
      const since = now - point.movedAt;
      if (point.moves && since < 900 && !this.#still.matches) {
        pen.globalAlpha = 0.22 * (1 - since / 900);
        pen.fillStyle = colour;
        pen.beginPath();
        pen.arc(point.px, point.py, radius + 9 * (since / 900), 0, 7);
        pen.fill();
        pen.globalAlpha = 1;
      }
      pen.beginPath();
      pen.arc(point.px, point.py, radius + 1.5, 0, 7);
      pen.fillStyle = colours.ground;
      pen.fill();
      pen.beginPath();
      pen.arc(point.px, point.py, radius, 0, 7);
      pen.fillStyle = colour;
      pen.fill();
    }
  }

  #labels(drawn, colours) {
    const pen = this.#pen;
    pen.font = `600 11.5px ${colours.font}`;
    pen.textAlign = 'left';
    pen.textBaseline = 'middle';
    pen.lineWidth = 3.5;
    pen.lineJoin = 'round';
    pen.strokeStyle = colours.ground;
    pen.fillStyle = colours.ink;
    const taken = new Set();
    const cellX = 24, cellY = 15;
    for (const point of drawn) if (point.kind !== 'destination') taken.add(`${Math.floor(point.px / cellX)},${Math.floor(point.py / cellY)}`);
    // Labels that are there already go first, so that they do not flicker where points crowd.
    for (const pass of [true, false]) {
      for (const point of drawn) {
        if (point.kind === 'destination' || Boolean(point.labelled) !== pass || point.passed === this.frames) continue;
        point.passed = this.frames;
        point.labelWidth ??= pen.measureText(point.label).width;
        const flips = point.px + 14 + point.labelWidth > this.#width; // at the right edge it stands on the left
        const x = flips ? point.px - 10 - point.labelWidth : point.px + 10;
        const own = `${Math.floor(point.px / cellX)},${Math.floor(point.py / cellY)}`;
        const cells = [];
        let free = true;
        for (const row of new Set([Math.floor((point.py - 6) / cellY), Math.floor((point.py + 6) / cellY)])) {
          for (let column = Math.floor(x / cellX); column <= Math.floor((x + point.labelWidth) / cellX) && free; column++) {
            const cell = `${column},${row}`;
            if (cell !== own && taken.has(cell)) free = false;
            cells.push(cell);
          }
        }
        point.labelled = free;
        if (!free) continue;
        for (const cell of cells) taken.add(cell);
        pen.strokeText(point.label, x, point.py);
        pen.fillText(point.label, x, point.py);
      }
    }
  }

  #ring(colours) {
    const pen = this.#pen;
    for (const point of [this.#hover, this.#marked]) {
      if (!point || point.px === undefined) continue;
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.arc(point.px, point.py, 11, 0, 7);
      pen.stroke();
    }
  }

  #scale(colours) {
    const pen = this.#pen;
    const { latitude } = unproject(this.#view.x, this.#view.y);
    const metresPerPixel = metresPerUnit(latitude) / Math.exp(this.#view.zoom);
    const { metres, text } = scaleLength(metresPerPixel * 140);
    const length = metres / metresPerPixel;
    const x = 16.5, y = Math.round(this.#height) - 18.5;
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1;
    pen.globalAlpha = 0.7;
    pen.beginPath();
    pen.moveTo(x, y - 5); pen.lineTo(x, y); pen.lineTo(x + Math.round(length), y); pen.lineTo(x + Math.round(length), y - 5);
    pen.stroke();
    pen.globalAlpha = 1;
    pen.font = `11px ${colours.font}`;
    pen.fillStyle = colours.ink;
    pen.textAlign = 'left';
    pen.textBaseline = 'bottom';
    pen.fillText(text, x + 6, y - 3);
  }

  #blankText() {
    const nothing = !this.fixes.points.size && !this.entries.points.size;
    if (this.#blank.hidden === nothing) this.#blank.hidden = !nothing;
    let moving = 0;
    for (const point of this.fixes.points.values()) if (point.kind === 'fix') moving += 1;
    const label = `Map with ${moving} points and ${this.entries.points.size} timeline entries. Drag or arrow keys move it, plus and minus zoom, 0 fits all.`;
    if (this.#canvas.getAttribute('aria-label') !== label) this.#canvas.setAttribute('aria-label', label);
  }

  // ---- hands

  #zoomBy(amount, x = this.#width / 2, y = this.#height / 2) {
    this.#setAutoFit(false);
    const before = Math.exp(this.#aim.zoom);
    this.#aim.zoom = Math.max(Math.log(200), Math.min(Math.log(2 ** 31), this.#aim.zoom + amount));
    const after = Math.exp(this.#aim.zoom);
    const dx = x - this.#width / 2, dy = y - this.#height / 2;
    this.#aim.x += dx / before - dx / after;
    this.#aim.y += dy / before - dy / after;
  }

  #panBy(dx, dy, atOnce) {
    this.#setAutoFit(false);
    const scale = Math.exp(this.#view.zoom);
    this.#aim.x -= dx / scale;
    this.#aim.y -= dy / scale;
    if (atOnce) { this.#view.x = this.#aim.x; this.#view.y = this.#aim.y; }
  }

  #listen() {
    const canvas = this.#canvas;
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      this.#zoomBy(-event.deltaY * (event.deltaMode ? 0.06 : 0.0022), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.#pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      this.#dragged = 0;
    });
    canvas.addEventListener('pointermove', (event) => {
      const last = this.#pointers.get(event.pointerId);
      if (!last) { this.#point(event.offsetX, event.offsetY); return; }
      const now = { x: event.offsetX, y: event.offsetY };
      this.#dragged += Math.hypot(now.x - last.x, now.y - last.y);
      if (this.#pointers.size === 1) {
        if (this.#dragged > 3) this.#panBy(now.x - last.x, now.y - last.y, true);
      } else {
        const other = [...this.#pointers.entries()].find(([id]) => id !== event.pointerId)[1];
        const before = Math.hypot(last.x - other.x, last.y - other.y), after = Math.hypot(now.x - other.x, now.y - other.y);
        if (before > 0 && after > 0) this.#zoomBy(Math.log(after / before), (now.x + other.x) / 2, (now.y + other.y) / 2);
      }
      this.#pointers.set(event.pointerId, now);
    });
    const up = (event) => {
      if (this.#pointers.delete(event.pointerId) && this.#dragged <= 3 && event.type === 'pointerup') {
        this.#point(event.offsetX, event.offsetY);
        if (this.#hover) this.#hooks.select(joinPath(this.#hover.path));
      }
    };
    canvas.addEventListener('pointerup', up);
    canvas.addEventListener('pointercancel', up);
    canvas.addEventListener('pointerleave', () => { this.#hover = null; this.#showCard(); this.draw(); });
    canvas.addEventListener('dblclick', (event) => this.#zoomBy(0.9, event.offsetX, event.offsetY));
    canvas.addEventListener('keydown', (event) => {
      const actions = {
        ArrowLeft: () => this.#panBy(80, 0), ArrowRight: () => this.#panBy(-80, 0),
        ArrowUp: () => this.#panBy(0, 80), ArrowDown: () => this.#panBy(0, -80),
        '+': () => this.#zoomBy(0.5), '=': () => this.#zoomBy(0.5), '-': () => this.#zoomBy(-0.5),
        0: () => this.#setAutoFit(true),
      };
      if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      actions[event.key]();
      this.draw();
    });
  }

  #point(x, y) {
    let best = null, least = nearPixels;
    for (const points of [this.fixes.points, this.entries.points]) {
      for (const point of points.values()) {
        if (point.px === undefined) continue;
        const gap = Math.hypot(point.px - x, point.py - y) + (point.kind === 'destination' ? 4 : 0);
        if (gap < least) { least = gap; best = point; }
      }
    }
    this.#canvas.style.cursor = best ? 'pointer' : '';
    if (best === this.#hover) return;
    this.#hover = best;
    this.#showCard();
    this.draw();
  }

  #showCard() {
    const point = this.#hover;
    const gone = !point || point.node.gone;
    this.#card.hidden = gone;
    if (gone) { this.#hover = null; return; }
    const lines = [element('strong', {}, point.kind === 'destination' ? `${point.label}: destination` : point.label), element('span', { class: 'mono' }, joinPath(point.path)),
      element('span', { class: 'mono' }, `${point.latitude.toFixed(5)}, ${point.longitude.toFixed(5)}`)];
    const last = point.trail.at(-1);
    if (last && point.intervalMs > 0) {
      const speed = distanceMetres(last, point) / (point.intervalMs / 1000);
      lines.push(element('span', {}, `${speed.toFixed(1)} m/s · ${point.moves} moves · ${age(performance.now() - point.movedAt)}`));
    }
    this.#card.replaceChildren(...lines);
  }
}

function earthScale(metres, latitude, pixels) {
  return (Math.max(200, pixels) * metresPerUnit(latitude)) / metres;
}

function multiples(from, to, step) {
  const found = [];
  for (let i = Math.ceil(from / step); i * step <= to && found.length < 400; i++) found.push(i * step);
  return found;
}

function hueOf(label) {
  let hash = 7;
  for (let i = 0; i < label.length; i++) hash = (hash * 31 + label.charCodeAt(i)) | 0;
  return Math.abs(hash) % hues;
}

function readColours(canvas) {
  const style = getComputedStyle(canvas);
  const of = (name) => style.getPropertyValue(name).trim();
  return {
    ground: of('--map-ground'), grid: of('--map-grid'), quiet: of('--quiet'), ink: of('--ink'), alarm: of('--alarm'),
    points: Array.from({ length: hues }, (_, i) => of(`--map-${i + 1}`)), font: style.fontFamily,
  };
}
