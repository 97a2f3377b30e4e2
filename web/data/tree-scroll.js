// The visible part of the tree: the scrolling box, and the rows that it shows.

const settleMs = 160;
const fastPixels = 4; // per millisecond

export class TreeScroll {
  map = new ScrollMap();
  #scroller;
  #box;
  #boxHeight = -1;
  #settle = 0;
  #lastTop = 0;
  #lastAt = 0;

  /** scroller: the scrolling element; box: its content. changed(isScrolling): other rows are visible; measured(): their size differs. */
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

  /** Sets the number of rows and the height of the box; the view never goes beyond the last row. */
  set rows(count) {
    const { map } = this;
    map.rows = count;
    if (this.#boxHeight !== map.box) { this.#boxHeight = map.box; this.#box.style.height = `${map.box}px`; }
    if (map.top > Math.max(0, map.height - map.view)) this.goTo(map.height);
  }

  /** Scrolls to a pixel of all rows. */
  goTo(top) {
    const bar = this.map.moveTo(top);
    if (this.#scroller.scrollTop !== bar) this.#scroller.scrollTop = bar;
  }

  /** Keeps the view in place after rows above it were added or removed: a row is now where another one was. rows: the new number. */
  shift(by, rows) {
    this.map.rows = rows;
    this.goTo(this.map.top + by * this.map.rowHeight);
  }

  /** Scrolls until a row is visible; false if it already was. */
  reveal(row, margin = 0) {
    const top = this.map.reveal(row, margin);
    if (top === this.map.top) return false;
    this.goTo(top);
    return true;
  }

  /** Whether it scrolls too fast to be read; call it once for each drawing. */
  get isFast() {
    const now = performance.now(), speed = Math.abs(this.map.top - this.#lastTop) / Math.max(1, now - this.#lastAt);
    this.#lastTop = this.map.top;
    this.#lastAt = now;
    return speed > fastPixels;
  }
}

// ---- rows and pixels

// Rows of a fixed height in a scrollable box, however many there are. Pure.
//
// Browsers limit an element's height to some 17 million pixels. Beyond that the scroll bar is scaled: dragging
// it moves in proportion, wheel and keys move by pixels, and when scrolling has come to rest the bar is set to its proportional position.

export const tallestPixels = 12000000;

export class ScrollMap {
  rowHeight = 24;
  rows = 0;
  view = 600;   // height of the view
  top = 0;      // first visible pixel, of all rows
  #bar = 0;     // scrollTop of the box

  get height() { return this.rows * this.rowHeight; }
  /** Height of the box's content. */
  get box() { return Math.min(this.height, tallestPixels); }
  get #isMapped() { return this.height > tallestPixels; }
  get #most() { return Math.max(0, this.height - this.view); }
  get #mostBar() { return Math.max(0, this.box - this.view); }

  /** Handles scrolling of the box to `bar`. */
  scrolled(bar) {
    const step = bar - this.#bar;
    this.#bar = bar;
    if (!this.#isMapped) { this.top = bar; return; }
    if (Math.abs(step) <= this.view * 3) this.top = Math.max(0, Math.min(this.#most, this.top + step));
    else this.top = (bar / this.#mostBar) * this.#most;
    if (bar <= 0) this.top = 0;
    if (bar >= this.#mostBar) this.top = this.#most;
  }

  /** Moves to a pixel; returns the matching scrollTop. */
  moveTo(top) {
    this.top = Math.max(0, Math.min(this.#most, top));
    this.#bar = this.#isMapped ? Math.round((this.top / this.#most) * this.#mostBar) : this.top;
    // Only the ends of the rows map to the ends of the bar.
    if (this.#isMapped && this.top > 0 && this.top < this.#most) this.#bar = Math.max(1, Math.min(this.#mostBar - 1, this.#bar));
    return this.#bar;
  }

  /** The proportional position of the bar; it differs from the actual one after moving by pixels. */
  get settled() { return this.moveTo(this.top); }

  /** First and last row to draw, with some on either side. */
  range(spare = 12) {
    const first = Math.max(0, Math.floor(this.top / this.rowHeight) - spare);
    const last = Math.min(this.rows - 1, Math.ceil((this.top + this.view) / this.rowHeight) + spare);
    return [first, last];
  }

  /** Where a row is drawn inside the box, in pixels from its beginning. */
  rowTop(row) { return row * this.rowHeight - this.top + this.#bar; }

  /** The pixel to scroll to so that a row is visible; the current one if it is. */
  reveal(row, margin = 0) {
    const begin = row * this.rowHeight;
    if (begin < this.top + margin) return begin - margin;
    if (begin + this.rowHeight > this.top + this.view - margin) return begin + this.rowHeight - this.view + margin;
    return this.top;
  }
}
