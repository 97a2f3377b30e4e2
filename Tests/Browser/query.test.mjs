// Queries as the realtime protocol, REST, links and other tools have them, and the events that a window's pushes stand for.

import assert from 'node:assert/strict';
import test from 'node:test';

import { latencyOf } from '../../web/event-entry.js';
import { Query, compareValues } from '../../web/query.js';
import { observeQuery } from '../../web/query-events.js';

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
  assert.ok(latest.curl('http://h:1', 'n', { signs: true }).endsWith("'http://h:1/scores.json?ns=n&orderBy=%22by%2Fpoints%22&startAt=2&endBefore=%22z%22&limitToLast=3'"));
});

test('query_roundTrips_throughALink', () => {
  const queries = [latest, new Query({ path: '/' }), new Query({ path: '/a', order: 'key', bounds: { equalTo: 'a&b=c#"%' } }), new Query({ path: '/a', limit: { side: 'first', count: 1 }, order: 'priority' }), new Query({ path: '/v', order: 'value', bounds: { startAfter: null } })];
  for (const query of queries) {
    const again = Query.from(query.text);
    assert.deepEqual(again.wire, query.wire, query.text);
    assert.equal(again.text, query.text);
  }
  assert.equal(Query.from('/a?orderBy=nonsense&limitToFirst=[]').fault, 'A limit is a number from 1 on.');
});

test('query_thatCannotBe_isNamed', () => {
  for (const [fields, word] of [[{ path: '/a.b' }, 'contains'], [{ bounds: { startAt: 1 } }, 'order'], [{ order: 'key', bounds: { startAt: 1 } }, 'texts'], [{ order: 'child' }, 'Name'],
    [{ order: 'value', bounds: { equalTo: 1, endAt: 2 } }, 'alone'], [{ limit: { side: 'last', count: 0 } }, 'limit'], [{ order: 'value', bounds: { startAt: {} } }, 'objects']]) {
    assert.match(new Query(fields).fault ?? '', new RegExp(word), JSON.stringify(fields));
  }
});

test('values_areOrdered_asTheContractSays', () => {
  const values = [null, false, true, -1, 0, 2.5, '', 'a', 'b', {}];
  assert.deepEqual(values.toReversed().sort(compareValues), values);
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
