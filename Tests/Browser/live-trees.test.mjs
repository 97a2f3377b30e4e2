import assert from 'node:assert/strict';
import test from 'node:test';
import { LiveTrees } from '../../web/client/live-trees.js';
import { Refusal } from '../../web/client/listens.js';

class FakeRealtime {
  listens = new Map();
  listen(path, handlers) {
    this.listens.set(path, handlers);
    return () => this.listens.delete(path);
  }
}

test('trees_shareOneListen_untilTheLastWatcherLeaves', () => {
  const realtime = new FakeRealtime();
  const trees = new LiveTrees(realtime);
  const first = trees.open('/a/', {}), second = trees.open('a', {});
  assert.equal(first.tree, second.tree);
  assert.deepEqual([...realtime.listens.keys()], ['/a']);
  first.close();
  first.close();
  assert.equal(realtime.listens.size, 1);
  second.close();
  assert.equal(realtime.listens.size, 0);
});

test('tree_isEmptyAndLive_whenTheHubConfirmsWithoutAPush', () => {
  const realtime = new FakeRealtime();
  const states = [];
  const { tree } = new LiveTrees(realtime).open('/a', { state: (t) => states.push(t.state) });
  realtime.listens.get('/a').ready(true);
  assert.ok(tree.model.known && tree.model.root.isEmpty);
  assert.deepEqual(states, ['live']);
});

test('tree_catchesUpExactly_afterAReconnect', () => {
  const realtime = new FakeRealtime();
  const changes = [];
  const { tree } = new LiveTrees(realtime).open('/a', { change: (change) => changes.push(change) });
  const hub = realtime.listens.get('/a');
  hub.push(['a'], 'd', { x: 1, y: 2 });
  hub.ready(false);
  hub.lost();
  assert.equal(tree.state, 'stale');
  hub.push(['a'], 'd', { x: 1, y: 3 });
  hub.ready(false);
  assert.deepEqual(changes.map((change) => [change.initial, [...change.changed].map((node) => node.key)]), [[true, []], [false, ['y']]]);
  hub.lost();
  hub.ready(true); // everything was removed meanwhile
  assert.ok(tree.model.root.isEmpty);
});

test('tree_forgetsItsData_whenItIsRefused', () => {
  const realtime = new FakeRealtime();
  const { tree } = new LiveTrees(realtime).open('/a', {});
  const hub = realtime.listens.get('/a');
  hub.push(['a'], 'd', { x: 1 });
  hub.refused(new Refusal('permission_denied', 'Permission denied'));
  assert.equal(tree.state, 'refused');
  assert.ok(tree.model.root.isEmpty);
});

test('mergesFromAbove_areReRooted', () => {
  const realtime = new FakeRealtime();
  const { tree } = new LiveTrees(realtime).open('/a/b', {});
  const hub = realtime.listens.get('/a/b');
  hub.push(['a', 'b'], 'd', { x: 1 });
  hub.push([], 'm', { 'a/b/y': 2, 'a/c': 3, other: 4 });
  assert.deepEqual(tree.model.root.exported(), { x: 1, y: 2 });
  hub.push(['a'], 'm', { b: { z: 1 } });
  assert.deepEqual(tree.model.root.exported(), { z: 1 });
});
