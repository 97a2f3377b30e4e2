import assert from 'node:assert/strict';
import test from 'node:test';
import { changedLines, compare, hunks, lineCount, markers, offsetOf } from '../../web/rules/editor.js';

const text = '{\n  "rules": {\n    ".read": "dta.exists()"\n  }\n}';

test('places_andOffsets_leadToEachOther', () => {
  for (let offset = 0; offset <= text.length; offset++) {
    const before = text.slice(0, offset).split('\n'), [line, column] = [before.length, before.at(-1).length + 1];
    assert.equal(offsetOf(text, line, column), offset);
  }
  assert.equal(offsetOf(text, 3, 15), text.indexOf('dta'));
  assert.equal(offsetOf(text, 99, 1), text.length);
  assert.equal(offsetOf(text, 1, 99), 1, 'a column behind the end of its line is its end');
  assert.equal(lineCount(text), 5);
  assert.equal(lineCount(''), 1);
});

test('markers_coverTheWordAtTheirPlace', () => {
  const [mark] = markers(text, [{ line: 3, column: 15, message: "Unknown variable 'dta'.", hint: "did you mean 'data'?" }]);
  assert.deepEqual(mark, { line: 3, before: '    ".read": "', marked: 'dta.exists', kind: 'fault', text: "Unknown variable 'dta'. (did you mean 'data'?)" });
  assert.equal(markers(text, [{ line: 1, column: 2, message: 'x' }])[0].marked, ' ', 'behind the end there is a space to mark');
  assert.equal(markers(text, [{ line: 3, column: 5, message: 'x' }])[0].marked, '".read"');
  assert.equal(markers('"open', [{ line: 1, column: 1, message: 'x' }])[0].marked, '"open');
  assert.deepEqual(markers(text, [{ line: 9, column: 1, message: 'x' }]), [], 'a fault of a text that is longer is not drawn');
  assert.equal(markers('é😀 x', [{ line: 1, column: 5, message: 'x' }])[0].before, 'é😀 ', 'columns are UTF-16 units');
  assert.deepEqual(markers('a\nb', [{ line: 2, column: 1, message: '2' }, { line: 1, column: 1, message: '1' }]).map((mark) => mark.text), ['1', '2']);
  assert.equal(markers('a\r\n', [{ line: 1, column: 2, message: 'x' }])[0].marked, ' ');
});

/** Both texts can be read off a comparison. */
function check(before, after) {
  const lines = compare(before, after);
  assert.equal(lines.filter((line) => line.kind !== 'new').map((line) => line.text).join('\n'), before);
  assert.equal(lines.filter((line) => line.kind !== 'gone').map((line) => line.text).join('\n'), after);
  lines.filter((line) => line.old).forEach((line, at) => assert.equal(line.old, at + 1));
  lines.filter((line) => line.now).forEach((line, at) => assert.equal(line.now, at + 1));
  return lines;
}

test('comparison_showsWhatChanged_andNoMore', () => {
  assert.deepEqual(changedLines(check('a\nb\nc', 'a\nx\nc')), { added: 1, removed: 1 });
  assert.deepEqual(changedLines(check('a\nb\nc', 'a\nc')), { added: 0, removed: 1 });
  assert.deepEqual(changedLines(check('', 'a')), { added: 1, removed: 1 });
  assert.deepEqual(changedLines(check('same', 'same')), { added: 0, removed: 0 });
});

test('comparison_isAsShortAsThatOfAModel_forManyTexts', () => {
  let seed = 7;
  const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n; };
  const common = (a, b) => !a.length || !b.length ? 0 : a[0] === b[0] ? 1 + common(a.slice(1), b.slice(1)) : Math.max(common(a.slice(1), b), common(a, b.slice(1)));
  for (let round = 0; round < 200; round++) {
    const make = () => Array.from({ length: 1 + random(7) }, () => 'abc'[random(3)]);
    const [a, b] = [make(), make()];
    const lines = check(a.join('\n'), b.join('\n'));
    assert.equal(lines.filter((line) => line.kind === 'same').length, common(a, b), `${a} → ${b}`);
  }
});

test('comparison_ofLargeTexts_isStillRight', () => {
  const large = (mark) => Array.from({ length: 5000 }, (_, i) => `${mark}${i}`).join('\n');
  assert.deepEqual(changedLines(check(large('a'), large('b'))), { added: 5000, removed: 5000 });
  const one = large('a');
  assert.deepEqual(changedLines(check(one, one.replace('a2500\n', 'x\n'))), { added: 1, removed: 1 });
});

test('hunks_leaveOutWhatIsFarFromChanges', () => {
  const before = Array.from({ length: 30 }, (_, i) => `${i}`).join('\n');
  const shown = hunks(compare(before, before.replace('15', 'x')), 2);
  assert.deepEqual(shown.map((line) => line.kind), ['skip', 'same', 'same', 'gone', 'new', 'same', 'same', 'skip']);
  assert.equal(shown[0].count, 13);
  assert.deepEqual(hunks(compare(before, before)), []);
});
