// The background of the map: coast lines, and tiles from an address that was typed into the page.

import assert from 'node:assert/strict';
import test from 'node:test';

import * as data from '../../web/map/coast-data.js';
import { coastLines } from '../../web/map/ground.js';
import { distanceMetres, project, unproject } from '../../web/map/camera.js';
import { MapTiles, tilesFault } from '../../web/map/tiles.js';

/** The point of a stretch of coast that is nearest to another one. */
function nearest(at, [x, y, toX, toY]) {
  const length = (toX - x) ** 2 + (toY - y) ** 2;
  const part = length ? Math.max(0, Math.min(1, ((at.x - x) * (toX - x) + (at.y - y) * (toY - y)) / length)) : 0;
  return unproject(x + part * (toX - x), y + part * (toY - y));
}

test('coast_isWhereTheSeaBegins', () => {
  const lines = coastLines(data);
  assert.ok(lines.length > 300 && lines.reduce((sum, { points }) => sum + points.length / 2, 0) > 5000);
  for (const [latitude, longitude] of [[37.94, 23.62], [51.95, 4.1], [-33.86, 151.28], [40.55, -73.95], [-22.99, -43.2], [35.1, 139.8], [64.15, -21.95]]) {
    const at = project(latitude, longitude);
    const near = Math.min(...lines.flatMap(({ points }) => Array.from({ length: points.length / 2 - 1 }, (_, i) => distanceMetres(nearest(at, points.subarray(2 * i, 2 * i + 4)), { latitude, longitude }))));
    assert.ok(near < 40000, `${Math.round(near / 1000)} km from ${latitude}, ${longitude}`);
  }
  for (const { points, west, east, north, south } of lines) {
    assert.ok(west >= 0 && east <= 1 && north >= 0 && south <= 1);
    for (let i = 0; i < points.length; i += 2) assert.ok(points[i] >= west - 1e-6 && points[i] <= east + 1e-6 && points[i + 1] >= north - 1e-6 && points[i + 1] <= south + 1e-6);
  }
});

test('tiles_needAnAddressWithTheirNumbers', () => {
  assert.equal(tilesFault(''), null);
  assert.equal(tilesFault('http://127.0.0.1/{z}/{x}/{y}.png'), null);
  assert.match(tilesFault('ftp://127.0.0.1/{z}/{x}/{y}.png'), /http/);
  assert.match(tilesFault('javascript:{z}{x}{y}'), /http/);
  assert.match(tilesFault('http://127.0.0.1/{z}.png'), /\{x\}, \{y\}/);
});

function storage(content = {}) {
  return { content, getItem: (key) => content[key] ?? null, setItem: (key, value) => { content[key] = value; }, removeItem: (key) => { delete content[key]; } };
}

test('tiles_areNobodys_untilAnAddressIsTyped_andStayInThisBrowser', () => {
  const kept = storage(), first = new MapTiles(() => {}, kept);
  assert.equal(first.draw(null, {}), false, 'nothing is drawn or asked for');
  assert.throws(() => first.set('nowhere'), /http/);
  first.set('http://127.0.0.1/{z}/{x}/{y}.png', 'mine');
  const second = new MapTiles(() => {}, kept);
  assert.deepEqual([second.address, second.credit], ['http://127.0.0.1/{z}/{x}/{y}.png', 'mine']);
  second.set('');
  assert.deepEqual(kept.content, {});
  for (const wrong of ['no JSON', '5', '{"address":"javascript:{z}{x}{y}"}']) assert.equal(new MapTiles(() => {}, storage({ 'vigla.map-tiles': wrong })).address, '');
  assert.equal(new MapTiles(() => {}, { getItem() { throw new Error('not allowed'); } }).address, '');
});

test('tiles_coverWhatIsSeen_eachAskedForOnce', () => {
  const asked = [];
  globalThis.Image = class { set src(address) { asked.push(address); this.address = address; } };
  try {
    const drawn = [], pen = { drawImage: (image, ...at) => drawn.push([image.address, ...at.map(Math.round)]) };
    const tiles = new MapTiles(() => {}, storage());
    tiles.set('http://127.0.0.1/{z}/{x}/{y}');
    const camera = { scale: 1024, view: project(0, 0), width: 300, height: 200 };
    assert.equal(tiles.draw(pen, camera), true);
    tiles.draw(pen, camera);
    assert.deepEqual(asked.sort(), [[1, 1], [1, 2], [2, 1], [2, 2]].map(([x, y]) => `http://127.0.0.1/2/${x}/${y}`));
    assert.deepEqual(drawn, [], 'none is there yet');
    for (const image of tiles.images) image.onload();
    tiles.draw(pen, camera);
    assert.deepEqual(drawn.map(([, left, top]) => [left, top]).sort(), [[-106, -156], [-106, 100], [150, -156], [150, 100]].sort());
    drawn.length = 0;
    tiles.draw(pen, { ...camera, scale: 2048, view: project(5, 5) });
    assert.equal(drawn.length, asked.length - 4, 'coarser ones stand in for those that are on their way');
    tiles.draw(pen, { ...camera, scale: 2 ** 40, view: project(5, 5) });
    assert.ok(asked.every((address) => Number(address.split('/')[3]) <= 19));
  } finally {
    delete globalThis.Image;
  }
});
