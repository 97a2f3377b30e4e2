import assert from 'node:assert/strict';
import test from 'node:test';
import { MapCamera, distanceMetres, metresPerUnit, project, roundStep, scaleLength, stepDecimals, unproject } from '../../web/map/camera.js';
import { MapPoints, labelOf, shownAt } from '../../web/map/points.js';
import { LiveTrees } from '../../web/client/live-trees.js';

/** A live tree at `path` whose pushes the test makes itself; returns [push(path, wire), points]. */
function watched(path) {
  let handlers;
  const trees = new LiveTrees({ listen: (_, given) => { handlers = given; return () => {}; } });
  const points = new MapPoints();
  let now = 0;
  trees.open(path, { change: (change, tree) => points.apply(change, tree, now += 1000) });
  return [(place, wire, kind = 'd') => handlers.push(place.split('/').filter(Boolean), kind, wire), points];
}

const found = (points) => [...points.points.values()].map(({ path, label, kind, latitude, moves }) => [path.join('/'), label, kind, latitude, moves]).sort();

test('points_areFoundDeep_withTheLabelOfTheWalker', () => {
  const [push, points] = watched('/users-follow');
  push('users-follow', { andreas: { danae: { current: { latitude: 37.9, longitude: 23.7 }, destination: { latitude: 38, longitude: 23.8 }, status: 'active' } } });
  assert.deepEqual(found(points), [['users-follow/andreas/danae/current', 'danae', 'fix', 37.9, 0], ['users-follow/andreas/danae/destination', 'danae', 'destination', 38, 0]]);
  const [fix, destination] = [...points.points.values()].sort((a, b) => (a.kind < b.kind ? 1 : -1));
  assert.equal(points.partner(destination), fix);
  assert.equal(labelOf(['current']), 'current');
});

test('points_moveOnceAndKeepATrail_whenBothNumbersComeInOnePush', () => {
  const [push, points] = watched('/f');
  push('f', { a: { current: { latitude: 1, longitude: 1 } } });
  push('f/a/current', { latitude: 2, longitude: 2 });
  push('f', { 'a/current/latitude': 3, 'a/current/longitude': 3 }, 'm');
  const [point] = points.points.values();
  assert.deepEqual([point.latitude, point.moves, point.trail.length], [3, 2, 2]);
  assert.equal(point.movedAt, 3000);
  assert.deepEqual(shownAt(point, 3000 + 5000), point.to);
  assert.deepEqual(shownAt(point, 3000), point.from);
});

test('points_goAndCome_withTheirNodes', () => {
  const [push, points] = watched('/f');
  push('f', null);
  push('f/a/current', { latitude: 1, longitude: 1 });
  push('f/b', { latitude: 5, longitude: 5 });
  assert.equal(points.points.size, 2);
  push('f/a/current/latitude', null);
  assert.deepEqual(found(points).map((point) => point[0]), ['f/b']);
  push('f/a/current/latitude', 7);
  assert.equal(points.points.size, 2);
  push('f/b/latitude', 'north');
  assert.deepEqual(found(points).map((point) => point[0]), ['f/a/current']);
  push('', { f: { c: { latitude: 1, longitude: 1 } }, other: 1 }); // a push from above the listen
  assert.deepEqual(found(points).map((point) => point[0]), ['f/c']);
});

test('projection_returns_andDistancesAreMetres', () => {
  const { x, y } = project(37.977, 23.7695);
  const back = unproject(x, y);
  assert.ok(Math.abs(back.latitude - 37.977) < 1e-9 && Math.abs(back.longitude - 23.7695) < 1e-9);
  const metres = distanceMetres({ latitude: 37.9553, longitude: 23.7021 }, { latitude: 37.9674, longitude: 23.7113 });
  assert.ok(Math.abs(metres - 1569) < 3, `${metres}`);
  const east = project(37.977, 23.7705).x - x;
  assert.ok(Math.abs(east * metresPerUnit(37.977) - 87.8) < 0.5);
});

test('steps_areRound', () => {
  assert.equal(roundStep(0.013), 0.02);
  assert.equal(roundStep(5), 5);
  assert.equal(roundStep(6), 10);
  assert.deepEqual(scaleLength(1400), { metres: 1000, text: '1 km' });
  assert.deepEqual(scaleLength(260), { metres: 200, text: '200 m' });
  assert.equal(stepDecimals(0.02), 2);
  assert.equal(stepDecimals(10), 0);
});

test('camera_fitsOnceAndThenRests_whileThePointsStayInside', () => {
  const camera = new MapCamera();
  const at = (latitude, longitude) => ({ to: project(latitude, longitude) });
  const points = new Map([[1, at(37.96, 23.72)], [2, at(37.98, 23.75)]]);
  camera.resize(800, 600);
  camera.follow(points, true, 0);
  const shown = [...points.values()].map(({ to }) => camera.pixel(to));
  for (const [x, y] of shown) assert.ok(x > 40 && x < 760 && y > 40 && y < 560, `${x} ${y}`);
  const aim = { ...camera.aim };
  points.set(1, at(37.9602, 23.7203));
  assert.equal(camera.follow(points, true, 100), true, 'too soon: the fit is still to come');
  camera.follow(points, false, 1000);
  assert.deepEqual(camera.aim, aim);
  points.set(3, at(38.2, 23.72));
  camera.follow(points, true, 2000);
  assert.notDeepEqual(camera.aim, aim);
  for (let i = 0; i < 300 && camera.glide(1 / 60); i++);
  assert.deepEqual(camera.view, camera.aim);
  const [x, y] = camera.pixel(points.get(3).to);
  assert.ok(x > 0 && x < 800 && y > 0 && y < 600);
});

test('camera_keepsThePixelUnderTheHand_whenItZooms', () => {
  const camera = new MapCamera();
  camera.resize(800, 600);
  camera.goTo(project(37.97, 23.73), 37.97, 1000);
  camera.glide(0, true);
  const place = project(37.971, 23.732);
  const [x, y] = camera.pixel(place);
  camera.zoomBy(1, x, y);
  camera.glide(0, true);
  const [x2, y2] = camera.pixel(place);
  assert.ok(Math.abs(x - x2) < 1e-6 && Math.abs(y - y2) < 1e-6);
});
