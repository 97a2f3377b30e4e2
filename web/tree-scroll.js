// The part of the tree that is seen: the box that scrolls, and which rows it stands for (scroll-map.js).

import { ScrollMap } from './scroll-map.js';

const settleMs = 160;
const fastPixels = 4; // in a millisecond

export class TreeScroll {
  map = new ScrollMap();
  #scroller;
  #box;
  #boxHeight = -1;
  #settle = 0;
  #lastTop = 0;
  #lastAt = 0;

  /** scroller: the element that scrolls; box: what is in it. changed(isScrolling): other rows are seen; measured(): their size differs. */
  constructor(scroller, box, { changed, measured }) {
    this.#scroller = scroller;
    this.#box = box;
    this.measured = measured;
    scroller.addEventListener('scroll', () => {
      this.map.scrolled(scroller.scrollTop);
      changed(true);
      clearTimeout(this.#settle);
      this.#settle = setTimeout(() => {
        const bar = this.map.settled;
        if (Math.abs(bar - scroller.scrollTop) > 1) scroller.scrollTop = bar;
        changed(false);
      }, settleMs);
    }, { passive: true });
    new ResizeObserver(() => this.measure()).observe(scroller);
  }

  get top() { return this.map.top; }

  measure() {
    if (!this.#scroller.clientHeight) return;
    this.map.view = this.#scroller.clientHeight;
    this.map.rowHeight = parseFloat(getComputedStyle(this.#scroller).getPropertyValue('--row')) || 24;
    this.measured();
  }

  /** How many rows there are; the box is made as high, and what is seen is never behind the last one. */
  set rows(count) {
    const { map } = this;
    map.rows = count;
    if (this.#boxHeight !== map.box) { this.#boxHeight = map.box; this.#box.style.height = `${map.box}px`; }
    if (map.top > Math.max(0, map.height - map.view)) this.goTo(map.height);
  }

  /** Moves to a pixel of all rows. */
  goTo(top) {
    const bar = this.map.moveTo(top);
    if (this.#scroller.scrollTop !== bar) this.#scroller.scrollTop = bar;
  }

  /** A row is where another one was, as rows above it came or went: what is seen stays where it is. rows: how many there are now. */
  shift(by, rows) {
    this.map.rows = rows;
    this.goTo(this.map.top + by * this.map.rowHeight);
  }

  /** Moves so that a row is seen; false when it was. */
  reveal(row, margin = 0) {
    const top = this.map.reveal(row, margin);
    if (top === this.map.top) return false;
    this.goTo(top);
    return true;
  }

  /** Whether it moves too fast to be read; asked once for each drawing. */
  get isFast() {
    const now = performance.now(), speed = Math.abs(this.map.top - this.#lastTop) / Math.max(1, now - this.#lastAt);
    this.#lastTop = this.map.top;
    this.#lastAt = now;
    return speed > fastPixels;
  }
}
