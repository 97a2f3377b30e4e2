// The windows of the Data tab: names of children, blocks of them, and scrolling through the rows.

import assert from 'node:assert/strict';
import test from 'node:test';

import { BlockList, blockSize } from '../../web/data/block-list.js';
import { NameReader, nameOf, prefixRanges } from '../../web/client/place-names.js';
import { compareKeys } from '../../web/client/paths.js';
import { ScrollMap, tallestPixels } from '../../web/data/tree-scroll.js';

test('names_areRead_howeverTheAnswerIsCut', () => {
  const keys = ['a', 'x":true,', 'y\\', '":true,"', 'é😀', '\\"', '__proto__', 'b'];
  const text = `{${keys.map((key) => `${JSON.stringify(key)}:true`).join(',')}}`;
  for (let size = 1; size <= text.length; size++) {
    const reader = new NameReader(), found = [];
    for (let at = 0; at < text.length; at += size) reader.feed(text.slice(at, at + size), (raw) => found.push(nameOf(raw)));
    reader.end((raw) => found.push(nameOf(raw)));
    assert.deepEqual(found, keys, `pieces of ${size}`);
    assert.equal(reader.leaf, undefined);
  }
});

test('names_ofALeaf_areTheLeaf', () => {
  for (const [text, leaf] of [['null', null], ['5', 5], ['"{\\"a\\":true}"', '{"a":true}'], ['false', false]]) {
    const reader = new NameReader();
    for (const unit of text) reader.feed(unit, () => assert.fail('a name'));
    reader.end(() => assert.fail('a name'));
    assert.equal(reader.leaf, leaf);
  }
});

test('prefixRanges_holdExactlyTheKeysThatBeginSo_inKeyOrder', () => {
  const keys = ['-19', '-12', '-1', '0', '1', '2', '10', '12', '19', '20', '99', '100', '129', '1200', '1999999999', '2147483647', '12345678901', '12a', '1a', '-', '-a', 'a', 'ab', 'abc', 'abé', 'b', ' x'];
  for (const prefix of ['1', '12', '-', '-1', '0', 'a', 'ab', '2147483647', ' ', '12a']) {
    const ranges = prefixRanges(prefix);
    for (let i = 1; i < ranges.length; i++) assert.ok(compareKeys(ranges[i - 1].upper.key, ranges[i].lower.key) < 0, `${prefix}: ranges in order`);
    const inside = keys.filter((key) => ranges.some(({ lower, upper }) => compareKeys(lower.key, key) <= 0 && compareKeys(key, upper.key) <= 0));
    assert.deepEqual(inside, keys.filter((key) => key.startsWith(prefix)), prefix);
  }
});

function listOf(count) {
  const list = new BlockList();
  list.begin();
  for (let i = 0; i < count; i++) list.add(`k${String(i).padStart(7, '0')}`);
  list.end();
  return list;
}

test('blocks_findPositionsAndKeys_andKnowTheirBounds', () => {
  const list = listOf(100050);
  assert.equal(list.count, 100050);
  assert.equal(list.blocks.length, 1001);
  for (const position of [0, 99, 100, 54321, 100049]) {
    const index = list.blockAt(position), key = `k${String(position).padStart(7, '0')}`;
    assert.equal(index, Math.floor(position / blockSize));
    assert.equal(list.blockOf(key), index);
    assert.equal(list.startOf(index), index * blockSize);
  }
  assert.deepEqual(list.query(0), { i: '.key', ep: 'k0000100', ein: false });
  assert.deepEqual(list.query(5), { i: '.key', sp: 'k0000500', sin: true, ep: 'k0000600', ein: false });
  assert.deepEqual(list.query(1000), { i: '.key', sp: 'k0100000', sin: true });
  assert.deepEqual(list.parameters(5), { orderBy: '"$key"', startAt: '"k0000500"', endBefore: '"k0000600"' });
  list.resize(3, 0);
  assert.equal(list.blockAt(300), 4, 'an empty block is not where a child is');
  assert.equal(list.startOf(1000), 99900);
});

test('block_isSplit_intoPartsThatCoverIt', () => {
  const list = listOf(300), keys = Array.from({ length: 100 }, (_, i) => `k${String(100 + i).padStart(7, '0')}`);
  list.split(1, keys, 25);
  assert.deepEqual(list.blocks.map((block) => block.count), [100, 25, 25, 25, 25, 100]);
  assert.deepEqual(list.query(1), { i: '.key', sp: 'k0000100', sin: true, ep: 'k0000125', ein: false });
  assert.deepEqual(list.query(4), { i: '.key', sp: 'k0000175', sin: true, ep: 'k0000200', ein: false });
  assert.equal(list.blocks[2].after, 'k0000124');
  assert.equal(list.count, 300);
});

test('lastBlock_endsAtTheLastKnownName_whileNamesAreStillComing', () => {
  const list = new BlockList();
  list.begin();
  for (let i = 0; i < 150; i++) list.add(`k${1000 + i}`);
  list.cut();
  assert.deepEqual(list.query(1), { i: '.key', sp: 'k1100', sin: true, ep: 'k1149', ein: true });
  list.add('k1150');
  assert.equal(list.blocks.length, 3, 'what may be loaded already grows no more');
  assert.deepEqual(list.query(1), { i: '.key', sp: 'k1100', sin: true, ep: 'k1150', ein: false });
  list.end();
  assert.deepEqual(list.query(2), { i: '.key', sp: 'k1150', sin: true });
});

test('blocksOfSeveralRanges_neverReachOverAnEnd', () => {
  const list = new BlockList();
  for (const { lower, upper } of prefixRanges('1').slice(0, 2)) {
    list.begin(lower, upper);
    for (let key = Number(lower.key); key <= Number(upper.key); key++) list.add(String(key));
    list.end();
  }
  assert.deepEqual(list.query(0), { i: '.key', sp: '1', sin: true, ep: '1', ein: true });
  assert.deepEqual(list.query(1), { i: '.key', sp: '10', sin: true, ep: '19', ein: true });
  assert.equal(list.count, 11);
});

test('scroll_mapsEveryRow_whenTheyAreHigherThanABrowserCan', () => {
  const map = new ScrollMap();
  map.rows = 1000001;
  map.view = 800;
  assert.ok(map.height > tallestPixels && map.box === tallestPixels);
  map.scrolled(map.moveTo(0));
  map.scrolled(100);
  assert.equal(map.top, 100, 'the wheel moves by pixels');
  for (const part of [0.25, 0.5, 0.9]) {
    map.scrolled(Math.round((map.box - map.view) * part));
    assert.ok(Math.abs(map.top / (map.height - map.view) - part) < 1e-6, 'the bar moves in proportion');
    const [first, last] = map.range(0), before = map.top;
    assert.ok(last - first < 40);
    map.scrolled(map.settled);
    assert.equal(map.top, before, 'it rests where it is');
    assert.ok(Math.abs(map.rowTop(first) - map.settled) <= map.rowHeight, 'a row is drawn where the bar is');
  }
  map.scrolled(map.box - map.view);
  assert.equal(map.range(0)[1], 1000000, 'the last row is reached');
  map.scrolled(0);
  assert.equal(map.top, 0);
});

test('scroll_reveals_aRowThatIsNotSeen_andLeavesOneThatIs', () => {
  const map = new ScrollMap();
  map.rows = 1000;
  map.view = 240;
  map.moveTo(map.reveal(500));
  assert.equal(map.top, 501 * 24 - 240);
  assert.equal(map.reveal(495), map.top);
  assert.equal(map.reveal(100), 2400);
});
