import assert from 'node:assert/strict';
import test from 'node:test';
import { TreeModel, isNothing, wireAt } from '../../web/client/tree-model.js';
import { Change } from '../../web/client/tree-node.js';
import { compareKeys } from '../../web/client/paths.js';

const paths = (nodes) => [...nodes].map((node) => node.path.join('/')).sort();

function known(wire) {
  const model = new TreeModel();
  model.put([], wire);
  return model;
}

test('snapshot_isInitial_onlyTheFirstTime', () => {
  const model = new TreeModel();
  assert.equal(model.put([], { a: 1 }).initial, true);
  const again = model.put([], { a: 1 });
  assert.equal(again.initial, false);
  assert.ok(again.isEmpty);
});

test('put_reportsExactlyTheChangedLeaves_whenASnapshotDiffers', () => {
  const model = known({ a: { x: 1, y: 2 }, b: true, c: 'gone' });
  const kept = model.find(['a']);
  const change = model.put([], { a: { x: 1, y: 3 }, b: true, d: { e: 1 } });
  assert.deepEqual(paths(change.changed), ['a/y']);
  assert.deepEqual(paths(change.added), ['d']);
  assert.deepEqual(paths(change.removed), ['c']);
  assert.deepEqual(paths(change.structure), ['']);
  assert.equal(model.find(['a']), kept);
});

test('put_prunesEmptyAncestors_whenTheLastChildIsNulled', () => {
  const model = known({ a: { b: { c: 1 } }, z: 1 });
  const change = model.put(['a', 'b', 'c'], null);
  assert.deepEqual(model.root.exported(), { z: 1 });
  assert.ok(paths(change.removed).includes('a'));
  assert.ok(model.put(['a', 'b', 'c'], null).isEmpty);
  assert.ok(known({ a: 1 }).put(['a', 'b', 'c'], null).isEmpty, 'a null below a leaf changes nothing');
});

test('put_treatsEmptyObjectsAndArraysAsNothing_recursively', () => {
  assert.ok(isNothing({ a: { b: [] }, c: null }));
  assert.ok(!isNothing({ a: { b: [false] } }));
  assert.deepEqual(known({ a: { b: [null, {}] }, c: [7, null, 8] }).root.exported(), { c: { 0: 7, 2: 8 } });
  const model = known({ a: 1 });
  model.put(['a'], {});
  assert.ok(model.root.isEmpty);
});

test('put_turnsLeavesIntoObjectsAndBack', () => {
  const model = known({ a: 1 });
  model.put(['a', 'b', 'c'], 2);
  assert.deepEqual(model.root.exported(), { a: { b: { c: 2 } } });
  model.put(['a'], 'leaf');
  assert.deepEqual(model.root.exported(), { a: 'leaf' });
  model.put([], 5);
  assert.equal(model.root.exported(), 5);
});

test('merge_takesDeepKeys_andNullsRemove', () => {
  const model = known({ a: { b: 1, c: 2 }, d: 3 });
  const change = model.merge(['a'], { 'x/y': 9, b: null });
  assert.deepEqual(model.root.exported(), { a: { c: 2, x: { y: 9 } }, d: 3 });
  assert.deepEqual(paths(change.added), ['a/x']);
  assert.deepEqual(paths(change.removed), ['a/b']);
});

test('priorities_areReadKeptAndCleared_asContract4', () => {
  const model = known({ a: { '.value': 5, '.priority': 1 }, b: { '.priority': 'high', x: 1 } });
  assert.equal(model.find(['a']).value, 5);
  assert.equal(model.find(['b']).priority, 'high');
  model.put(['b', 'y'], 2);
  assert.equal(model.find(['b']).priority, 'high');
  assert.deepEqual(paths(model.put(['a', '.priority'], 7).changed), ['a']);
  model.put(['b'], { x: 1 });
  assert.equal(model.find(['b']).priority, null);
  assert.ok(model.put(['nowhere', '.priority'], 7).isEmpty);
  assert.deepEqual(model.root.exported(), { a: { '.value': 5, '.priority': 7 }, b: { x: 1 } });
});

test('children_stayInKeyOrder_howeverTheyArrive', () => {
  const model = known(Object.fromEntries(['b', '10', '2', 'a'].map((key) => [key, 1])));
  for (const key of ['01', '-5', '-Nx', '2147483648', 'aa', '1']) model.put([key], 1);
  assert.deepEqual(model.root.order.map((node) => node.key), ['-5', '1', '01', '2', '10', '-Nx', '2147483648', 'a', 'aa', 'b']);
});

test('names_ofObjectPrototypes_areOrdinaryKeys', () => {
  const model = known(JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}'));
  model.put(['toString', 'hasOwnProperty'], 3);
  assert.equal(JSON.stringify(model.root.exported()), '{"__proto__":{"x":1},"constructor":2,"toString":{"hasOwnProperty":3}}');
  assert.equal(wireAt({ a: 1 }, ['constructor']), null);
});

test('model_equalsANaiveTree_afterRandomWrites', () => {
  let seed = 12345;
  const random = (n) => { seed = (seed * 1103515245 + 12345) & 0x7fffffff; return Math.floor((seed / 0x7fffffff) * n) % n; };
  const keys = ['a', 'b', 'c', '1', '2', '10', '-K'];
  const value = (depth) => {
    const kind = random(depth > 2 ? 3 : 6);
    if (kind === 0) return null;
    if (kind === 1) return random(5);
    if (kind === 2) return random(2) ? 'text' : true;
    return Object.fromEntries(Array.from({ length: random(4) }, () => [keys[random(keys.length)], value(depth + 1)]));
  };
  const clean = (wire) => {
    if (wire === null || typeof wire !== 'object') return wire;
    const entries = Object.entries(wire).map(([key, below]) => [key, clean(below)]).filter(([, below]) => below !== null);
    return entries.length ? Object.fromEntries(entries) : null;
  };
  const put = (tree, path, wire) => {
    if (!path.length) return clean(wire);
    const copy = tree !== null && typeof tree === 'object' ? { ...tree } : {};
    const below = put(copy[path[0]] ?? null, path.slice(1), wire);
    if (below === null && (tree === null || typeof tree !== 'object')) return tree;
    if (below === null) delete copy[path[0]]; else copy[path[0]] = below;
    return Object.keys(copy).length ? copy : null;
  };
  const leaves = (tree, at = '', into = new Map()) => {
    if (tree !== null && typeof tree === 'object') for (const key of Object.keys(tree)) leaves(tree[key], `${at}/${key}`, into);
    else if (tree !== null) into.set(at, tree);
    return into;
  };
  const inOrder = (node) => (node.order ?? []).every((child, i, all) => !child.gone && (i === 0 || compareKeys(all[i - 1].key, child.key) < 0) && child.parent === node && node.children.get(child.key) === child && !child.isEmpty && inOrder(child));

  for (let round = 0; round < 60; round++) {
    const model = known(null);
    let naive = null;
    for (let step = 0; step < 60; step++) {
      const path = Array.from({ length: random(4) }, () => keys[random(keys.length)]);
      const wire = value(path.length);
      const before = leaves(naive);
      naive = put(naive, path, wire);
      const change = model.put(path, wire, new Change());
      assert.deepEqual(model.root.exported(), naive);
      assert.ok(inOrder(model.root));
      // The reported changes cover exactly the leaves that differ.
      const after = leaves(naive);
      const covered = (place) => [...change.added].some((node) => `${place}/`.startsWith(`/${node.path.join('/')}/`)) || [...change.changed].some((node) => (node.path.length ? '/' + node.path.join('/') : '') === place);
      for (const [place, now] of after) if (before.get(place) !== now) assert.ok(covered(place), `${place} changed silently`);
      for (const node of change.changed) {
        const place = node.path.length ? '/' + node.path.join('/') : '';
        assert.notEqual(before.get(place), after.get(place), `${place} reported without a difference`);
      }
    }
  }
});
