import assert from 'node:assert/strict';
import test from 'node:test';
import { compareKeys, elide, joinPath, keyFault, normalPath, pathFault, pushIds, readLink, splitPath, writeLink } from '../../web/client/paths.js';

test('keys_sortIntegersFirstThenByUnit_asContract3.2', () => {
  const sorted = ['-5', '0', '1', '01', '2', '10', '2147483647', '-', '-K', '2147483648', 'a'];
  const shuffled = [...sorted].sort(() => 0.5 - Math.random());
  assert.deepEqual(shuffled.sort(compareKeys), sorted);
  assert.deepEqual(['-2147483649', '-2147483648'].sort(compareKeys), ['-2147483648', '-2147483649']);
  // UTF-16 units: an astral character starts with a surrogate and so sorts before U+FF5E.
  assert.deepEqual(['～', '😀'].sort(compareKeys), ['😀', '～']);
});

test('keys_areRefusedWithAReason_whenTheContractForbidsThem', () => {
  for (const key of ['', 'a.b', 'a$', '#', '[', ']', 'a/b', '\u0001', '\u007f', 'k'.repeat(769), '😀'.repeat(193)]) assert.ok(keyFault(key), JSON.stringify(key));
  for (const key of ['a', ' ', '%', '"', '😀', 'k'.repeat(768), '__proto__', '😀'.repeat(192)]) assert.equal(keyFault(key), null);
  assert.match(pathFault('/a'.repeat(33)), /32/);
  assert.equal(pathFault('/a'.repeat(32)), null);
  assert.equal(pathFault('/a/.priority', { priority: true }), null);
  assert.ok(pathFault('/.priority/a', { priority: true }));
});

test('paths_collapseSlashes_whenSplitAndJoined', () => {
  assert.deepEqual(splitPath('//a///b/'), ['a', 'b']);
  assert.equal(joinPath([]), '/');
  assert.equal(normalPath('a//b'), '/a/b');
});

test('elide_keepsSurrogatePairsWhole_whenItCuts', () => {
  assert.equal(elide('ab😀cd', 4), 'ab…');
  assert.equal(elide('abcd', 4), 'abcd');
});

test('pushIds_sortByTime_alsoWithinOneMillisecond', () => {
  const next = pushIds((count) => Array(count).fill(63));
  const ids = [next(1700000000000), next(1700000000001), next(1700000000001)];
  assert.equal(ids[0].length, 20);
  assert.ok(ids[0] < ids[1]);
  const counting = pushIds((count) => Array(count).fill(0));
  const many = Array.from({ length: 200 }, () => counting(1700000000000));
  assert.deepEqual([...many].sort(), many);
  assert.equal(new Set(many).size, 200);
});

test('link_roundTrips_andNeverHoldsAToken', () => {
  const tabs = ['data', 'queries', 'follow'];
  const state = { host: '', ns: 'default', path: '/users-follow/a b&c', tab: 'follow', points: '/p', events: '/timeline/ana', news: '', observe: ['/x', '/y#'] };
  const link = writeLink({ ...state, token: 'secret' });
  assert.deepEqual(readLink(link, tabs), state);
  assert.ok(!link.includes('secret'));
  assert.deepEqual(readLink('', tabs), { host: '', ns: 'default', path: '/', tab: 'data', points: '', events: '', news: '', observe: [] });
  const former = readLink('#ns=default&path=/users-follow&view=map&events=/timeline/ana', tabs);
  assert.deepEqual([former.tab, former.points, former.events], ['follow', '/users-follow', '/timeline/ana']);
  assert.equal(readLink('#tab=nonsense', tabs).tab, 'data');
});
