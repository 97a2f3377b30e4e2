// The map: points that glide from fix to fix with short trails, destinations, and diamonds for the entries of the timeline, on a ground of
// coast lines, graticule and scale bar. One canvas; it is drawn only while something moves.

import { joinPath } from '../client/paths.js';
import { setText } from '../page/dom.js';
import { MapCamera, handleInput } from './camera.js';
import { MapCard } from './card.js';
import { MapCircles } from './circles.js';
import { MapGround } from './ground.js';
import { MapPainter, pulseMs } from './painter.js';
import { MapPoints, nearestPoint, shownAt } from './points.js';
import { MapTiles, askForTiles } from './tiles.js';

export class MapView {
  fixes = new MapPoints();
  entries = new MapPoints();

  #canvas;
  #camera = new MapCamera();
  #painter;
  #tiles = new MapTiles(() => { this.#showCredit(); this.draw(); });
  #ground;
  #circles;
  #card;
  #blank;
  #credit;
  #fitButton;
  #hooks;
  #visible = false;
  #isFrameRequested = false;
  #lastFrame = 0;
  #hover = null;
  #marked = null;
  #followed = null; // the point that the map is centred on
  #reducedMotion = matchMedia('(prefers-reduced-motion: reduce)');

  /** parts: canvas, card, said, credit, blank, zoomIn, zoomOut, fit, tiles. circles: those of the hub. hooks: select(path). */
  constructor(parts, circles, hooks) {
    this.#canvas = parts.canvas;
    this.#painter = new MapPainter(parts.canvas, this.#camera);
    this.#ground = new MapGround(this.#painter, this.#tiles, () => this.draw());
    this.#circles = new MapCircles(this.#painter, circles);
    this.#card = new MapCard(parts.card, parts.said);
    this.#credit = parts.credit;
    this.#showCredit();
    this.#blank = parts.blank;
    this.#hooks = hooks;
    this.#fitButton = parts.fit;
    parts.zoomIn.addEventListener('click', () => this.#zoomBy(0.7));
    parts.zoomOut.addEventListener('click', () => this.#zoomBy(-0.7));
    parts.fit.addEventListener('click', () => this.#setAutoFit(true));
    parts.tiles.addEventListener('click', () => askForTiles(this.#tiles));
    new ResizeObserver(() => this.#resize()).observe(parts.canvas);
    for (const query of ['(prefers-color-scheme: dark)', '(prefers-contrast: more)']) {
      matchMedia(query).addEventListener('change', () => { this.#painter.forgetColours(); this.draw(); });
    }
    handleInput(parts.canvas, {
      zoomBy: (amount, x, y) => this.#zoomBy(amount, x, y),
      panBy: (dx, dy, atOnce) => this.#panBy(dx, dy, atOnce),
      point: (x, y) => this.#point(x, y),
      pointNowhere: () => { this.#hover = null; this.#showCard(); this.draw(); },
      grab: (x, y) => this.#grab(x, y),
      drag: (x, y) => { this.#circles.moveTo(x, y); this.#showCard(); this.draw(); },
      press: (x, y) => {
        if (this.#grab(x, y)) return;
        if (!this.#hover && this.#circles.chosen) { this.#circles.moveTo(x, y); this.#showCard(); this.draw(); }
        if (this.#hover) this.#hooks.select(joinPath(this.#hover.path));
        if (this.#hover?.kind === 'fix') this.follow(this.#hover);
      },
    }, {
      ArrowLeft: () => this.#panBy(80, 0), ArrowRight: () => this.#panBy(-80, 0),
      ArrowUp: () => this.#panBy(0, 80), ArrowDown: () => this.#panBy(0, -80),
      '+': () => this.#zoomBy(0.5), '=': () => this.#zoomBy(0.5), '-': () => this.#zoomBy(-0.5),
      0: () => this.#setAutoFit(true),
      n: () => this.#followNext(), Escape: () => { this.#choose(null); this.follow(null); },
      c: () => this.#showCircle(this.#circles.chooseNext()),
      'Shift+ArrowLeft': () => this.#step(-16, 0), 'Shift+ArrowRight': () => this.#step(16, 0),
      'Shift+ArrowUp': () => this.#step(0, -16), 'Shift+ArrowDown': () => this.#step(0, 16),
    });
    setInterval(() => { if (this.#visible) { this.#showCard(); this.draw(); } }, 1000);
  }

  set visible(visible) {
    this.#visible = visible;
    if (visible) { this.#resize(); this.draw(); }
  }

  /** Shows the requested circle, if there is one. */
  showAsked() {
    const asked = this.#circles.takeAsked();
    if (asked) this.#showCircle(asked);
  }

  /** Resets the view for another place. */
  reset() {
    this.fixes.clear();
    this.#followed = null;
    this.#camera.forget();
    this.#setAutoFit(true);
  }

  get state() {
    const list = (points) => [...points.points.values()].map(({ path, label, kind, latitude, longitude, moves }) => ({ path: joinPath(path), label, kind, latitude, longitude, moves }));
    return { points: list(this.fixes), entries: list(this.entries), autoFit: this.#camera.autoFit, frames: this.#painter.frame, centre: this.#camera.centre, coast: this.#ground.coastDrawn, tiles: this.#tiles.address, followed: this.#followed ? joinPath(this.#followed.path) : null, circles: this.#circles.state };
  }

  /** Marks a point on the map with a ring; null removes it. */
  mark(point, go = false) {
    this.#marked = point;
    if (point && go) {
      this.#setAutoFit(false);
      this.#camera.goTo(point.to, point.latitude, 1200);
    }
    this.draw();
  }

  /** Keeps a point in the centre, until the map is moved by hand; null ends it. */
  follow(point) {
    if (point) this.#setAutoFit(false);
    this.#followed = point;
    this.draw();
  }

  /** Follows the next point, in order of arrival. */
  #followNext() {
    const points = [...this.fixes.points.values()].filter((point) => point.kind === 'fix');
    if (points.length) this.follow(points[(points.indexOf(this.#followed) + 1) % points.length]);
  }

  /** Requests a frame. */
  draw() {
    if (this.#isFrameRequested || !this.#visible) return;
    this.#isFrameRequested = true;
    requestAnimationFrame((now) => { this.#isFrameRequested = false; this.#frame(now); });
  }

  // ---- view

  #resize() {
    const { clientWidth, clientHeight } = this.#canvas;
    if (!clientWidth || !clientHeight) return;
    const ratio = Math.min(3, devicePixelRatio || 1);
    this.#canvas.width = Math.round(clientWidth * ratio);
    this.#canvas.height = Math.round(clientHeight * ratio);
    this.#painter.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { offsetLeft, offsetTop, offsetHeight } = this.#fitButton.parentElement;
    this.#painter.covered = { left: offsetLeft, bottom: offsetTop + offsetHeight + 8 };
    this.#camera.resize(clientWidth, clientHeight);
    if (this.#visible) this.#frame(performance.now());
  }

  #setAutoFit(on) {
    this.#followed = null;
    this.#camera.autoFit = on;
    this.#camera.fitSoon();
    this.#fitButton.setAttribute('aria-pressed', String(on));
    this.draw();
  }

  // ---- drawing

  #frame(now) {
    const camera = this.#camera, painter = this.#painter;
    if (!this.#visible || !camera.width) return;
    const still = this.#reducedMotion.matches;
    const seconds = Math.min(0.1, (now - this.#lastFrame) / 1000);
    this.#lastFrame = now;
    let moving = camera.follow(this.fixes.points.size ? this.fixes.points : this.entries.points, this.fixes.hasMoved || this.entries.hasMoved, now);
    this.fixes.hasMoved = this.entries.hasMoved = false;
    if (this.#followed?.node.gone) this.#followed = null;
    if (this.#followed) { this.#camera.aim.x = this.#followed.to.x; this.#camera.aim.y = this.#followed.to.y; }
    moving = camera.glide(seconds, still) || moving;

    const drawn = [];
    const margin = 40;
    for (const point of this.fixes.points.values()) {
      const at = still ? point.to : shownAt(point, now);
      if (at !== point.to || (!still && point.moves && now - point.movedAt < pulseMs)) moving = true;
      [point.px, point.py] = camera.pixel(at);
      if (point.px > -margin && point.py > -margin && point.px < camera.width + margin && point.py < camera.height + margin) drawn.push(point);
    }
    painter.begin(still);
    this.#ground.draw();
    this.#circles.draw();
    painter.destinations(drawn, this.fixes, this.#hover);
    painter.trails(drawn, now);
    painter.diamonds(this.entries.points);
    painter.dots(drawn, now);
    painter.labels(drawn);
    painter.rings([this.#hover, this.#marked, this.#followed]);
    this.#ground.scale();
    this.#paintTexts();
    if (moving) this.draw();
  }

  #showCredit() {
    const words = this.#tiles.failed ? 'Some tiles did not come.' : this.#tiles.credit;
    this.#credit.hidden = !words;
    setText(this.#credit, words);
  }

  #paintTexts() {
    const nothing = !this.fixes.points.size && !this.entries.points.size && !this.#circles.list.length;
    if (this.#blank.hidden === nothing) this.#blank.hidden = !nothing;
    let moving = 0;
    for (const point of this.fixes.points.values()) if (point.kind === 'fix') moving += 1;
    const label = `Map with ${moving} points and ${this.entries.points.size} timeline entries. Drag or arrow keys move it, plus and minus zoom, 0 fits all, N follows the next point${this.#circles.list.length ? ', C chooses the next circle, which Shift and arrow keys or a click move' : ''}.`;
    if (this.#canvas.getAttribute('aria-label') !== label) this.#canvas.setAttribute('aria-label', label);
  }

  // ---- input

  #zoomBy(amount, x, y) {
    const followed = this.#followed; // zooming keeps following it
    this.#setAutoFit(false);
    this.#followed = followed;
    if (followed) this.#camera.zoomBy(amount); else this.#camera.zoomBy(amount, x, y);
    this.draw();
  }

  #panBy(dx, dy, atOnce = false) {
    this.#setAutoFit(false);
    this.#camera.panBy(dx, dy, atOnce);
    this.draw();
  }

  #point(x, y) {
    const best = nearestPoint([...this.fixes.points.values(), ...this.entries.points.values()], x, y);
    this.#canvas.style.cursor = best ? 'pointer' : this.#circles.at(x, y) ? 'move' : '';
    if (best === this.#hover) return;
    this.#hover = best;
    this.#showCard();
    this.draw();
  }

  /** Starts to drag the circle whose handle is at this pixel. */
  #grab(x, y) {
    const circle = this.#circles.at(x, y);
    if (circle) this.#choose(circle);
    return Boolean(circle);
  }

  #choose(circle) {
    this.#circles.chosen = circle;
    this.#showCard();
    this.draw();
  }

  #showCircle(circle) {
    this.#choose(circle);
    if (!circle) return;
    this.#setAutoFit(false);
    this.#circles.show(circle);
  }

  #step(dx, dy) {
    if (!this.#circles.chosen) return this.#panBy(-5 * dx, -5 * dy);
    this.#circles.step(dx, dy);
    this.#showCard();
    this.draw();
  }

  #showCard() {
    const { chosen } = this.#circles;
    if (this.#hover?.node.gone) this.#hover = null;
    this.#card.show(this.#hover, chosen && this.#circles.description(chosen));
  }
}
