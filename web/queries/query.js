// A place and a query on it: conditions, a circle, order, range, limit. Converted to a query of the protocols, to REST parameters, to the
// text of a link, and to code for other clients. Pure.

import { joinPath, normalPath, pathFault, splitPath } from '../client/paths.js';

const orders = { key: '.key', value: '.value', priority: '.priority' };
const bounds = ['equalTo', 'startAt', 'startAfter', 'endAt', 'endBefore'];
/** The operators of conditions, and their texts. */
export const operators = { '==': 'is', '!=': 'is not', '<': '<', '<=': '≤', '>': '>', '>=': '≥', in: 'one of', has: 'has', prefix: 'begins' };

export class Query {
  path = '/';
  /** null (default order), key, value, priority or child. */
  order = null;
  child = '';
  /** { equalTo, startAt, startAfter, endAt, endBefore }: each a JSON value, if present. */
  bounds = {};
  /** { side: 'first' | 'last', count } or null. */
  limit = null;
  /** Conditions, all of which must hold for a child: [[path below it or ".value", operator, value], …]. */
  where = [];
  /** { lat, lng, radius? in metres } or null. Without an order the children are ordered by distance, and a limit selects the nearest. */
  near = null;

  constructor(fields = {}) { Object.assign(this, fields, { path: normalPath(fields.path ?? '/') }); }

  /** The whole place, in the order of its keys. */
  get isPlain() { return this.order === null && this.limit === null && Object.keys(this.bounds).length === 0 && !this.isLive; }
  /** Whether only the hub's own protocols support it. */
  get isLive() { return this.where.length > 0 || this.near !== null; }
  get isByDistance() { return this.near !== null && this.order === null; }

  /** Its fault as a sentence, or null. */
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
    return this.where.map(conditionFault).find(Boolean) ?? this.#nearFault;
  }

  get #nearFault() {
    if (!this.near) return null;
    const { lat, lng, radius } = this.near;
    if (!(Math.abs(lat) <= 90 && Math.abs(lng) <= 180)) return 'A centre is a latitude and a longitude in degrees, such as 37.975, 23.735.';
    if (radius !== undefined && !(radius > 0)) return 'A radius is a number of metres above 0.';
    if (radius === undefined && this.order) return 'An order needs a circle with a radius.';
    if (radius === undefined && !this.limit) return 'Give the circle a radius, or limit it to the nearest.';
    return this.isByDistance && this.limit?.side === 'last' ? 'By distance, only the nearest can be asked for.' : null;
  }

  get index() { return this.order === 'child' ? joinPath(splitPath(this.child)).slice(1) : orders[this.order ?? 'priority']; }

  /** For the realtime protocol (contract §3.1). */
  get wire() {
    const { equalTo, startAt, startAfter, endAt, endBefore } = this.bounds, byKey = this.order === 'key';
    // A listen without a query is shared with others of its place; ordering by key selects the same children with a listen of its own.
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
    const list = [];
    if (this.where.length) list.push(['where', JSON.stringify(this.where)]);
    if (this.near) list.push(['near', this.#circle]);
    if (this.order || !this.isLive) list.push(['orderBy', JSON.stringify(this.order === 'child' ? this.index : `$${this.order ?? 'priority'}`)]);
    for (const name of bounds) if (name in this.bounds) list.push([name, JSON.stringify(this.bounds[name])]);
    if (this.limit && !this.isByDistance) list.push([this.limit.side === 'first' ? 'limitToFirst' : 'limitToLast', String(this.limit.count)]);
    return list;
  }

  /** "37.975,23.735,1000", followed by the number of the nearest. */
  get #circle() {
    const { lat, lng, radius = '' } = this.near, nearest = this.isByDistance && this.limit ? `,${this.limit.count}` : '';
    return `${lat},${lng}${radius !== '' || nearest ? `,${radius}` : ''}${nearest}`;
  }

  /** "/scores?orderBy="points"&limitToLast=3", for links and labels. */
  get text() {
    const list = this.parameters.map(([name, value]) => `${name}=${value.replace(/[%&#]/g, encodeURIComponent)}`);
    return this.path + (list.length ? `?${list.join('&')}` : '');
  }

  /** The query of such a text; unknown parts are ignored. */
  static from(text) {
    const cut = text.indexOf('?');
    if (cut < 0) return new Query({ path: text });
    const query = new Query({ path: text.slice(0, cut) });
    for (const part of text.slice(cut + 1).split('&')) {
      const [name, ...rest] = part.split('=');
      try {
        const text = decodeURIComponent(rest.join('='));
        if (name === 'near') {
          const [lat, lng, radius, nearest] = text.split(',').map((one) => (one.trim() === '' ? undefined : Number(one)));
          query.near = { lat, lng, ...(radius !== undefined && { radius }) };
          if (nearest !== undefined) query.limit = { side: 'first', count: nearest };
          continue;
        }
        const value = JSON.parse(text);
        if (name === 'where' && Array.isArray(value)) query.where = value;
        else if (name === 'orderBy' && typeof value === 'string') {
          query.order = value[0] === '$' ? value.slice(1) : 'child';
          if (query.order === 'child') query.child = value; else if (!(query.order in orders)) query.order = null;
        } else if (bounds.includes(name)) query.bounds[name] = value;
        else if (name === 'limitToFirst' || name === 'limitToLast') query.limit = { side: name === 'limitToFirst' ? 'first' : 'last', count: value };
      } catch { /* no value of JSON */ }
    }
    return query;
  }

  // ---- code for other clients

  /** For the web SDK; `events` as here: added, changed, moved, removed, value, count. For unsupported queries it shows vigla.js instead. */
  sdk(events, base, ns) {
    const lacks = [this.near && 'distances', this.where.length && !this.#isOneEqual && 'such conditions', events.includes('count') && 'counts'].filter(Boolean);
    if (lacks.length) return `// The SDKs know no ${lacks.join(', no ')}. The hub's own client does:\n${this.#client(events, base, ns)}`;
    const parts = [`ref(db, ${JSON.stringify(this.path.slice(1))})`];
    const calls = [];
    if (this.where.length) {
      const [[path, , value]] = this.where;
      calls.push(path === '.value' ? 'orderByValue()' : `orderByChild(${JSON.stringify(path)})`, `equalTo(${JSON.stringify(value)})`);
    } else if (!this.isPlain && this.order) calls.push(this.order === 'child' ? `orderByChild(${JSON.stringify(this.index)})` : `orderBy${this.order[0].toUpperCase()}${this.order.slice(1)}()`);
    for (const name of bounds) if (name in this.bounds) calls.push(`${name}(${JSON.stringify(this.bounds[name])})`);
    if (this.limit) calls.push(`limitTo${this.limit.side === 'first' ? 'First' : 'Last'}(${this.limit.count})`);
    const target = calls.length ? `query(${[...parts, ...calls].join(', ')})` : parts[0];
    const hear = events.map((event) => (event === 'value' ? 'onValue(place, (snapshot) => console.log(snapshot.val()));'
      : `onChild${event[0].toUpperCase()}${event.slice(1)}(place, (snapshot${event === 'removed' ? '' : ', previous'}) => console.log('${event}', snapshot.key, snapshot.val()));`));
    return [`const place = ${target};`, ...hear].join('\n');
  }

  /** Whether it has one equality condition on a child, which the SDKs support. */
  get #isOneEqual() { return this.where.length === 1 && this.where[0][1] === '==' && this.where[0][2] !== null && !this.order; }

  #client(events, base, ns) {
    const query = this.observed ? `, query: ${JSON.stringify(this.observed)}` : '';
    return [`import { Vigla } from '${base}/.console/vigla.js';`, `const hub = new Vigla('${base}', { ns: ${JSON.stringify(ns)} });`,
      `hub.observe(${JSON.stringify(this.path)}, { events: ${JSON.stringify(events)}${query} }, console.log);`].join('\n');
  }

  /** For the observe protocol and its clients; undefined for the whole place. */
  get observed() {
    if (this.isPlain) return undefined;
    const near = this.near && { ...this.near, ...(this.isByDistance && this.limit && { limit: this.limit.count }) };
    return Object.fromEntries(this.parameters.map(([name, value]) => [name, name === 'near' ? near : JSON.parse(value)]));
  }

  /** A text to send to /.observe. */
  observe(events) { return JSON.stringify({ id: 1, op: 'observe', path: this.path, events, query: this.observed }); }

  curl(base, ns, events, { signs }) {
    const isCount = events.join() === 'count', more = isCount ? [['count', 'true']] : [];
    const query = [['ns', ns], ...this.parameters, ...more].map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
    const address = `${base}/${splitPath(this.path).map(encodeURIComponent).join('/')}.json?${query}`;
    return `curl ${isCount ? '-s' : `-N -H 'Accept: text/event-stream'`} ${signs ? `-H "Authorization: Bearer $TOKEN" ` : ''}${quoted(address)}`;
  }

  command(base, ns, events, { signs }) {
    if ('startAfter' in this.bounds || 'endBefore' in this.bounds) return 'The command line takes no “after” or “before”: use curl.';
    const options = { equalTo: 'equal', startAt: 'start', endAt: 'end', limitToFirst: 'limit', limitToLast: 'last' };
    const query = this.parameters.map(([name, value]) => {
      if (name === 'where') return this.where.map(([path, operator, wanted]) => ` --where ${quoted(`${path} ${operator} ${JSON.stringify(wanted)}`)}`).join('');
      if (name === 'near') return ` --near ${value}`;
      return name === 'orderBy' ? ` --order-by ${this.order === 'child' ? quoted(this.index) : this.order ?? 'priority'}` : ` --${options[name]} ${quoted(value)}`;
    }).join('');
    const address = `${base}${this.path === '/' ? '/' : joinPath(splitPath(this.path).map(encodeURIComponent))}?ns=${encodeURIComponent(ns)}`;
    return `${signs ? 'VIGLA_AUTH_FILE=token.txt ' : ''}vigla watch ${quoted(address)} --events ${events.join(',')}${query}`;
  }
}

/** Where the hub starts to look for the children of a query (`explain` of the observe protocol), in words. */
export function explained(path, { start, index, declared, looks, children }) {
  const number = (count) => count.toLocaleString('en');
  // A client that may not read the whole place gets the rules' declarations, but no data.
  if (start === undefined) return `${declared === false ? `The rules have no line at ${path} for this query` : 'The rules have a line for this query, or it needs none'}. From where it starts is told to those who may read the whole place.`;
  if (start === 'place') return 'Nothing is looked for: this is the whole place.';
  if (start === 'children') return `Looks at every child${children === undefined ? '' : `, ${number(children)} of them`}: nothing narrows it down.`;
  const from = { index: `Begins with the index “${index}”, by a condition`, order: `Goes along the order “${index}”`, points: 'Begins with the positions of the children' }[start] ?? `Begins with ${start}`;
  const seen = looks === undefined ? '' : `, and looks at ${number(looks)}${children === undefined ? '' : ` of ${number(children)}`} children`;
  return `${from}${seen}.${declared === false ? ` The rules lack ".indexOn": "${index}" at ${path}, so it is sorted for those who ask.` : ''}`;
}

/** The fault of a condition as a sentence, or null. */
function conditionFault(condition) {
  const [path, operator, value] = Array.isArray(condition) && condition.length === 3 ? condition : [];
  if (typeof path !== 'string' || !splitPath(path).length) return 'Name the child of a condition, or “.value”.';
  if (path !== '.value' && pathFault(path)) return pathFault(path);
  if (!(operator in operators)) return `There is no operator “${operator}”.`;
  if (operator === 'in' ? !Array.isArray(value) || !value.length : value !== null && typeof value === 'object') return operator === 'in' ? '“One of” needs a list of values.' : 'A condition compares values, not objects.';
  return ['has', 'prefix'].includes(operator) && (typeof value !== 'string' || !value) ? `“${operators[operator]}” needs a text.` : null;
}

/** Quotes a text for a shell. */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

const rank = (value) => (value === null || value === undefined ? 0 : value === false ? 1 : value === true ? 2 : typeof value === 'number' ? 3 : typeof value === 'string' ? 4 : 5);

/** The order of values (contract §3.2): nothing, false, true, numbers, texts, objects. */
export function compareValues(a, b) {
  const x = rank(a), y = rank(b);
  if (x !== y) return x - y;
  if (x === 3 || x === 4) return a < b ? -1 : a > b ? 1 : 0;
  return 0;
}
