// The blocks of a place's children that are on the screen: loaded and listened to. All others are released.

import { compareKeys } from '../client/paths.js';
import { keyBefore } from '../client/place-names.js';
import { BlockContent } from './block-content.js';
import { BlockList, blockSize } from './block-list.js';

export class PlaceBlocks {
  list = new BlockList();
  #source;
  #path;
  #hooks;
  #shown = new Set();

  /**
   * hooks: came(change, initial, key): children were loaded, or changed (key: one that is loaded by itself); changed(): rows differ;
   * emptied(): a large content is gone; failed(refusal), lost(): of loaded blocks.
   */
  constructor(source, path, hooks) {
    this.#source = source;
    this.#path = path;
    this.#hooks = hooks;
  }

  get loaded() { return this.#shown.size; }

  /** Releases all blocks, and continues with another list. */
  begin(list) {
    for (const block of this.#shown) { block.content?.end(); block.content = null; }
    this.#shown.clear();
    this.list = list;
  }

  /** Loads the children between these positions ([[from, to], …]) and releases all others. */
  show(ranges) {
    const wanted = new Map();
    for (const [from, to] of ranges) {
      for (let index = this.list.blockAt(from); index < this.list.blocks.length; index++) {
        const start = this.list.startOf(index), block = this.list.blocks[index];
        if (start > to) break;
        const inside = [Math.max(0, from - start), Math.min(block.count - 1, to - start)];
        const known = wanted.get(block);
        wanted.set(block, known ? [Math.min(known[0], inside[0]), Math.max(known[1], inside[1])] : inside);
      }
    }
    for (const block of this.#shown) {
      if (wanted.has(block)) continue;
      block.content?.end();
      block.content = null;
      this.#shown.delete(block);
    }
    for (const [block, inside] of wanted) {
      if (!block.content) this.#load(block);
      this.#shown.add(block);
      block.content.show(...inside);
    }
  }

  #load(block) {
    const { list } = this, index = list.blocks.indexOf(block), upper = list.upperOf(index);
    const isInside = (key) => (!block.lower || compareKeys(key, block.lower.key) >= 0) && (!upper || (upper.inclusive ? compareKeys(key, upper.key) <= 0 : compareKeys(key, upper.key) < 0));
    // A filtered range begins behind a key that may exist. Names can only be requested after a key, so make up the one before it.
    const after = block.after ?? (block.lower ? keyBefore(block.lower.key) : null);
    const content = new BlockContent(this.#source, this.#path, { query: list.query(index), parameters: list.parameters(index), after, count: block.count, isInside }, {
      changed: (change, initial, key) => {
        if (block.content !== content || this.list !== list) return;
        if (key === null && !this.#resize(block, content)) return;
        this.#hooks.came(change, initial, key);
      },
      split: (keys, size) => { if (block.content === content && this.list === list) this.#split(block, keys, size); },
      failed: (refusal) => {
        if (block.content !== content) return;
        if (refusal.code === 'disconnected') { // it is loaded again after the reconnect
          content.end();
          block.content = null;
          this.#shown.delete(block);
        }
        this.#hooks.failed(refusal);
      },
      lost: () => this.#hooks.lost(),
    });
    block.content = content;
  }

  #split(block, keys, size) {
    block.content.end();
    block.content = null;
    this.#shown.delete(block);
    this.list.split(this.list.blocks.indexOf(block), keys, size);
    this.#hooks.changed();
  }

  /** Adjusts a block's size to its content. False when the content is too large for one block. */
  #resize(block, content) {
    const count = content.order?.length ?? content.keys.length, before = block.count;
    if (count > blockSize * 4) {
      this.#split(block, content.order.map((node) => node.key), blockSize);
      return false;
    }
    this.list.resize(this.list.blocks.indexOf(block), count);
    // A whole block does not empty by itself: the place was overwritten, or has become empty.
    if (this.list.count === 0 || (count === 0 && before >= blockSize / 2)) this.#hooks.emptied();
    return true;
  }
}
