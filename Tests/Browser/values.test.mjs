// Values as typed text, and the description of the value that a write replaces.

import assert from 'node:assert/strict';
import test from 'node:test';

import { summaryOf } from '../../web/data/edits.js';
import { TextFault, kindOf, valueOf } from '../../web/page/json-text.js';

test('kind_isToldFromTheText', () => {
  for (const [text, kind, value] of [['12', 'number', 12], ['-1.5e3', 'number', -1500], ['012', 'text', '012'], ['true', 'yes/no', true], ['True', 'text', 'True'],
    ['{"a": 1}', 'JSON', { a: 1 }], ['[1, 2]', 'JSON', [1, 2]], ['"quoted"', 'JSON', 'quoted'], ['null', 'JSON', null], ['hello', 'text', 'hello'], ['', 'text', '']]) {
    assert.equal(kindOf(text), kind, text);
    assert.deepEqual(valueOf(text, kind), value, text);
  }
  assert.equal(valueOf('12', 'text'), '12');
});

test('value_ofAnotherKind_isRefused', () => {
  for (const [text, kind] of [['hello', 'number'], ['"12"', 'number'], ['1', 'yes/no'], ['{"a": ', 'JSON'], ['{"a.b": 1}', 'JSON']]) {
    assert.throws(() => valueOf(text, kind), TextFault, `${text} as ${kind}`);
  }
});

test('replacedValue_isNamed', () => {
  assert.equal(summaryOf({ value: null }), '');
  assert.equal(summaryOf({ value: 5 }), '5');
  assert.equal(summaryOf({ value: { '.value': 'x', '.priority': 1 } }), '"x"');
  assert.equal(summaryOf({ value: { '.priority': 1, a: 1 } }), '1 child (a)');
  assert.equal(summaryOf({ value: { a: 1, b: 1, c: 1, d: 1, e: 1 } }), '5 children (a, b, c, d, …)');
  assert.match(summaryOf({ large: true }), /8 MB/);
});
