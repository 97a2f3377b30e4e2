// The ground under the map's points: tiles if an address is set, coast lines from afar, the graticule; and the scale bar.

import { metresPerUnit, project, roundStep, scaleLength, stepDecimals, unproject } from './camera.js';

// Metres on the ground per pixel: below that the coast lines fade, as they are inaccurate by some kilometres.
const coastFrom = 400, coastWholeFrom = 1200;

export class MapGround {
  #coast = null; // undefined while loading

  /** painter: provides the pen, camera and colours; tiles: MapTiles; changed(): there is more to draw. */
  constructor(painter, tiles, changed) {
    this.painter = painter;
    this.tiles = tiles;
    this.changed = changed;
  }

  get pen() { return this.painter.pen; }
  get camera() { return this.painter.camera; }
  get colours() { return this.painter.colours; }
  /** Number of coast lines drawn last, for tests. */
  coastDrawn = 0;

  draw() {
    const isTiled = this.tiles.draw(this.pen, this.camera);
    this.coastDrawn = 0;
    if (!isTiled) this.#coastLines();
    this.#graticule();
  }

  #coastLines() {
    const { pen, camera } = this;
    const metres = metresPerUnit(camera.centre.latitude) / camera.scale;
    const strength = Math.min(1, (metres - coastFrom) / (coastWholeFrom - coastFrom));
    if (strength <= 0) return;
    if (!this.#coast) { this.#load(); return; }
    const { scale, view, width, height } = camera;
    const left = view.x - width / 2 / scale, right = view.x + width / 2 / scale, top = view.y - height / 2 / scale, bottom = view.y + height / 2 / scale;
    pen.beginPath();
    for (const { points, west, east, north, south } of this.#coast) {
      if (east < left || west > right || south < top || north > bottom) continue;
      this.coastDrawn += 1;
      let x = (points[0] - left) * scale, y = (points[1] - top) * scale;
      pen.moveTo(x, y);
      for (let i = 2; i < points.length; i += 2) {
        const nextX = (points[i] - left) * scale, nextY = (points[i + 1] - top) * scale;
        if (Math.abs(nextX - x) + Math.abs(nextY - y) < 0.7 && i < points.length - 2) continue; // too short to see
        pen.lineTo(x = nextX, y = nextY);
      }
    }
    pen.globalAlpha = strength;
    pen.strokeStyle = this.colours.coast;
    pen.lineWidth = 1;
    pen.lineJoin = 'round';
    pen.stroke();
    pen.globalAlpha = 1;
  }

  async #load() {
    if (this.#coast === undefined) return;
    this.#coast = undefined;
    this.#coast = coastLines(await import('./coast-data.js'));
    this.changed();
  }

  #graticule() {
    const { pen, colours } = this;
    const { scale } = this.camera;
    const { centre } = this.camera;
    const step = Math.max(roundStep((110 / scale) * 360), 1e-5);
    const decimals = stepDecimals(step);
    const west = unproject(this.camera.view.x - this.camera.width / 2 / scale, 0.5).longitude;
    const east = unproject(this.camera.view.x + this.camera.width / 2 / scale, 0.5).longitude;
    const north = unproject(0.5, this.camera.view.y - this.camera.height / 2 / scale).latitude;
    const south = unproject(0.5, this.camera.view.y + this.camera.height / 2 / scale).latitude;
    const lngs = multiples(Math.max(west, -180), Math.min(east, 180), step);
    const stepLat = Math.max(roundStep(step * Math.cos(centre.latitude * Math.PI / 180) * 0.8), 1e-5);
    const lats = multiples(Math.max(south, -85), Math.min(north, 85), stepLat);
    pen.strokeStyle = colours.grid;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const lng of lngs) {
      const x = Math.round(this.camera.pixel(project(0, lng))[0]) + 0.5;
      pen.moveTo(x, 0); pen.lineTo(x, this.camera.height);
    }
    for (const lat of lats) {
      const y = Math.round(this.camera.pixel(project(lat, 0))[1]) + 0.5;
      pen.moveTo(0, y); pen.lineTo(this.camera.width, y);
    }
    pen.stroke();
    pen.font = `11px ${colours.font}`;
    pen.fillStyle = colours.quiet;
    pen.textAlign = 'center';
    pen.textBaseline = 'top';
    for (const lng of lngs) {
      const [x] = this.camera.pixel(project(0, lng));
      if (x > 90 && x < this.camera.width - 90) pen.fillText(`${Math.abs(lng).toFixed(decimals)}° ${lng < 0 ? 'W' : 'E'}`, x, 8);
    }
    pen.textAlign = 'left';
    pen.textBaseline = 'bottom';
    const latDecimals = stepDecimals(stepLat);
    for (const lat of lats) {
      const y = this.camera.pixel(project(lat, 0))[1];
      if (y > 40 && y < this.camera.height - 60) pen.fillText(`${Math.abs(lat).toFixed(latDecimals)}° ${lat < 0 ? 'S' : 'N'}`, 10, y - 2);
    }
  }

  scale() {
    const { pen, colours } = this;
    const { latitude } = this.camera.centre;
    const metresPerPixel = metresPerUnit(latitude) / this.camera.scale;
    const { metres, text } = scaleLength(metresPerPixel * 140);
    const length = metres / metresPerPixel;
    const x = 16.5, y = Math.round(this.camera.height) - 18.5;
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
}

function multiples(from, to, step) {
  const found = [];
  for (let i = Math.ceil(from / step); i * step <= to && found.length < 400; i++) found.push(i * step);
  return found;
}

// ---- coast

// Coast lines for orientation, as lines on the unit square of the map's projection. They are inaccurate by up to some kilometres, so the map draws
// them from afar only.

// The alphabet of Scripts/coast: the first letters end a number, the others continue it.
const last = 43;
const skipped = '$\\`';
const values = new Map();
for (let code = 35; code < 127; code++) {
  const letter = String.fromCharCode(code);
  if (!skipped.includes(letter)) values.set(letter, values.size);
}
const more = values.size - last;

/** [{ points: Float32Array of x, y, x, y …, west, east, north, south }] with 0…1 from west to east and from north to south. */
export function coastLines({ coast: text, perDegree }) {
  let at = 0;
  const number = () => {
    let value = 0, place = 1;
    for (;;) {
      const digit = values.get(text[at++]);
      if (digit === undefined) continue; // an end of line
      value += digit * place;
      if (digit < last) break;
      place *= more;
    }
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  const end = text.trimEnd().length, lines = [];
  for (let x = 0, y = 0; at < end;) {
    const points = new Float32Array(2 * number());
    const line = { points, west: 1, east: 0, north: 1, south: 0 };
    for (let i = 0; i < points.length; i += 2) {
      x += number();
      y += number();
      const on = project(y / perDegree, x / perDegree);
      [points[i], points[i + 1]] = [on.x, on.y];
      line.west = Math.min(line.west, on.x);
      line.east = Math.max(line.east, on.x);
      line.north = Math.min(line.north, on.y);
      line.south = Math.max(line.south, on.y);
    }
    lines.push(line);
  }
  return lines;
}
