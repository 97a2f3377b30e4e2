import assert from 'node:assert/strict';
import test from 'node:test';
import { Readings, byLabel, figure, linePoints, niceTop, parseMetrics, total } from '../../web/health/metrics.js';

const text = `# HELP vigla_connections Connections open now.
# TYPE vigla_connections gauge
vigla_connections 3
# HELP vigla_connections_closed_total Connections ended, by reason.
# TYPE vigla_connections_closed_total counter
vigla_connections_closed_total{reason="peer_closed"} 5
vigla_connections_closed_total{reason="idle"} 0
vigla_connections_closed_total{reason="finished"} 7
vigla_system_commits_total{namespace="a",cause="x\\"y,z\\\\"} 1
vigla_odd NaN
vigla_big 1.5e+06
nonsense
`;

test('metrics_areRead_withLabelsAndHelp', () => {
  const metrics = parseMetrics(text);
  assert.equal(total(metrics, 'vigla_connections'), 3);
  assert.equal(metrics.get('vigla_connections').help, 'Connections open now.');
  assert.equal(metrics.get('vigla_connections').type, 'gauge');
  assert.equal(total(metrics, 'vigla_connections_closed_total'), 12);
  assert.equal(total(metrics, 'vigla_connections_closed_total', { reason: 'idle' }), 0);
  assert.equal(total(metrics, 'vigla_connections_closed_total', { reason: 'none' }), null);
  assert.equal(total(metrics, 'absent'), null);
  assert.deepEqual(metrics.get('vigla_system_commits_total').samples[0].labels, { namespace: 'a', cause: 'x"y,z\\' });
  assert.equal(total(metrics, 'vigla_odd'), null);
  assert.equal(total(metrics, 'vigla_big'), 1500000);
  assert.deepEqual(byLabel(metrics, 'vigla_connections_closed_total', 'reason'), [['finished', 7], ['peer_closed', 5]]);
});

test('rates_areNumbersInASecond_alsoAfterARestart', () => {
  const readings = new Readings(4);
  const at = (seconds, value) => readings.add(seconds * 1000, parseMetrics(`c ${value}\ng ${value}`));
  at(0, 100); at(2, 120); at(3, 120); at(4, 7);
  assert.deepEqual(readings.rate('c').map(({ value }) => value), [10, 0, 7]);
  assert.deepEqual(readings.gauge('g').map(({ value }) => value), [100, 120, 120, 7]);
  at(5, 8);
  assert.equal(readings.list.length, 4);
  assert.deepEqual(readings.rate('c').map(({ value }) => value), [0, 7, 1]);
  assert.deepEqual(readings.rate('absent'), []);
});

test('counter_thatAppears_countsFromItsFirstReading', () => {
  const readings = new Readings();
  readings.add(0, parseMetrics('a 1'));
  readings.add(1000, parseMetrics('a 1\nb{x="y"} 4'));
  assert.deepEqual(readings.rate('b').map(({ value }) => value), [4]);
});

test('quantiles_areThoseOfTheTimeBetweenTwoReadings', () => {
  const readings = new Readings();
  const at = (seconds, ...counts) => readings.add(seconds * 1000, parseMetrics(['0.001', '0.01', '+Inf'].flatMap((le, i) => [
    `t_bucket{kind="a",le="${le}"} ${counts[i]}`, `t_bucket{kind="b",le="${le}"} 0`]).join('\n')));
  at(0, 100, 100, 100); at(1, 150, 250, 250); at(2, 150, 250, 250); at(3, 150, 250, 260);
  const values = (part, labels) => readings.quantile('t', part, labels).map(({ value }) => Number(value.toFixed(5)));
  assert.deepEqual(values(1 / 3), [0.001, 0.01], 'nothing was measured in the second between; more than the last bound is shown as that');
  assert.deepEqual(values(2 / 3), [0.0055, 0.01], 'half way through the second bucket');
  assert.deepEqual(values(1 / 3, { kind: 'a' }), [0.001, 0.01]);
  assert.deepEqual(values(0.5, { kind: 'b' }), []);
  assert.deepEqual(readings.quantile('absent', 0.5), []);
});

test('figures_areShort', () => {
  const shown = [0, 5, 0.5, 0.25, 12.34, 999, 1000, 1234567, 45_600_000_000, -3, null].map((value) => figure(value));
  assert.deepEqual(shown, ['0', '5', '0.5', '0.25', '12.3', '999', '1 k', '1.23 M', '45.6 G', '−3', '–']);
  assert.deepEqual([figure(1500, 'B/s'), figure(5, '/s'), figure(1500, '/s'), figure(0, 'B'), figure(1500, 'ms')], ['1.5 kB/s', '5/s', '1.5 k/s', '0 B', '1.5 s']);
});

test('lines_fillTheirBox', () => {
  assert.equal(linePoints([{ at: 0, value: 0 }, { at: 50, value: 5 }, { at: 100, value: 10 }], 200, 40, 10, 0, 100), '0,40 100,20 200,0');
  assert.equal(linePoints([], 200, 40, 10, 0, 0), '');
  assert.deepEqual([[], [0], [1], [3], [7], [1200]].map(niceTop), [1, 1, 1, 5, 10, 2000]);
});
