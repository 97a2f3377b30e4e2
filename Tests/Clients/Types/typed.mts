// Code that the types of vigla.js accept and, after @ts-expect-error, code that they refuse. A missing error fails,
// too.

import { Vigla, ViglaError, backoff } from 'vigla';
import type { Change, Ended, Event, Observer, Query } from 'vigla';

interface Post { text: string; stars?: number }

const query: Query = { near: { lat: 37.9, lng: 23.7, radius: 1000 }, where: [['status', '==', 'open'], ['kind', 'in', ['a', 'b']]] };
const hub = new Vigla('http://127.0.0.1:9000', {
  ns: 'default',
  token: async () => null,
  onstate: ({ state, error, retryMs }: Change) => console.log(state, error?.code, retryMs),
  onended: (path, error) => console.log(path.length, error.messages.join()),
});

const observer: Observer<Post> = hub.observe<Post>('/posts', { events: ['added', 'removed'], query, maxHz: 2 }, (event: Event<Post> | Ended) => {
  if (event.event === 'added') console.log(event.key.length, event.value.text, event.distance);
  if (event.event === 'removed' && event.why === 'left') console.log(event.key);
  if (event.event === 'ended') console.log(event.error.member, event.error.retryAfterMs);
  // @ts-expect-error: an unknown event
  if (event.event === 'gone') console.log(event);
  // @ts-expect-error: the key of a value
  if (event.event === 'value') console.log(event.key.length);
});
await observer.move({ lat: 1, lng: 2 });
observer.end();

for await (const { event, key, value } of hub.observe<Post>('/posts', { events: ['added'] })) console.log(event, key, value?.text);
const post: Post | null = await hub.get<Post | null>('/posts/p1');
const visits: number = await hub.transaction<number>('/visits', (was) => (was ?? 0) + 1);
const [seq, key, count]: [number, string, number] = [await hub.set('/a', post), await hub.push('/a', visits), await hub.count('/a', query)];
await hub.update('/', { a: seq, b: key, c: count });
await hub.onDisconnect('set', '/online/ana', false);
await hub.onDisconnect('remove', '/online/ana');
const uid: string | undefined = await hub.auth(async () => 'token');
try { await hub.ping(); } catch (error) { if (error instanceof ViglaError) console.log(error.code, error.text, error.value, uid, backoff(3)); }

// @ts-expect-error: the address is required
new Vigla();
// @ts-expect-error: an unknown option
new Vigla('http://127.0.0.1:9000', { namespace: 'default' });
// @ts-expect-error: an unknown event
hub.observe('/a', { events: ['child_added'] });
// @ts-expect-error: a longitude is missing
hub.observe('/a', { query: { near: { lat: 1, radius: 3 } } });
// @ts-expect-error: an unknown operator
hub.observe('/a', { query: { where: [['status', '=', 'open']] } });
// @ts-expect-error: a list is required
hub.observe('/a', { query: { where: [['status', 'in', 'open']] } });
// @ts-expect-error: an unknown parameter
await hub.get('/a', { limit: 1 });
// @ts-expect-error: an update is an object
await hub.update('/a', 1);
// @ts-expect-error: a removal has no value
await hub.onDisconnect('remove', '/a', 1);
// @ts-expect-error: only the centre moves
await observer.move({ lat: 1, lng: 2, radius: 3 });
// @ts-expect-error: observers come from observe()
new Observer(null);
hub.close();
