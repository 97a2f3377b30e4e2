// Which listens a push of the realtime protocol belongs to.

import assert from 'node:assert/strict';
import test from 'node:test';

import { Listens } from '../../web/client/listens.js';

function listens() {
  const got = [];
  const set = new Listens();
  const add = (name, path, query) => set.add(path, { push: (parts, kind, wire) => got.push([name, parts.join('/'), kind, wire]) }, query);
  return { set, got, add };
}

test('push_goesToItsQuery_orToEveryPlaceThatItTouches', () => {
  const { set, got, add } = listens();
  const query = add('query', '/a', { i: '.key', l: 2 });
  add('a', '/a');
  add('below', '/a/b');
  add('other', '/c');
  set.push(['a'], 'd', 1, query.tag);
  assert.deepEqual(got.splice(0).map(([name]) => name), ['query']);
  set.push(['a', 'b', 'c'], 'd', 1, undefined);
  assert.deepEqual(got.splice(0).map(([name]) => name), ['a', 'below']);
  set.push(['a'], 'd', null, 999);
  assert.deepEqual(got, [], 'a tag that has ended');
});

test('snapshot_isKnown_onlyWhenAllOfItHasCome', () => {
  const { set, add } = listens();
  const query = add('query', '/a', { i: '.key' });
  set.push(['a', 'b'], 'd', 1, query.tag);
  assert.equal(query.snapshot, false);
  set.push(['a'], 'm', { b: 1 }, query.tag);
  assert.equal(query.snapshot, false);
  set.push(['a'], 'd', { b: 1 }, query.tag);
  assert.equal(query.snapshot, true);
});

test('cancel_namesTheQuery_orElseThePlace', () => {
  const { set, add } = listens();
  const first = add('first', '/a', { i: '.key', l: 2 });
  add('second', '/a', { i: '.key', l: 3 });
  const place = add('place', '/a');
  assert.deepEqual(set.cancelled('a', [{ l: 2, i: '.key' }]), [first]);
  assert.deepEqual(set.cancelled('/a/', undefined), [place]);
  assert.equal(set.remove(place), true);
  assert.equal(set.remove(place), false);
  assert.deepEqual(set.cancelled('/a', undefined), []);
  assert.equal(set.count, 2);
});
