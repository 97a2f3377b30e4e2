// One row of the tree as an element: key, value, type, number of children. Elements are used again for other rows.

import { element, setText, typeOf } from './dom.js';
import { elide, splitPath } from './paths.js';

export function makeRow() {
  const row = element('div', { class: 'line', role: 'treeitem', tabindex: '-1' },
    element('span', { class: 'twist', 'aria-hidden': 'true' }), element('span', { class: 'key' }), element('span', { class: 'value' }),
    element('span', { class: 'count' }), element('span', { class: 'note' }));
  [row.twist, row.keyPart, row.valuePart, row.countPart, row.notePart] = row.children;
  return row;
}

/** Writes a Row (row-list.js) into its element; touches only what differs. */
export function writeRow(line, row, { selected, focused }) {
  const shown = describe(row);
  setText(line.keyPart, shown.key);
  setText(line.valuePart, shown.value);
  setText(line.countPart, shown.count);
  setText(line.notePart, shown.note);
  setClass(line.valuePart, shown.type ? `value type-${shown.type}` : 'value summary');
  setClass(line, `line${row.kind === 'note' ? ' line-note' : ''}${row.key === null && row.kind === 'child' ? ' line-unknown' : ''}`);
  set(line, 'aria-level', String(row.depth + 1));
  set(line, 'aria-expanded', shown.open === null ? null : String(shown.open));
  set(line, 'aria-selected', selected ? 'true' : null);
  set(line, 'tabindex', focused ? '0' : '-1');
  set(line, 'aria-setsize', row.kind === 'child' ? String(row.siblings) : null);
  set(line, 'aria-posinset', row.kind === 'child' ? String(row.position + 1) : null);
  set(line.valuePart, 'title', shown.type ? `${shown.type === 'string' ? 'text' : shown.type}${shown.editable ? ': click to change' : ''}` : null);
  if (line.depth !== row.depth) { line.depth = row.depth; line.style.setProperty('--level', String(row.depth)); }
}

/** What a row says: { key, value, type, count, note, open (null: nothing below), editable }. */
export function describe(row) {
  const { place, node, single } = row;
  const said = { key: '', value: '', type: '', count: '', note: '', open: null, editable: false };
  if (row.kind === 'note') {
    said.note = place.state === 'loading' ? 'loading' : place.state === 'empty' ? 'nothing here' : refusal(place);
    return said;
  }
  if (row.kind === 'root') {
    said.key = splitPath(row.path).at(-1) ?? '/';
    if (place.state === 'leaf') return leaf(said, place.leaf, place.priority);
    said.open = true;
    said.count = counted(place);
    return said;
  }
  if (row.key === null) { said.key = '…'; return said; }
  said.key = elide(row.key, 120);
  if (place) said.open = true;
  if (node?.isLeaf) return leaf(said, node.value, node.priority);
  if (place?.state === 'children') { said.count = counted(place); }
  if (node) {
    said.open ??= false;
    if (!place) {
      said.value = summary(node);
      said.count = node.count.toLocaleString('en');
    }
    if (node.priority !== null) said.note = `priority ${JSON.stringify(node.priority)}`;
  } else if (single?.kind === 'named') {
    said.open ??= false;
    if (!place) {
      said.value = single.names.length ? `${single.names.join(', ')}${single.more ? ', …' : ''}` : 'a long text';
      said.count = single.more ? `${single.names.length}+` : String(single.names.length || '');
    }
    said.note = 'large';
  } else if (single?.kind === 'gone') {
    said.note = 'removed';
  } else if (single?.kind === 'failed') {
    said.note = 'not readable';
  }
  return said;
}

function leaf(said, value, priority) {
  said.type = typeOf(value);
  said.value = typeof value === 'string' ? JSON.stringify(elide(value, 400)) : String(value);
  if (priority !== null && priority !== undefined) said.note = `priority ${JSON.stringify(priority)}`;
  said.editable = true;
  return said;
}

const counted = (place) => (place.state === 'children' ? place.count.toLocaleString('en') + (place.isCounted ? '' : '+') : '');

const refusal = (place) => (place.refusal?.code === 'permission_denied' ? 'the rules do not let you read here' : `refused: ${place.refusal?.message ?? ''}`);

/** The first few values of a closed node, to recognise it by. */
function summary(node) {
  const parts = [];
  let length = 0;
  for (const child of node.order ?? []) {
    const text = child.isLeaf ? `${child.key}: ${elide(typeof child.value === 'string' ? JSON.stringify(child.value) : String(child.value), 28)}` : child.key;
    length += text.length;
    if (parts.length && (parts.length === 4 || length > 110)) { parts.push('…'); break; }
    parts.push(elide(text, 80));
  }
  return parts.join(', ');
}

function set(target, name, value) {
  if (value === null) { if (target.hasAttribute(name)) target.removeAttribute(name); } else if (target.getAttribute(name) !== value) target.setAttribute(name, value);
}

function setClass(target, name) { if (target.className !== name) target.className = name; }
