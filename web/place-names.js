// Reads the names of a place's children into blocks: some at once, so that something is there, the rest in few large answers that are only
// counted. Nothing of it is a listen.

import { nameOf, prefixRanges } from './key-names.js';
import { compareKeys } from './paths.js';

const firstNames = 400;
const moreNames = 250000;   // in one answer
const filterNames = 2000;   // in one answer of a filter, which ends where the prefix does
const toldEvery = 25000;
const countedAtMost = 4000000;

/** told(isFirst, isCounted): there is more than before. Resolves with the leaf that is there instead of children, else undefined. */
export async function readNames(source, path, list, told, signal) {
  list.begin();
  const { keys, leaf } = await source.page(path, { limit: firstNames, signal });
  if (signal.aborted || leaf !== undefined) return leaf;
  for (const key of keys) list.add(key);
  let isCounted = keys.length < firstNames, after = keys.at(-1);
  if (isCounted) list.end(); else list.cut();
  told(true, isCounted);
  while (!isCounted && list.count < countedAtMost) {
    let got = 0;
    await source.names(path, { after, limit: moreNames, signal }, (raw) => {
      after = nameOf(raw);
      list.add(after);
      got += 1;
      if (got % toldEvery === 0) told(false, false);
    });
    if (signal.aborted) return undefined;
    isCounted = got < moreNames;
    if (isCounted) list.end();
    told(false, isCounted);
  }
  return undefined;
}

/** The same for the children whose keys begin with `prefix`. */
export async function readPrefix(source, path, prefix, list, told, signal) {
  for (const { lower, upper } of prefixRanges(prefix)) {
    list.begin(lower, upper);
    // Names are given behind a key only: whether the first one is there is asked by itself.
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
  told(true, true);
  return undefined;
}

/** A key that sorts before `key`, close to it: names are asked for behind a key. */
export function keyBefore(key) {
  if (/^-?\d+$/.test(key)) return String(Math.max(-2147483648, Number(key) - 1));
  const unit = key.charCodeAt(key.length - 1);
  return unit > 33 ? key.slice(0, -1) + String.fromCharCode(unit - 1) + '\ufffd' : key.slice(0, -1);
}
