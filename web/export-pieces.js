// A place as one file of JSON, however large it is. What the hub gives out in one answer is one; of more, the children come in runs of keys,
// and of a child that is too large, its children. The answers pass through as they come: nothing is ever parsed, or held as a whole.

import { PlaceSource } from './place-source.js';
import { fault, sizeOf } from './place-size.js';

const openBrace = 123;

/**
 * take(piece) gets the file's bytes in order. Resolves with whether they are the place as it was at one instant. runBytes: most bytes of a
 * run of several children; namesAtOnce: children that are named in one answer.
 */
export async function exportPlace(hub, path, take, signal, { runBytes = 32 << 20, namesAtOnce = 1000 } = {}) {
  const source = new PlaceSource(hub), encoder = new TextEncoder();
  const text = (words) => take(encoder.encode(words));

  async function get(at, parameters = {}) {
    const response = await hub.fetch(hub.placeAddress(at, { ...parameters, format: 'export' }), { signal });
    if (!response.ok) throw await fault(response);
    return response;
  }

  /** Each piece of an answer as it comes. */
  async function* pieces(response) {
    const body = response.body.getReader();
    for (let piece = await body.read(); !piece.done; piece = await body.read()) yield piece.value;
  }

  async function place(at) {
    if (await sizeOf(hub, at, Number.MAX_SAFE_INTEGER, { signal }) === null) { await children(at); return false; }
    for await (const piece of pieces(await get(at))) take(piece);
    return true;
  }

  async function children(at) {
    let isFirst = true;
    const member = () => { text(isFirst ? '{' : ','); isFirst = false; };

    /** The members of an answer, without its braces. */
    async function members(parameters) {
      let held = null;
      for await (const piece of pieces(await get(at, parameters))) {
        if (held) take(held);
        else if (piece[0] !== openBrace) return; // null: they were removed meanwhile
        else member();
        held = held ? piece : piece.subarray(1);
      }
      if (held) take(held.subarray(0, -1));
    }

    async function run(keys) {
      const parameters = { orderBy: '"$key"', startAt: JSON.stringify(keys[0]), endAt: JSON.stringify(keys.at(-1)) };
      if (await sizeOf(hub, at, runBytes, { parameters, signal }) !== null) { await members(parameters); return; }
      if (keys.length > 1) {
        const half = keys.length >> 1;
        await run(keys.slice(0, half));
        await run(keys.slice(half));
        return;
      }
      member();
      text(`${JSON.stringify(keys[0])}:`);
      await place(source.childPath(at, keys[0]));
    }

    for (let after = null; ;) {
      const { keys, leaf } = await source.page(at, { after, limit: namesAtOnce, signal });
      if (isFirst && leaf !== undefined && leaf !== null) { text(JSON.stringify(leaf)); return; } // written over meanwhile
      if (keys.length) await run(keys);
      if (keys.length < namesAtOnce) break;
      after = keys.at(-1);
    }
    if (isFirst) { text('null'); return; }
    const priority = await (await get(source.childPath(at, '.priority'))).text();
    if (priority !== 'null') text(`,".priority":${priority}`);
    text('}');
  }

  return place(path);
}
