// Parses typed JSON for the hub, and reports faults with text and position. Pure.
// (JSON.parse words its errors differently in every browser, gives no reliable position, and accepts doubled keys.)

import { keyFault, pathFault, splitPath } from '../client/paths.js';

/** A fault in the text: `offset` in UTF-16 units, `line` and `column` from 1. */
export class TextFault extends Error {
  constructor(message, text, offset) {
    super(message);
    this.offset = offset;
    const before = text.slice(0, offset);
    this.line = before.split('\n').length;
    this.column = offset - (before.lastIndexOf('\n') + 1) + 1;
  }
}

/**
 * Parses `text` as a value that the hub accepts (contract §4.1, §4.2), for one operation: "set", "push" or "update"
 * (an object whose keys may be paths). Returns { value, warnings }; throws TextFault.
 */
export function readValue(text, operation = 'set') {
  const reader = new Reader(text);
  const value = reader.document(operation === 'update');
  return { value, warnings: reader.warnings };
}

class Reader {
  warnings = [];
  #text;
  #at = 0;

  constructor(text) { this.#text = text; }

  document(update) {
    this.#space();
    if (this.#at === this.#text.length) this.#fail(update ? 'Type a JSON object, for example {"name": "Ana"}.' : 'Type a JSON value, for example {"name": "Ana"}, "text", 42, true.');
    const start = this.#at;
    const value = this.#value(0, update);
    this.#space();
    if (this.#at < this.#text.length) this.#fail('There is something behind the end of the value.');
    if (update) {
      if (value === null || typeof value !== 'object' || Array.isArray(value)) this.#fail('An update needs an object: {"path": value, …}.', start);
      this.#checkPaths(value, start);
    }
    return value;
  }

  #checkPaths(object, offset) {
    const places = Object.keys(object).map((key) => splitPath(key).join('/')).sort();
    const known = new Set(places);
    if (known.size < places.length) this.#fail('Two keys of this update name the same place.', offset);
    for (const place of places) {
      const parts = place.split('/');
      for (let i = 1; i < parts.length; i++) {
        const above = parts.slice(0, i).join('/');
        if (known.has(above)) this.#fail(`“${above}” lies above “${place}”: one update cannot write both.`, offset);
      }
    }
  }

  #fail(message, offset = this.#at) { throw new TextFault(message, this.#text, offset); }

  #space() { while (/[ \t\r\n]/.test(this.#text[this.#at] ?? '')) this.#at += 1; }

  #value(depth, pathKeys = false) {
    if (depth > 32) this.#fail('The value is more than 32 levels deep.');
    const first = this.#text[this.#at];
    if (first === undefined) this.#fail('The value is not finished.');
    if (first === '{') return this.#object(depth, pathKeys);
    if (first === '[') return this.#array(depth);
    if (first === '"') return this.#string();
    if (first === '-' || (first >= '0' && first <= '9')) return this.#number();
    for (const [word, value] of [['true', true], ['false', false], ['null', null]]) {
      if (this.#text.startsWith(word, this.#at)) { this.#at += word.length; return value; }
    }
    if (first === "'") this.#fail('Text needs double quotes: "…".');
    if (first === ',') this.#fail('A value is missing before this comma.');
    if (first === '}' || first === ']') this.#fail('A value is missing here. A comma before a closing bracket is not allowed.');
    return this.#fail(/\p{L}|_/u.test(first) ? 'Text needs double quotes: "…". The only bare words are true, false and null.' : `“${first}” cannot start a value.`);
  }

  #object(depth, pathKeys) {
    const start = this.#at++;
    const object = {};
    const seen = new Set();
    this.#space();
    if (this.#text[this.#at] === '}') { this.#at += 1; return object; }
    for (;;) {
      this.#space();
      const keyAt = this.#at;
      if (this.#text[keyAt] === undefined) this.#fail('The object opened here is not closed.', start);
      if (this.#text[keyAt] === '}') this.#fail('A comma before a closing brace is not allowed.');
      if (this.#text[keyAt] !== '"') this.#fail('A key in double quotes belongs here.');
      const key = this.#string();
      const fault = this.#keyFault(key, pathKeys);
      if (fault) this.#fail(fault, keyAt);
      if (seen.has(key)) this.#fail(`The key “${key}” appears twice.`, keyAt);
      seen.add(key);
      this.#space();
      if (this.#text[this.#at] !== ':') this.#fail('A colon belongs between key and value.');
      this.#at += 1;
      this.#space();
      const valueAt = this.#at;
      const value = this.#value(depth + 1);
      if (key === '.priority' && (typeof value === 'boolean' || (value !== null && typeof value === 'object' && !('.sv' in value)))) {
        this.#fail('A priority is a number, a text or null.', valueAt);
      }
      Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
      this.#space();
      const next = this.#text[this.#at];
      if (next === '}') { this.#at += 1; return object; }
      if (next === undefined) this.#fail('The object opened here is not closed.', start);
      if (next !== ',') this.#fail('A comma or } belongs here.');
      this.#at += 1;
    }
  }

  #keyFault(key, pathKeys) {
    if (pathKeys) return splitPath(key).length === 0 ? 'A key of an update names a place; this one is empty.' : pathFault(key, { priority: true });
    return ['.priority', '.value', '.sv'].includes(key) ? null : keyFault(key);
  }

  #array(depth) {
    const start = this.#at++;
    const array = [];
    this.#space();
    if (this.#text[this.#at] === ']') { this.#at += 1; return array; }
    for (;;) {
      this.#space();
      if (this.#text[this.#at] === undefined) this.#fail('The array opened here is not closed.', start);
      array.push(this.#value(depth + 1));
      this.#space();
      const next = this.#text[this.#at];
      if (next === ']') { this.#at += 1; return array; }
      if (next === undefined) this.#fail('The array opened here is not closed.', start);
      if (next !== ',') this.#fail('A comma or ] belongs here.');
      this.#at += 1;
    }
  }

  #string() {
    const start = this.#at++;
    for (;;) {
      const unit = this.#text[this.#at];
      if (unit === undefined || unit === '\n') this.#fail('The text opened here is not closed.', start);
      if (unit < ' ') this.#fail('A control character must be written as an escape, such as \\t.');
      if (unit === '"') break;
      if (unit === '\\') {
        const escape = this.#text[this.#at + 1] ?? '';
        if (escape === 'u' ? !/^[0-9a-fA-F]{4}$/.test(this.#text.slice(this.#at + 2, this.#at + 6)) : !'"\\/bfnrt'.includes(escape) || !escape) {
          this.#fail('This escape does not exist. Write \\\\ for a backslash.');
        }
        this.#at += 1;
      }
      this.#at += 1;
    }
    this.#at += 1;
    return JSON.parse(this.#text.slice(start, this.#at));
  }

  #number() {
    const start = this.#at;
    const match = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/.exec(this.#text.slice(start, start + 400));
    if (!match) this.#fail('This is not a JSON number.');
    this.#at += match[0].length;
    if (/[0-9.]/.test(this.#text[this.#at] ?? '')) this.#fail('This is not a JSON number (no leading zeros, digits on both sides of the point).', start);
    const value = Number(match[0]);
    if (!Number.isFinite(value)) this.#fail('This number is too large.', start);
    if (!match[2] && !match[3] && !Number.isSafeInteger(value)) this.warnings.push(`${match[0]} is beyond 2^53: a browser ${`${value}` === match[0] ? 'cannot tell it from its neighbours' : `sends it as ${value}`}.`);
    return value;
  }
}

// ---- Typed texts as values. Pure.

/** The kind of value that a text suggests when none was chosen: 12 a number, true a truth value, {…} JSON, else a text. */
export function kindOf(text) {
  const trimmed = text.trim();
  if (trimmed === 'true' || trimmed === 'false') return 'yes/no';
  if (/^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(trimmed)) return 'number';
  if (/^([{["]|null$)/.test(trimmed)) return 'JSON';
  return 'text';
}

/** The value of a text for a kind; throws TextFault. */
export function valueOf(text, kind) {
  if (kind === 'text') return text;
  const { value } = readValue(text, 'set');
  if (kind === 'number' && typeof value !== 'number') throw new TextFault('This is not a number.', text, 0);
  if (kind === 'yes/no' && typeof value !== 'boolean') throw new TextFault('This is neither true nor false.', text, 0);
  return value;
}
