// The strokes of the map on its canvas: destinations, trails, diamonds, dots, labels, rings; ground.js draws the ground below them.
// Its only state is the colours and the frame number; each call passes what to draw.

const hues = 6;
const trailFadeMs = 240000;
export const pulseMs = 900;

export class MapPainter {
  /** Without movement: no pulses. */
  still = false;
  frame = 0;
  /** The covered upper right corner of the map, in pixels. */
  covered = { left: 0, bottom: 0 };

  constructor(canvas, camera) {
    this.canvas = canvas;
    this.pen = canvas.getContext('2d');
    this.camera = camera;
    this.forgetColours();
  }

  /** Reads the colours again after a possible change of the colour scheme. */
  forgetColours() { this.colours = null; }

  begin(still) {
    this.frame += 1;
    this.still = still;
    this.colours ??= readColours(this.canvas);
    this.pen.fillStyle = this.colours.ground;
    this.pen.fillRect(0, 0, this.camera.width, this.camera.height);
  }

  /** `lit` is the point under the pointer; its line stands out. */
  destinations(drawn, fixes, lit) {
    const { pen, colours } = this;
    pen.lineWidth = 1.25;
    for (const point of drawn) {
      if (point.kind !== 'destination') continue;
      const partner = fixes.partner(point);
      const colour = colours.points[hueOf(point.label)];
      const strong = lit && (lit === point || lit === partner);
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

  trails(drawn, now) {
    const { pen, colours } = this;
    pen.lineCap = pen.lineJoin = 'round';
    pen.lineWidth = 2;
    // One path per colour and age band: a few strokes per frame, however many points there are.
    const bands = 4;
    const paths = Array.from({ length: hues * bands }, () => null);
    for (const point of drawn) {
      if (!point.trail.length) continue;
      const hue = hueOf(point.label);
      const count = point.trail.length;
      let [x, y] = this.camera.pixel(point.trail[0]);
      for (let i = 1; i <= count; i++) {
        const [nx, ny] = i === count ? [point.px, point.py] : this.camera.pixel(point.trail[i]);
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

  diamonds(points) {
    const { pen, colours } = this;
    for (const point of points.values()) {
      const [x, y] = this.camera.pixel(point.to);
      point.px = x;
      point.py = y;
      if (x < -20 || y < -20 || x > this.camera.width + 20 || y > this.camera.height + 20) continue;
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

  dots(drawn, now) {
    const { pen, colours } = this;
    const radius = drawn.length > 150 ? 3.5 : drawn.length > 60 ? 4.25 : 5;
    for (const point of drawn) {
      if (point.kind === 'destination') continue;
      const colour = colours.points[hueOf(point.label)];
      const since = now - point.movedAt;
      if (point.moves && since < pulseMs && !this.still) {
        pen.globalAlpha = 0.22 * (1 - since / pulseMs);
        pen.fillStyle = colour;
        pen.beginPath();
        pen.arc(point.px, point.py, radius + 9 * (since / pulseMs), 0, 7);
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

  labels(drawn) {
    const { pen, colours } = this;
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
    // Existing labels go first, so that they do not flicker where points crowd.
    for (const pass of [true, false]) {
      for (const point of drawn) {
        if (point.kind === 'destination' || Boolean(point.labelled) !== pass || point.passed === this.frame) continue;
        point.passed = this.frame;
        point.labelWidth ??= pen.measureText(point.label).width;
        // At the right edge, and next to what covers the map there, the label goes to the left.
        const flips = point.px + 14 + point.labelWidth > (point.py < this.covered.bottom ? this.covered.left : this.camera.width);
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

  rings(points) {
    const { pen, colours } = this;
    for (const point of points) {
      if (!point || point.px === undefined) continue;
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.arc(point.px, point.py, 11, 0, 7);
      pen.stroke();
    }
  }
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
    ground: of('--map-ground'), grid: of('--map-grid'), coast: of('--map-coast'), quiet: of('--quiet'), ink: of('--ink'), accent: of('--accent'), alarm: of('--alarm'),
    points: Array.from({ length: hues }, (_, i) => of(`--map-${i + 1}`)), font: style.fontFamily,
  };
}
