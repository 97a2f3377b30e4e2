// Names of children: reading them out of an answer while it comes, and the ranges of keys that begin with some text. Pure.

import { integerKey } from './paths.js';

const between = '":true,"';

/**
 * Reads `{"a":true,"b":true}` piece by piece. `feed` calls `found(text)` for each name, as JSON without its quotes: most are only
 * counted, so none is turned into a string of its own (`nameOf` does that).
 */
export class NameReader {
  #rest = '';
  #begun = false;
  /** What the answer is when it is no object: a leaf, or null. */
  leaf = undefined;

  feed(text, found) {
    let data = this.#rest + text;
    if (!this.#begun) {
      if (data.length < 2) { this.#rest = data; return; }
      if (data[0] !== '{') { this.#rest = data; return; }
      this.#begun = true;
      data = data.slice(2); // {"
    }
    let at = 0;
    for (let search = 0; ;) {
      const end = data.indexOf(between, search);
      if (end < 0) break;
      if (isEscaped(data, end)) { search = end + 1; continue; }
      found(data.slice(at, end));
      at = search = end + between.length;
    }
    this.#rest = data.slice(at);
  }

  /** After the last piece. */
  end(found) {
    if (!this.#begun) { this.leaf = JSON.parse(this.#rest || 'null'); return; }
    const end = this.#rest.lastIndexOf('":true}');
    if (end >= 0) found(this.#rest.slice(0, end));
  }
}

/** Whether the quote at `at` belongs to an escape. */
function isEscaped(text, at) {
  let slashes = 0;
  while (text[at - 1 - slashes] === '\\') slashes += 1;
  return slashes % 2 === 1;
}

/** The key that a name of the reader stands for, as a string that does not hold on to the text it was cut from. */
export const nameOf = (raw) => JSON.parse(`"${raw}"`);

/**
 * The ranges of keys, in key order, that begin with `prefix`: [{ lower, upper }], bounds as { key, inclusive }. Integers sort by
 * number, so "12" is 12, 120 to 129, 1200 to 1299, … and then the texts.
 */
export function prefixRanges(prefix) {
  const ranges = [];
  const integer = integerKey(prefix);
  if (prefix === '-' || (integer !== null && String(integer) === prefix)) {
    const negative = prefix[0] === '-', digits = Math.abs(integer ?? 0);
    const numbers = [];
    for (let width = 1; width <= 1e9 && integer; width *= 10) {
      const low = digits * width, high = Math.min(low + width - 1, negative ? 2147483648 : 2147483647);
      if (low > high) break;
      numbers.push(negative ? [-high, -low] : [low, high]);
    }
    if (integer === 0) numbers.push([0, 0]);
    if (prefix === '-') numbers.push([-2147483648, -1]);
    if (negative) numbers.sort((a, b) => a[0] - b[0]);
    for (const [low, high] of numbers) ranges.push({ lower: { key: String(low), inclusive: true }, upper: { key: String(high), inclusive: true } });
  }
  // A space sorts before every other character that a key may have, and makes the bound a text.
  const text = integer === null ? prefix : `${prefix} `;
  ranges.push({ lower: { key: text, inclusive: true }, upper: { key: `${prefix}\uf8ff`, inclusive: true } });
  return ranges;
}
