// Queries in the forms of the realtime protocol, REST, links and other tools, and the events that a window's pushes
// stand for.

import assert from 'node:assert/strict';
import test from 'node:test';

import { latencyOf, placeOf } from '../../web/queries/event-entry.js';
import { Query, compareValues, explained } from '../../web/queries/query.js';
import { wanted } from '../../web/queries/where-rows.js';
import { observeQuery } from '../../web/queries/window-events.js';

const latest = new Query({ path: '/scores/', order: 'child', child: '/by/points', bounds: { startAt: 2, endBefore: 'z' }, limit: { side: 'last', count: 3 } });

test('query_isTheSame_inEveryForm', () => {
  assert.deepEqual(latest.wire, { i: 'by/points', sp: 2, sin: true, ep: 'z', ein: false, en: '[MIN_NAME]', l: 3, vf: 'r' });
  assert.deepEqual(latest.parameters, [['orderBy', '"by/points"'], ['startAt', '2'], ['endBefore', '"z"'], ['limitToLast', '3']]);
  assert.equal(latest.text, '/scores?orderBy="by/points"&startAt=2&endBefore="z"&limitToLast=3');
  assert.ok(latest.sdk(['added']).startsWith('const place = query(ref(db, "scores"), orderByChild("by/points"), startAt(2), endBefore("z"), limitToLast(3));\nonChildAdded(place,'));
  assert.equal(new Query({ path: '/a' }).observe(['added', 'moved']), '{"id":1,"op":"observe","path":"/a","events":["added","moved"]}');
  assert.deepEqual(latest.observed, { orderBy: 'by/points', startAt: 2, endBefore: 'z', limitToLast: 3 });
  assert.deepEqual(new Query({ path: '/a', limit: { side: 'first', count: 1 } }).observed, { orderBy: '$priority', limitToFirst: 1 });
  assert.equal(new Query({ path: '/it\'s' }).command('http://h:1', 'n', ['value'], { signs: false }), "vigla watch 'http://h:1/it'\\''s?ns=n' --events value");
  const five = new Query({ path: '/a', order: 'child', child: 'n', bounds: { equalTo: '5' }, limit: { side: 'last', count: 3 } });
  assert.equal(five.command('http://h:1', 'n', ['added', 'moved'], { signs: false }), "vigla watch 'http://h:1/a?ns=n' --events added,moved --order-by 'n' --equal '\"5\"' --last '3'");
  assert.match(latest.command('http://h:1', 'n', ['added'], { signs: false }), /use curl/);
  assert.ok(latest.curl('http://h:1', 'n', ['added'], { signs: true }).endsWith("'http://h:1/scores.json?ns=n&orderBy=%22by%2Fpoints%22&startAt=2&endBefore=%22z%22&limitToLast=3'"));
});

const open = [['status', '==', 'open'], ['tags', 'has', "o'k"], ['kind', 'in', ['a', 2]]];
const nearby = new Query({ path: '/places', where: open, near: { lat: 37.975, lng: -23.5, radius: 1000 }, limit: { side: 'first', count: 20 } });
const rated = new Query({ path: '/places', near: { lat: 1, lng: 2, radius: 50 }, order: 'child', child: 'rating', bounds: { startAt: 3 }, limit: { side: 'last', count: 5 } });

test('conditionsAndCircles_areTheSame_inEveryForm', () => {
  assert.deepEqual(nearby.observed, { where: open, near: { lat: 37.975, lng: -23.5, radius: 1000, limit: 20 } });
  assert.deepEqual(nearby.parameters, [['where', JSON.stringify(open)], ['near', '37.975,-23.5,1000,20']]);
  assert.equal(nearby.command('http://h:1', 'n', ['added'], { signs: false }),
    "vigla watch 'http://h:1/places?ns=n' --events added --where 'status == \"open\"' --where 'tags has \"o'\\''k\"' --where 'kind in [\"a\",2]' --near 37.975,-23.5,1000,20");
  assert.deepEqual(rated.observed, { near: { lat: 1, lng: 2, radius: 50 }, orderBy: 'rating', startAt: 3, limitToLast: 5 });
  assert.deepEqual(new Query({ near: { lat: 1, lng: 2 }, limit: { side: 'first', count: 3 } }).parameters, [['near', '1,2,,3']]);
  assert.deepEqual(new Query({ where: open, limit: { side: 'first', count: 3 } }).observed, { where: open, limitToFirst: 3 });
  assert.match(nearby.curl('http://h:1', 'n', ['count', 'added'], { signs: false }), /places\.json\?ns=n&where=%5B.*&near=37\.975%2C-23\.5%2C1000%2C20'$/);
  assert.match(nearby.curl('http://h:1', 'n', ['count'], { signs: false }), /^curl -s 'http:.*%2C20&count=true'$/);
});

test('sdk_isGivenWhatItCan_andElseTheHubsOwnClient', () => {
  assert.ok(new Query({ path: '/a', where: [['b/c', '==', 5]], limit: { side: 'first', count: 2 } }).sdk(['value'], 'http://h:1', 'n').startsWith('const place = query(ref(db, "a"), orderByChild("b/c"), equalTo(5), limitToFirst(2));\n'));
  assert.ok(new Query({ path: '/a', where: [['.value', '==', 'x']] }).sdk(['value'], '', '').includes('orderByValue(), equalTo("x")'));
  const own = nearby.sdk(['added'], 'http://h:1', 'n');
  assert.match(own, /^\/\/ The SDKs know no distances, no such conditions\./);
  assert.ok(own.endsWith(`hub.observe("/places", { events: ["added"], query: ${JSON.stringify(nearby.observed)} }, console.log);`), own);
  for (const where of [[['a', '==', null]], [['a', '>', 1]], [['a', '==', 1], ['b', '==', 2]]]) assert.match(new Query({ where }).sdk(['added'], '', ''), /no such conditions/);
  assert.match(new Query({}).sdk(['count'], '', ''), /no counts/);
});

test('textOfACondition_isAValue_asItsOperatorTakesIt', () => {
  assert.deepEqual(['5', 'true', 'open', '"5"', 'null', ' 5 '].map((text) => wanted('==', text)), [5, true, 'open', '5', null, 5]);
  assert.deepEqual([wanted('in', 'open, new, 3'), wanted('in', '["a,b",1]'), wanted('has', '5'), wanted('prefix', '"5"')], [['open', 'new', 3], ['a,b', 1], '5', '5']);
});

test('plan_isToldInWords', () => {
  assert.equal(explained('/p', { start: 'index', index: 'status', looks: 1200, children: 30000 }), 'Begins with the index “status”, by a condition, and looks at 1,200 of 30,000 children.');
  assert.equal(explained('/p', { start: 'order', index: 'a/b', declared: false }), 'Goes along the order “a/b”. The rules lack ".indexOn": "a/b" at /p, so it is sorted for those who ask.');
  assert.equal(explained('/p', { start: 'points', index: '.geoIndex', looks: 2 }), 'Begins with the positions of the children, and looks at 2 children.');
  assert.equal(explained('/p', { start: 'children', looks: 3, children: 3 }), 'Looks at every child, 3 of them: nothing narrows it down.');
  assert.equal(explained('/p', { start: 'place', looks: 3, children: 3 }), 'Nothing is looked for: this is the whole place.');
  assert.equal(explained('/p', { declared: true }), 'The rules have a line for this query, or it needs none. From where it starts is told to those who may read the whole place.');
  assert.equal(explained('/p', { declared: false }), 'The rules have no line at /p for this query. From where it starts is told to those who may read the whole place.');
});

test('place_ofAnEvent_isTheDistance_orTheChildBefore', () => {
  assert.deepEqual([{ prev: null }, { prev: 'a' }, {}, { distance: 70.79 }, { distance: 2616.84, why: 'left' }, { why: 'deleted' }].map(placeOf), ['first', 'after a', '', '71 m', 'left · 2.62 km', 'deleted']);
});

test('query_roundTrips_throughALink', () => {
  const queries = [nearby, rated, new Query({ near: { lat: 0, lng: 0 }, limit: { side: 'first', count: 1 } }), new Query({ where: [['.value', 'prefix', 'a&b=#%']] }), latest, new Query({ path: '/' }), new Query({ path: '/a', order: 'key', bounds: { equalTo: 'a&b=c#"%' } }), new Query({ path: '/a', limit: { side: 'first', count: 1 }, order: 'priority' }), new Query({ path: '/v', order: 'value', bounds: { startAfter: null } })];
  for (const query of queries) {
    const again = Query.from(query.text);
    assert.deepEqual(again.wire, query.wire, query.text);
    assert.deepEqual(again.observed, query.observed, query.text);
    assert.equal(again.fault, null, query.text);
    assert.equal(again.text, query.text);
  }
  assert.equal(Query.from('/a?orderBy=nonsense&limitToFirst=[]').fault, 'A limit is a number from 1 on.');
});

test('query_thatCannotBe_isNamed', () => {
  for (const [fields, word] of [[{ path: '/a.b' }, 'contains'], [{ bounds: { startAt: 1 } }, 'order'], [{ order: 'key', bounds: { startAt: 1 } }, 'texts'], [{ order: 'child' }, 'Name'],
    [{ order: 'value', bounds: { equalTo: 1, endAt: 2 } }, 'alone'], [{ limit: { side: 'last', count: 0 } }, 'limit'], [{ order: 'value', bounds: { startAt: {} } }, 'objects'],
    [{ where: [['', '==', 1]] }, 'Name the child of a condition'], [{ where: [['a.b', '==', 1]] }, 'contains'], [{ where: [['a', 'like', 1]] }, 'no operator'], [{ where: [['a', 'in', []]] }, 'list'],
    [{ where: [['a', '<', {}]] }, 'not objects'], [{ where: [['a', 'has', 5]] }, 'needs a text'], [{ where: ['a'] }, 'Name'],
    [{ near: { lat: 91, lng: 0, radius: 5 } }, 'latitude'], [{ near: { lat: NaN, lng: 0, radius: 5 } }, 'latitude'], [{ near: { lat: 1, lng: 181, radius: 5 } }, 'longitude'], [{ near: { lat: 1, lng: 1, radius: 0 } }, 'above 0'],
    [{ near: { lat: 1, lng: 1 } }, 'nearest'], [{ near: { lat: 1, lng: 1 }, order: 'key', limit: { side: 'first', count: 1 } }, 'order needs'], [{ near: { lat: 1, lng: 1, radius: 5 }, limit: { side: 'last', count: 1 } }, 'only the nearest']]) {
    assert.match(new Query(fields).fault ?? '', new RegExp(word), JSON.stringify(fields));
  }
});

test('values_areOrdered_asTheContractSays', () => {
  const values = [null, false, true, -1, 0, 2.5, '', 'a', 'b', {}];
  assert.deepEqual([...values].reverse().sort(compareValues), values);
});

/** A realtime connection whose pushes a test makes. */
function connection() {
  const listens = [];
  return { listenQuery: (path, query, handlers) => { listens.push(handlers); return () => {}; }, push: (path, kind, wire) => listens[0].push(path.split('/').filter(Boolean), kind, wire), handlers: () => listens[0] };
}

test('events_comeInTheOrderOfTheQuery_withTheChildBefore', () => {
  const wire = connection(), heard = [];
  const query = new Query({ path: '/s', order: 'child', child: 'n', limit: { side: 'last', count: 3 } });
  observeQuery(wire, query, ['added', 'changed', 'moved', 'removed'], { ready() {}, event: (event) => heard.push([event.event, event.key, event.prev]), refused() {}, lost() {} });
  wire.push('/s', 'd', { a: { n: 3 }, b: { n: 1 }, c: { n: 2 } });
  assert.deepEqual(heard.splice(0), [['added', 'b', null], ['added', 'c', 'b'], ['added', 'a', 'c']]);
  wire.push('/s/b/n', 'd', 9);
  assert.deepEqual(heard.splice(0), [['moved', 'b', 'a'], ['changed', 'b', 'a']]);
  wire.push('/s/b/text', 'd', 'x');
  assert.deepEqual(heard.splice(0), [['changed', 'b', 'a']]);
  wire.push('/s', 'm', { c: null, d: { n: 4 } });
  assert.deepEqual(heard.splice(0), [['removed', 'c', undefined], ['added', 'd', 'a']]);
  wire.handlers().lost();
  wire.push('/s', 'd', { a: { n: 3 } });
  assert.deepEqual(heard.splice(0), [['added', 'a', null]], 'after a lost connection it begins anew');
});

test('window_isEmptied_childByChild', () => {
  const wire = connection(), heard = [];
  observeQuery(wire, new Query({ path: '/s', order: 'key' }), ['removed', 'value'], { ready() {}, event: (event) => heard.push([event.event, event.key ?? null, event.value]), refused() {}, lost() {} });
  wire.push('/s', 'd', { a: 1, b: { c: 2 } });
  wire.push('/s', 'd', null);
  assert.deepEqual(heard, [['value', null, { a: 1, b: { c: 2 } }], ['removed', 'a', 1], ['removed', 'b', { c: 2 }], ['value', null, null]]);
});

test('latency_isTakenFromARecentTimeInTheValue', () => {
  assert.equal(latencyOf({ timestamp: 1000000 }, 1000025), 25);
  assert.equal(latencyOf(1000030, 1000025), 0);
  assert.equal(latencyOf({ timestamp: 5 }, 1000000000), null);
  assert.equal(latencyOf('x', 1), null);
});
