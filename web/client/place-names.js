// Reads the names of a place's children into blocks: some at once, so that something can be shown, the rest in a few large answers that are only
// counted. It uses no listens.

import { compareKeys, integerKey } from './paths.js';

const firstNames = 400;
const moreNames = 250000;   // in one answer
const filterNames = 2000;   // in one answer of a filter, which ends where the prefix does
const reportEvery = 25000;
const countedAtMost = 4000000;

/** progress(isFirst, isCounted): more names were read. Resolves with the leaf if the place has a value instead of children, else undefined. */
export async function readNames(source, path, list, progress, signal) {
  list.begin();
  const { keys, leaf } = await source.page(path, { limit: firstNames, signal });
  if (signal.aborted || leaf !== undefined) return leaf;
  for (const key of keys) list.add(key);
  let isCounted = keys.length < firstNames, after = keys.at(-1);
  if (isCounted) list.end(); else list.cut();
  progress(true, isCounted);
  while (!isCounted && list.count < countedAtMost) {
    let got = 0;
    await source.names(path, { after, limit: moreNames, signal }, (raw) => {
      after = nameOf(raw);
      list.add(after);
      got += 1;
      if (got % reportEvery === 0) progress(false, false);
    });
    if (signal.aborted) return undefined;
    isCounted = got < moreNames;
    if (isCounted) list.end();
    progress(false, isCounted);
  }
  return undefined;
}

/** The same for the children whose keys begin with `prefix`. */
export async function readPrefix(source, path, prefix, list, progress, signal) {
  for (const { lower, upper } of prefixRanges(prefix)) {
    list.begin(lower, upper);
    // Names can only be requested after a key, so a separate request checks the first one.
    const own = await source.small(source.childPath(path, lower.key), { shallow: 'true', limitToFirst: '1' }, signal).catch(() => null);
    if (own !== null) list.add(lower.key);
    let after = lower.key, isInside = true;
    while (isInside && list.count < countedAtMost) {
      const { keys, leaf } = await source.page(path, { after, limit: filterNames, signal });
      if (signal.aborted) return undefined;
      if (leaf !== undefined && leaf !== null) return leaf;
      isInside = keys.length === filterNames;
      for (const key of keys) {
        if (compareKeys(key, upper.key) > 0) { isInside = false; break; }
        if (key.startsWith(prefix)) list.add(key);
      }
      after = keys.at(-1);
    }
    list.end();
  }
  progress(true, true);
  return undefined;
}

/** A key that sorts closely before `key`, because names can only be requested after a key. */
export function keyBefore(key) {
  if (/^-?\d+$/.test(key)) return String(Math.max(-2147483648, Number(key) - 1));
  const unit = key.charCodeAt(key.length - 1);
  return unit > 33 ? key.slice(0, -1) + String.fromCharCode(unit - 1) + '\ufffd' : key.slice(0, -1);
}

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

// ---- Names of children, parsed while the answer arrives. Pure.

const between = '":true,"';

/**
 * Parses `{"a":true,"b":true}` piece by piece. `feed` calls `found(text)` for each name, as JSON without its quotes. Most names are only
 * counted, so none is converted to a separate string (`nameOf` does that).
 */
export class NameReader {
  #rest = '';
  #begun = false;
  /** The value when the answer is not an object: a leaf, or null. */
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

  /** Call after the last piece. */
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

/** The key of a parsed name, as a string that does not retain the text it was cut from. */
export const nameOf = (raw) => JSON.parse(`"${raw}"`);
