// The children of a place in key order, as runs of about a hundred keys that are loaded one by one. Pure.
//
// Of a block that is not on the screen only its bounds and its number of keys are known: a million children are ten thousand small
// objects. The counts of hidden blocks may be outdated; they are corrected when the block is shown.

import { compareKeys } from '../client/paths.js';

export const blockSize = 100;

/** A run of keys from `lower` (null: from the beginning) up to the next block, or to the end of its range. */
export class Block {
  count = 0;
  after = null;   // the key before the first one, for requests that start behind a key
  content = null; // its loaded content: a BlockContent (block-content.js)

  constructor(lower, upper = null) {
    this.lower = lower; // { key, inclusive } or null
    this.upper = upper; // set on the last block of a range only
  }
}

export class BlockList {
  blocks = [];
  #starts = [];
  #valid = 0; // number of entries of #starts that are valid
  #range = null;

  get count() {
    const last = this.blocks.length - 1;
    return last < 0 ? 0 : this.startOf(last) + this.blocks[last].count;
  }

  /** Begins a range of keys, such as those with a prefix; no block crosses its ends. Bounds: { key, inclusive } or null. */
  begin(lower = null, upper = null) {
    if (this.#range && this.blocks.length) this.blocks.at(-1).upper = this.#range.upper;
    this.#range = { lower, upper, block: null, last: null, isCut: false };
  }

  /** Starts a new block with the next key, because the current one may be loaded already. */
  cut() { this.#range.isCut = true; }

  /** Adds the next key of the range, larger than all before. */
  add(key) {
    const range = this.#range;
    let block = range.block;
    if (!block || range.isCut || block.count >= blockSize) {
      const next = new Block(block ? { key, inclusive: true } : range.lower);
      next.after = block ? range.last : null;
      this.blocks.push(next);
      range.block = block = next;
      range.isCut = false;
    }
    block.count += 1;
    range.last = key;
    this.#valid = Math.min(this.#valid, this.blocks.length);
  }

  /** Ends the range. A range without keys gets an empty block, so that children added there are noticed. */
  end() {
    const range = this.#range;
    if (!range.block) this.blocks.push(new Block(range.lower));
    this.blocks.at(-1).upper = range.upper;
    this.#range = null;
  }

  /** How many rows come before a block. */
  startOf(index) {
    for (let i = this.#valid; i <= index; i++) this.#starts[i] = i === 0 ? 0 : this.#starts[i - 1] + this.blocks[i - 1].count;
    this.#valid = Math.max(this.#valid, index + 1);
    return this.#starts[index];
  }

  /** The index of the block with the child at `position`. */
  blockAt(position) {
    let low = 0, high = this.blocks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.startOf(middle) <= position) low = middle; else high = middle - 1;
    }
    while (low < this.blocks.length - 1 && this.blocks[low].count === 0) low += 1;
    return low;
  }

  /** The index of the block that a key is in, or would be. */
  blockOf(key) {
    let low = 0, high = this.blocks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      const { lower } = this.blocks[middle];
      if (lower === null || compareKeys(lower.key, key) <= 0) low = middle; else high = middle - 1;
    }
    return low;
  }

  /** The end of a block: { key, inclusive } or null. */
  upperOf(index) {
    const block = this.blocks[index];
    if (block.upper) return block.upper;
    const next = this.blocks[index + 1];
    // While names are still loading, the last block ends at the last known name: a million may follow.
    if (!next && this.#range) return { key: this.#range.last, inclusive: true };
    return next?.lower ? { key: next.lower.key, inclusive: false } : null;
  }

  resize(index, count) {
    if (this.blocks[index].count === count) return;
    this.blocks[index].count = count;
    this.#valid = Math.min(this.#valid, index + 1);
  }

  /** Replaces a block by several of at most `size` of these keys, which are all of its keys. */
  split(index, keys, size) {
    const { lower, upper, after } = this.blocks[index];
    const parts = [];
    for (let i = 0; i < keys.length; i += size) {
      const block = new Block(i === 0 ? lower : { key: keys[i], inclusive: true });
      block.after = i === 0 ? after : keys[i - 1];
      block.count = Math.min(size, keys.length - i);
      parts.push(block);
    }
    if (!parts.length) return;
    parts.at(-1).upper = upper;
    this.blocks.splice(index, 1, ...parts);
    if (this.#range?.block && !this.blocks.includes(this.#range.block)) this.#range.block = parts.at(-1);
    this.#valid = Math.min(this.#valid, index);
  }

  /** The query of a block's children for the realtime protocol. */
  query(index) {
    const { lower } = this.blocks[index], upper = this.upperOf(index);
    const query = { i: '.key' };
    if (lower) Object.assign(query, { sp: lower.key, sin: lower.inclusive });
    if (upper) Object.assign(query, { ep: upper.key, ein: upper.inclusive });
    return query;
  }

  /** The same as parameters of a REST address. */
  parameters(index) {
    const { sp, sin, ep, ein } = this.query(index);
    const parameters = { orderBy: '"$key"' };
    if (sp !== undefined) parameters[sin ? 'startAt' : 'startAfter'] = JSON.stringify(sp);
    if (ep !== undefined) parameters[ein ? 'endAt' : 'endBefore'] = JSON.stringify(ep);
    return parameters;
  }
}
