import assert from 'node:assert/strict';
import test from 'node:test';
import { FrameJoiner, cut, segmentLength } from '../../web/client/frames.js';
import { backoff } from '../../web/vigla.js';

test('frames_stayWhole_upToTheSegmentLength', () => {
  assert.deepEqual(cut('x'.repeat(segmentLength)), ['x'.repeat(segmentLength)]);
  assert.equal(cut('x'.repeat(segmentLength + 1))[0], '2');
});

test('frames_joinToTheSameText_whateverItsLength', () => {
  for (const length of [1, 16383, 16384, 16385, 40000, 16384 * 12]) {
    const text = JSON.stringify({ d: 'é😀'.repeat(length / 3) });
    const frames = cut(text);
    const joiner = new FrameJoiner();
    const whole = frames.map((frame) => joiner.receive(frame));
    assert.equal(whole.at(-1), text);
    assert.ok(whole.slice(0, -1).every((part) => part === null));
    if (frames.length > 1) {
      assert.equal(Number(frames[0]), frames.length - 1);
      for (const frame of frames.slice(1)) {
        assert.ok(frame.length <= segmentLength);
        assert.ok(frame.isWellFormed?.() ?? true, 'a segment ends inside a surrogate pair');
      }
    }
  }
});

test('joiner_ignoresKeepAlives_andGoesOnWithTheNextMessage', () => {
  const joiner = new FrameJoiner();
  assert.equal(joiner.receive('0'), null);
  assert.equal(joiner.receive('{"t":"c"}'), '{"t":"c"}');
  assert.equal(joiner.receive('2'), null);
  assert.equal(joiner.receive('0'), null); // a segment that looks like a keep-alive
  assert.equal(joiner.receive('1'), '01');
  assert.equal(joiner.receive('{}'), '{}');
});

test('backoff_growsWithJitter_andStaysBelowItsCeiling', () => {
  assert.equal(backoff(0, () => 1), 250);
  assert.equal(backoff(0, () => 0), 125);
  assert.equal(backoff(100, () => 1), 15000);
  assert.equal(backoff(100, () => 0), 7500);
  for (let i = 1; i < 12; i++) assert.ok(backoff(i, () => 0.5) >= backoff(i - 1, () => 0.5));
});
