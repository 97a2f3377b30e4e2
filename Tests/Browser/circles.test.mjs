import assert from 'node:assert/strict';
import test from 'node:test';
import { Circle, removeCircle } from '../../web/queries/query-observer.js';

const near = { lat: 1, lng: 2, radius: 100 };
const soon = () => new Promise((done) => setTimeout(done, 0));

function made(move = async () => {}, events = ['added', 'removed']) {
  const asked = [], settled = [];
  const ask = async (centre) => { asked.push([centre.lat, centre.lng]); await move(centre); };
  const circle = new Circle(near, '/p', events, ask, (one, error) => settled.push([one.near, error?.text ?? null]));
  return { circle, asked, settled };
}

test('circle_countsWhatIsWithin_whereItIsTold', () => {
  const { circle } = made();
  assert.equal(circle.size, null);
  for (const [event, key] of [['added', 'a'], ['added', 'b'], ['changed', 'a'], ['removed', 'a']]) circle.receive({ event, key });
  assert.equal(circle.size, 1);
  circle.receive({ event: 'reset' });
  assert.equal(circle.size, 0);
  const counted = made(undefined, ['count']).circle;
  counted.receive({ event: 'count', count: 7 });
  assert.equal(counted.size, 7);
  const half = made(undefined, ['added']).circle;
  half.receive({ event: 'added', key: 'a' });
  assert.equal(half.size, null, 'without what leaves nobody knows');
});

test('moves_areAskedOneByOne_andTheNewestCounts', async () => {
  let release;
  const { circle, asked, settled } = made(() => new Promise((done) => { release = done; }));
  for (let i = 1; i <= 5; i++) circle.moveTo(i, i);
  assert.deepEqual(circle.near, { lat: 5, lng: 5, radius: 100 }, 'it is drawn where the hand is');
  assert.deepEqual(asked, [[1, 1]]);
  release();
  while (asked.length < 2) await soon();
  assert.deepEqual(asked, [[1, 1], [5, 5]]);
  assert.deepEqual(settled, []);
  release();
  while (!settled.length) await soon();
  assert.deepEqual(settled, [[{ lat: 5, lng: 5, radius: 100 }, null]]);
});

test('refusedMove_leavesItWhereTheHubHasIt', async () => {
  const { circle, settled } = made(async ({ lat }) => { if (lat > 1) throw Object.assign(new Error(), { text: 'no' }); });
  circle.moveTo(0.5, 0.5);
  while (settled.length < 1) await soon();
  circle.moveTo(9, 9);
  while (settled.length < 2) await soon();
  assert.deepEqual(circle.near, { lat: 0.5, lng: 0.5, radius: 100 });
  assert.deepEqual(settled[1], [{ lat: 0.5, lng: 0.5, radius: 100 }, 'no']);
});

test('circleThatEnds_isNotChosenAnyMore', () => {
  const { circle } = made(), other = made().circle;
  const circles = { list: [circle, other], chosen: circle, asked: other };
  removeCircle(circles, circle);
  assert.deepEqual(circles, { list: [other], chosen: null, asked: other });
});
