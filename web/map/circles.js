// The circles on the map: drawn with a handle in the middle, which can be dragged; clicks and keys move the chosen one.

import { metres } from '../page/dom.js';
import { project, unproject } from './camera.js';

const isTouched = matchMedia('(pointer: coarse)').matches;
const handlePixels = isTouched ? 24 : 14;
/** Instructions for moving the chosen circle. */
export const howTo = isTouched ? 'Drag it, or tap where it shall be.'
  : 'Drag it, click where it shall be, or press Shift and an arrow key. Escape lets go.';
const earthMetres = 6371009, degrees = Math.PI / 180;

export class MapCircles {
  #painter;
  #circles;

  /** painter: provides the pen and the camera; circles: those of the hub. */
  constructor(painter, circles) {
    this.#painter = painter;
    this.#circles = circles;
  }

  get list() { return this.#circles.list; }
  get chosen() { return this.#circles.chosen; }
  set chosen(circle) { this.#circles.chosen = circle; }

  get state() {
    return this.list.map((circle) => {
      const { text, near, size } = circle;
      return { text, near, size, at: this.middle(circle), isChosen: circle === this.chosen };
    });
  }

  /** Takes the circle that is to be shown, once. */
  takeAsked() {
    const { asked } = this.#circles;
    this.#circles.asked = null;
    if (asked) this.chosen = asked;
    return asked;
  }

  /** Chooses the next circle. */
  chooseNext() { return this.chosen = this.list[(this.list.indexOf(this.chosen) + 1) % this.list.length] ?? null; }

  draw() {
    const { pen, colours, camera } = this.#painter;
    for (const circle of this.list) {
      const isChosen = circle === this.chosen;
      pen.strokeStyle = pen.fillStyle = colours.accent;
      pen.lineWidth = isChosen ? 2.5 : 1.5;
      if (circle.near.radius) {
        pen.beginPath();
        for (const at of rim(circle.near)) pen.lineTo(...camera.pixel(at));
        pen.closePath();
        pen.globalAlpha = isChosen ? 0.14 : 0.08;
        pen.fill();
        pen.globalAlpha = 1;
        pen.stroke();
      }
      const [x, y] = this.middle(circle);
      pen.beginPath();
      pen.arc(x, y, isChosen ? 8 : 6, 0, 7);
      pen.fillStyle = colours.ground;
      pen.fill();
      pen.stroke();
      pen.beginPath();
      pen.arc(x, y, 2.5, 0, 7);
      pen.fillStyle = colours.accent;
      pen.fill();
    }
  }

  /** The pixel of its centre. */
  middle({ near }) { return this.#painter.camera.pixel(project(near.lat, near.lng)); }

  /** The circle whose handle is at a pixel. */
  at(x, y) {
    return this.list.findLast((circle) => {
      const [cx, cy] = this.middle(circle);
      return Math.hypot(cx - x, cy - y) <= handlePixels;
    }) ?? null;
  }

  /** Moves the chosen one to a pixel. */
  moveTo(x, y) {
    const { camera } = this.#painter, { view, scale } = camera;
    const { latitude, longitude } = unproject((x - camera.width / 2) / scale + view.x, (y - camera.height / 2) / scale + view.y);
    const wrapped = ((longitude + 540) % 360 + 360) % 360 - 180;
    this.chosen.moveTo(Number(Math.max(-90, Math.min(90, latitude)).toFixed(6)), Number(wrapped.toFixed(6)));
  }

  /** Moves the chosen one by pixels. */
  step(dx, dy) {
    const [x, y] = this.middle(this.chosen);
    this.moveTo(x + dx, y + dy);
  }

  /** Moves the view to show a whole circle. */
  show({ near }) {
    const { camera } = this.#painter, tall = Math.max(1, camera.height / camera.width);
    camera.goTo(project(near.lat, near.lng), near.lat, Math.min(3e7, 3 * tall * (near.radius ?? 1000)), true);
  }

  /** The description of a circle, as [title, text]. */
  description({ text, near, size }) {
    const within = near.radius ? `within ${metres(near.radius)} of` : 'nearest to';
    const count = size === null ? '' : `${size.toLocaleString('en')} `;
    return [text.split('?')[0], `${count}${within} ${near.lat.toFixed(5)}, ${near.lng.toFixed(5)}`];
  }
}

/** Points of a circle on the ground, as places of the map. */
function rim({ lat, lng, radius }) {
  const d = radius / earthMetres, up = lat * degrees, list = [];
  for (let i = 0; i < 72; i++) {
    const b = (i / 36) * Math.PI;
    const at = Math.asin(Math.sin(up) * Math.cos(d) + Math.cos(up) * Math.sin(d) * Math.cos(b));
    const east = Math.atan2(Math.sin(b) * Math.sin(d) * Math.cos(up), Math.cos(d) - Math.sin(up) * Math.sin(at));
    list.push(project(at / degrees, lng + east / degrees));
  }
  return list;
}
