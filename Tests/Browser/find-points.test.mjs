// Where the Follow tab searches for positions: the results, and a bounded number of requests for a database of any
// size.

import assert from 'node:assert/strict';
import test from 'node:test';
import { countPoints, findPoints } from '../../web/map/find-points.js';
import { Refusal } from '../../web/client/listens.js';

const at = { latitude: 37.9, longitude: 23.7 };

/** A place with many children that are alike. */
class Many { constructor(count, child) { Object.assign(this, { count, child }); } }

function sourceOf(root, { denied = [] } = {}) {
  const source = { requests: 0, read: 0, childPath: (path, key) => `${path === '/' ? '' : path}/${key}` };
  const find = (path) => {
    source.requests += 1;
    if (denied.includes(path)) throw new Refusal('permission_denied', '');
    return path.split('/').filter(Boolean).reduce((node, key) => (node instanceof Many ? node.child : node[key]), root);
  };
  source.isSmall = async (path) => {
    const isSmall = (node) => !(node instanceof Many) && (node === null || typeof node !== 'object' || Object.values(node).every(isSmall));
    return isSmall(find(path));
  };
  source.small = async (path) => find(path);
  source.page = async (path, { limit }) => {
    const node = find(path), keys = node instanceof Many ? Array.from({ length: Math.min(limit, node.count) }, (_, i) => `k${i}`) : Object.keys(node).slice(0, limit);
    source.read += keys.length;
    return { keys };
  };
  return source;
}

test('places_areFound_withTheNumberOfTheirPositions', async () => {
  const source = sourceOf({ follow: { ana: { bo: { current: at, destination: at } } }, one: at, names: { a: 'b' }, north: { a: { latitude: 91, longitude: 0 } }, text: 'latitude' });
  assert.deepEqual(await findPoints(source), { found: [{ path: '/follow', count: 2 }, { path: '/one', count: 1 }], isWhole: true });
});

test('largePlace_isFoundByItsFirstChildren_withoutReadingIt', async () => {
  const source = sourceOf({ follow: new Many(1e6, { bo: { current: at } }), names: new Many(1e6, 'b') });
  const { found, isWhole } = await findPoints(source);
  assert.deepEqual(found, [0, 1, 2].map((i) => ({ path: `/follow/k${i}`, count: 1 })));
  assert.equal(isWhole, false);
  assert.ok(source.requests <= 20 && source.read <= 50, `${source.requests} requests, ${source.read} names`);
});

test('database_ofAnyShape_takesABoundedNumberOfRequests', async () => {
  let deep = new Many(1e6, at);
  for (let level = 0; level < 12; level++) deep = new Many(1e6, deep);
  const source = sourceOf(Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`p${i}`, deep])));
  assert.equal((await findPoints(source)).isWhole, false);
  assert.ok(source.requests <= 151, source.requests);
});

test('whatMayNotBeRead_isLeftOut_unlessItIsTheWhole', async () => {
  const tree = { hidden: { a: at }, shown: { a: at } };
  assert.deepEqual(await findPoints(sourceOf(tree, { denied: ['/hidden'] })), { found: [{ path: '/shown', count: 1 }], isWhole: false });
  await assert.rejects(findPoints(sourceOf(tree, { denied: ['/'] })), { code: 'permission_denied' });
});

test('positions_mayHavePriorities', () => {
  assert.equal(countPoints({ a: { latitude: { '.value': 1, '.priority': 2 }, longitude: 3, '.priority': 4 } }), 1);
});
