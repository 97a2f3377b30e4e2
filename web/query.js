// A place and what is asked of it: order, range, limit. The same as a query of the realtime protocol, as parameters of REST, as text of a
// link, and as what one types elsewhere. Pure.

import { joinPath, normalPath, pathFault, splitPath } from './paths.js';

const orders = { key: '.key', value: '.value', priority: '.priority' };
const bounds = ['equalTo', 'startAt', 'startAfter', 'endAt', 'endBefore'];

export class Query {
  path = '/';
  /** null (as it is), key, value, priority or child. */
  order = null;
  child = '';
  /** { equalTo, startAt, startAfter, endAt, endBefore }: each a value of JSON, if it is there. */
  bounds = {};
  /** { side: 'first' | 'last', count } or null. */
  limit = null;

  constructor(fields = {}) { Object.assign(this, fields, { path: normalPath(fields.path ?? '/') }); }

  /** The whole place, in the order of its keys. */
  get isPlain() { return this.order === null && this.limit === null && Object.keys(this.bounds).length === 0; }

  /** What is wrong with it as a sentence, or null. */
  get fault() {
    const fault = pathFault(this.path) ?? (this.order === 'child' ? pathFault(this.child) : null);
    if (fault) return fault;
    if (this.order === 'child' && !splitPath(this.child).length) return 'Name the child to order by.';
    const names = Object.keys(this.bounds);
    if (names.length && this.order === null) return 'A range needs an order.';
    if (names.includes('equalTo') && names.length > 1) return '“Equal to” stands alone.';
    if (this.order === 'key' && names.some((name) => typeof this.bounds[name] !== 'string')) return 'A range of keys is between texts.';
    if (names.some((name) => this.bounds[name] !== null && typeof this.bounds[name] === 'object')) return 'A range is between values, not objects.';
    if (this.limit && !(Number.isInteger(this.limit.count) && this.limit.count > 0)) return 'A limit is a number from 1 on.';
    return null;
  }

  get index() { return this.order === 'child' ? joinPath(splitPath(this.child)).slice(1) : orders[this.order ?? 'priority']; }

  /** For the realtime protocol (contract §3.1). */
  get wire() {
    const { equalTo, startAt, startAfter, endAt, endBefore } = this.bounds, byKey = this.order === 'key';
    // A listen without a query is shared with others of its place; the order by key asks for the same and has its own.
    const query = { i: this.isPlain ? '.key' : this.index };
    const has = (name) => name in this.bounds;
    if (has('equalTo')) Object.assign(query, { sp: equalTo, sin: true, ep: equalTo, ein: true });
    if (has('startAt')) Object.assign(query, { sp: startAt, sin: true });
    if (has('startAfter')) Object.assign(query, { sp: startAfter, sin: false }, byKey ? {} : { sn: '[MAX_NAME]' });
    if (has('endAt')) Object.assign(query, { ep: endAt, ein: true });
    if (has('endBefore')) Object.assign(query, { ep: endBefore, ein: false }, byKey ? {} : { en: '[MIN_NAME]' });
    if (this.limit) Object.assign(query, { l: this.limit.count, vf: this.limit.side === 'first' ? 'l' : 'r' });
    return query;
  }

  /** Parameters of a REST address, in its order: [[name, value], …]. */
  get parameters() {
    if (this.isPlain) return [];
    const list = [['orderBy', JSON.stringify(this.order === 'child' ? this.index : `$${this.order ?? 'priority'}`)]];
    for (const name of bounds) if (name in this.bounds) list.push([name, JSON.stringify(this.bounds[name])]);
    if (this.limit) list.push([this.limit.side === 'first' ? 'limitToFirst' : 'limitToLast', String(this.limit.count)]);
    return list;
  }

  /** "/scores?orderBy="points"&limitToLast=3", for links and labels. */
  get text() {
    const list = this.parameters.map(([name, value]) => `${name}=${value.replace(/[%&#]/g, encodeURIComponent)}`);
    return this.path + (list.length ? `?${list.join('&')}` : '');
  }

  /** The query of such a text; what is not understood is left out. */
  static from(text) {
    const cut = text.indexOf('?');
    if (cut < 0) return new Query({ path: text });
    const query = new Query({ path: text.slice(0, cut) });
    for (const part of text.slice(cut + 1).split('&')) {
      const [name, ...rest] = part.split('=');
      try {
        const value = JSON.parse(decodeURIComponent(rest.join('=')));
        if (name === 'orderBy' && typeof value === 'string') {
          query.order = value[0] === '$' ? value.slice(1) : 'child';
          if (query.order === 'child') query.child = value; else if (!(query.order in orders)) query.order = null;
        } else if (bounds.includes(name)) query.bounds[name] = value;
        else if (name === 'limitToFirst' || name === 'limitToLast') query.limit = { side: name === 'limitToFirst' ? 'first' : 'last', count: value };
      } catch { /* no value of JSON */ }
    }
    return query;
  }

  // ---- the same elsewhere

  /** For the web SDK; `events` as here: added, changed, moved, removed, value. */
  sdk(events) {
    const parts = [`ref(db, ${JSON.stringify(this.path.slice(1))})`];
    const calls = [];
    if (!this.isPlain && this.order) calls.push(this.order === 'child' ? `orderByChild(${JSON.stringify(this.index)})` : `orderBy${this.order[0].toUpperCase()}${this.order.slice(1)}()`);
    for (const name of bounds) if (name in this.bounds) calls.push(`${name}(${JSON.stringify(this.bounds[name])})`);
    if (this.limit) calls.push(`limitTo${this.limit.side === 'first' ? 'First' : 'Last'}(${this.limit.count})`);
    const target = calls.length ? `query(${[...parts, ...calls].join(', ')})` : parts[0];
    const hear = events.map((event) => (event === 'value' ? 'onValue(place, (snapshot) => console.log(snapshot.val()));'
      : `onChild${event[0].toUpperCase()}${event.slice(1)}(place, (snapshot${event === 'removed' ? '' : ', previous'}) => console.log('${event}', snapshot.key, snapshot.val()));`));
    return [`const place = ${target};`, ...hear].join('\n');
  }

  /** For the observe protocol and its clients; undefined for the whole place. */
  get observed() { return this.isPlain ? undefined : Object.fromEntries(this.parameters.map(([name, value]) => [name, JSON.parse(value)])); }

  /** A text to send to /.observe. */
  observe(events) { return JSON.stringify({ id: 1, op: 'observe', path: this.path, events, query: this.observed }); }

  curl(base, ns, { signs }) {
    const query = [['ns', ns], ...this.parameters].map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
    const address = `${base}/${splitPath(this.path).map(encodeURIComponent).join('/')}.json?${query}`;
    return `curl -N -H 'Accept: text/event-stream' ${signs ? `-H "Authorization: Bearer $TOKEN" ` : ''}${quoted(address)}`;
  }

  command(base, ns, events, { signs }) {
    if ('startAfter' in this.bounds || 'endBefore' in this.bounds) return 'The command line takes no “after” or “before”: use curl.';
    const options = { equalTo: 'equal', startAt: 'start', endAt: 'end', limitToFirst: 'limit', limitToLast: 'last' };
    const query = this.parameters.map(([name, value]) => (name === 'orderBy'
      ? ` --order-by ${this.order === 'child' ? quoted(this.index) : this.order ?? 'priority'}` : ` --${options[name]} ${quoted(value)}`)).join('');
    const address = `${base}${this.path === '/' ? '/' : joinPath(splitPath(this.path).map(encodeURIComponent))}?ns=${encodeURIComponent(ns)}`;
    return `${signs ? 'VIGLA_AUTH_FILE=token.txt ' : ''}vigla watch ${quoted(address)} --events ${events.join(',')}${query}`;
  }
}

/** For a shell. */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

const rank = (value) => (value === null || value === undefined ? 0 : value === false ? 1 : value === true ? 2 : typeof value === 'number' ? 3 : typeof value === 'string' ? 4 : 5);

/** The order of values (contract §3.2): nothing, false, true, numbers, texts, objects. */
export function compareValues(a, b) {
  const x = rank(a), y = rank(b);
  if (x !== y) return x - y;
  if (x === 3 || x === 4) return a < b ? -1 : a > b ? 1 : 0;
  return 0;
}
