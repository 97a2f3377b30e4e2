// Export: a place of any size as one file, from answers that stay below the hub's size limit.

import assert from 'node:assert/strict';
import test from 'node:test';

import { exportPlace } from '../../web/data/transfer.js';
import { compareKeys } from '../../web/client/paths.js';

/** A hub with a tree in export form that gives out `most` bytes in one answer, and refuses more; `asked` are the addresses. */
function hubWith(tree, most) {
  const asked = [];
  const at = (path) => path.split('/').filter(Boolean).reduce((node, key) => node?.[key] ?? null, tree);
  const answer = (body, status = 200) => {
    const bytes = new TextEncoder().encode(body), cut = Math.ceil(bytes.length / 3);
    return new Response(new ReadableStream({
      start(stream) {
        for (let i = 0; i < bytes.length; i += cut) stream.enqueue(bytes.slice(i, i + cut));
        stream.close();
      },
    }), { status });
  };
  return {
    asked,
    placeAddress: (path, parameters) => ({ path, parameters }),
    async fetch({ path, parameters }) {
      asked.push({ path, ...parameters });
      let node = at(path);
      const keys = node && typeof node === 'object' ? Object.keys(node).filter((key) => key !== '.priority').sort(compareKeys) : [];
      if (parameters.shallow) {
        if (!keys.length) return answer(JSON.stringify(node));
        const after = parameters.startAfter && JSON.parse(parameters.startAfter);
        const named = keys.filter((key) => after === undefined || compareKeys(key, after) > 0).slice(0, Number(parameters.limitToFirst));
        return answer(named.length ? `{${named.map((key) => `${JSON.stringify(key)}:true`).join()}}` : 'null');
      }
      if (parameters.orderBy) {
        const [from, to] = [JSON.parse(parameters.startAt), JSON.parse(parameters.endAt)];
        const chosen = keys.filter((key) => compareKeys(key, from) >= 0 && compareKeys(key, to) <= 0);
        node = chosen.length ? Object.fromEntries(chosen.map((key) => [key, node[key]])) : null;
      }
      const text = JSON.stringify(node);
      if (parameters.sizeUpTo) return answer(text.length > Math.min(most, Number(parameters.sizeUpTo)) ? 'null' : String(text.length));
      return text.length > most ? answer('{"error":"too large"}', 400) : answer(text);
    },
  };
}

async function exported(hub, path, limits) {
  const pieces = [];
  const isOneInstant = await exportPlace(hub, path, (piece) => pieces.push(piece), undefined, limits);
  return { text: new TextDecoder().decode(Buffer.concat(pieces)), isOneInstant };
}

const leaf = (i) => ({ '.priority': i, text: `é😀 "${i}" }{` });
const many = (count, prefix = 'k') => Object.fromEntries(Array.from({ length: count }, (_, i) => [`${prefix}${i}`, leaf(i)]));

test('smallPlace_isExportedInOneAnswer', async () => {
  const tree = { a: many(3) }, hub = hubWith(tree, 100000);
  assert.deepEqual(await exported(hub, '/a'), { text: JSON.stringify(tree.a), isOneInstant: true });
  assert.equal(hub.asked.length, 2, 'its size, and the place');
});

test('largePlace_isExportedChildByChild_asItIs', async () => {
  const tree = { a: { '.priority': 'p', ...many(57), deep: { '.priority': 3, ...many(40, 'x'), deeper: many(30, '1') }, 5: 1, '-7': 'two', end: false } };
  for (const [most, runBytes, namesAtOnce] of [[700, 300, 10], [700, 700, 57], [2000, 60, 3], [120, 50, 1000]]) {
    const hub = hubWith(tree, most), { text, isOneInstant } = await exported(hub, '/a', { runBytes, namesAtOnce });
    assert.deepEqual(JSON.parse(text), tree.a, `${most}, ${runBytes}, ${namesAtOnce}`);
    assert.equal(isOneInstant, false);
  }
});

test('placeThatGoesWhileItIsExported_leavesWholeJSON', async () => {
  const tree = { a: many(40) }, hub = hubWith(tree, 500), real = hub.fetch;
  let left = 6;
  hub.fetch = (address) => {
    if ((left -= 1) === 0) tree.a = null;
    return real(address);
  };
  const { text } = await exported(hub, '/a', { runBytes: 300, namesAtOnce: 10 });
  assert.ok(Object.keys(JSON.parse(text)).length > 0);
});
