import assert from 'node:assert/strict';
import test from 'node:test';
import { TextFault, readValue } from '../../web/page/json-text.js';

function fault(text, operation) {
  try { readValue(text, operation); } catch (error) { assert.ok(error instanceof TextFault, String(error)); return error; }
  return assert.fail(`accepted: ${text}`);
}

test('reader_agreesWithJSONParse_onLegalTexts', () => {
  for (const text of ['1', '-0.5e3', 'true', 'null', '"a\\u00e9\\n\\"😀"', '[]', '[1,[2,{}]]', ' {"a": {"b": [1, 2]}, "c": ""} \n', '{"__proto__":1}']) {
    assert.equal(JSON.stringify(readValue(text).value), JSON.stringify(JSON.parse(text)));
  }
});

test('reader_refusesWhatJSONParseRefuses', () => {
  for (const text of ['', ' ', '{', '{"a"}', '{"a":}', '{"a":1,}', '[1,]', '[1 2]', "{'a':1}", 'tru', 'nul', '01', '1.', '.5', '+1', '1e', '"a', '"\\x"', '"\\u12g4"', '"\t"', '{} {}', 'NaN', '{a:1}', '1e999', '[', '"a\nb"']) {
    if (text !== '1e999') assert.throws(() => JSON.parse(text), `JSON.parse takes ${text}`);
    fault(text);
  }
});

test('reader_tellsLineAndColumn_whereTheFaultIs', () => {
  const { line, column, offset } = fault('{\n  "a": 1,\n  "b": tru\n}');
  assert.deepEqual({ line, column, offset }, { line: 3, column: 8, offset: 19 });
  assert.deepEqual([fault('{"a": 1').line, fault('{"a": 1').column], [1, 1]);
});

test('reader_refusesWhatTheHubWould_withTheKeyNamed', () => {
  assert.match(fault('{"a.b": 1}').message, /a\.b/);
  assert.match(fault('{"a": 1, "a": 2}').message, /twice/);
  assert.match(fault('{".priority": true, "x": 1}').message, /priority/i);
  assert.deepEqual(readValue('{".value": 5, ".priority": "x"}').value, { '.value': 5, '.priority': 'x' });
  assert.deepEqual(readValue('{"at": {".sv": "timestamp"}}').value, { at: { '.sv': 'timestamp' } });
  assert.ok(fault('{"a":'.repeat(40) + '1' + '}'.repeat(40)));
});

test('update_takesPaths_butNotOneAboveAnother', () => {
  assert.deepEqual(readValue('{"a/b": 1, "/c": null, "a/.priority": 2}', 'update').value, { 'a/b': 1, '/c': null, 'a/.priority': 2 });
  assert.match(fault('{"a": 1, "a/b": 2}', 'update').message, /above/);
  assert.match(fault('{"a/b/c": 1, "a": 2, "a-": 3}', 'update').message, /above/);
  assert.match(fault('{"a": 1, "/a/": 2}', 'update').message, /same place/);
  assert.ok(fault('[1]', 'update') && fault('5', 'update') && fault('null', 'update'));
  assert.match(fault('{"a/b": 1}', 'set').message, /“\/”/);
});

test('reader_warns_whenANumberWouldLoseDigits', () => {
  assert.equal(readValue('9007199254740993').warnings.length, 1);
  assert.equal(readValue('9007199254740991').warnings.length, 0);
});
