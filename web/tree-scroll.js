// The part of the tree that is seen: the box that scrolls, and which rows it stands for.

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

// ---- rows and pixels

// Rows of a fixed height in a box that browsers can scroll, however many there are. Pure.
//
// Browsers cannot make an element higher than some 17 million pixels. Beyond that the scroll bar stands for parts of the whole: dragging
// it moves in proportion, wheel and keys move by pixels, and when that has come to rest the bar is put where it belongs.

export const tallest = 12000000;

export class ScrollMap {
  rowHeight = 24;
  rows = 0;
  view = 600;   // height of what is seen
  top = 0;      // first pixel seen, of all rows
  #bar = 0;     // scrollTop of the box

  get height() { return this.rows * this.rowHeight; }
  /** Height that the box's content gets. */
  get box() { return Math.min(this.height, tallest); }
  get #isMapped() { return this.height > tallest; }
  get #most() { return Math.max(0, this.height - this.view); }
  get #mostBar() { return Math.max(0, this.box - this.view); }

  /** The box was scrolled to `bar`. */
  scrolled(bar) {
    const step = bar - this.#bar;
    this.#bar = bar;
    if (!this.#isMapped) { this.top = bar; return; }
    if (Math.abs(step) <= this.view * 3) this.top = Math.max(0, Math.min(this.#most, this.top + step));
    else this.top = (bar / this.#mostBar) * this.#most;
    if (bar <= 0) this.top = 0;
    if (bar >= this.#mostBar) this.top = this.#most;
  }

  /** Moves to a pixel; returns the scrollTop that stands for it. */
  moveTo(top) {
    this.top = Math.max(0, Math.min(this.#most, top));
    this.#bar = this.#isMapped ? Math.round((this.top / this.#most) * this.#mostBar) : this.top;
    // The ends of the bar are the ends of the rows, and only they.
    if (this.#isMapped && this.top > 0 && this.top < this.#most) this.#bar = Math.max(1, Math.min(this.#mostBar - 1, this.#bar));
    return this.#bar;
  }

  /** Where the bar belongs now; differs from where it is after moving by pixels. */
  get settled() { return this.moveTo(this.top); }

  /** First and last row to draw, with some on either side. */
  range(spare = 12) {
    const first = Math.max(0, Math.floor(this.top / this.rowHeight) - spare);
    const last = Math.min(this.rows - 1, Math.ceil((this.top + this.view) / this.rowHeight) + spare);
    return [first, last];
  }

  /** Where a row is drawn inside the box, in pixels from its beginning. */
  rowTop(row) { return row * this.rowHeight - this.top + this.#bar; }

  /** The pixel to move to so that a row is seen; the present one when it is. */
  reveal(row, margin = 0) {
    const begin = row * this.rowHeight;
    if (begin < this.top + margin) return begin - margin;
    if (begin + this.rowHeight > this.top + this.view - margin) return begin + this.rowHeight - this.view + margin;
    return this.top;
  }
}
