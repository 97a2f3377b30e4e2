// Runs the lines of a scenario with web/vigla.js, and prints the events it gets: see peer.py in this folder.

import { createInterface } from 'node:readline';
import { Vigla } from '../../web/vigla.js';

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const told = ({ code, text, member, messages, message }) => ({ code, text, member: member ?? null, messages, printed: message });

const options = JSON.parse(process.argv[3]);
const onstate = ({ state, error }) => say({ state, ...(error && { error: told(error) }) });
const hub = new Vigla(process.argv[2], { ...options, onstate, onended: () => {} });
const observers = new Map();

const calls = {
  observe: ({ as, iterate, path, ...wanted }) => {
    const hear = (event) => say({ observer: as, event: event.error ? { ...event, error: told(event.error) } : event });
    const observer = hub.observe(path, wanted, iterate ? undefined : hear);
    observers.set(as, observer);
    if (iterate) {
      (async () => {
        try {
          for await (const event of observer) hear(event);
          hear({ event: 'ended', error: { code: 'closed' } });
        } catch (error) { hear({ event: 'ended', error }); }
      })();
    }
  },
  end: ({ as }) => observers.get(as).end(),
  move: ({ as, near }) => observers.get(as).move(near),
  lacksIndex: ({ as }) => observers.get(as).lacksIndex,
  auth: ({ token }) => hub.auth(token),
  get: ({ path, query }) => hub.get(path, query),
  count: ({ path, query }) => hub.count(path, query),
  set: ({ path, value }) => hub.set(path, value),
  update: ({ path, value }) => hub.update(path, value),
  push: ({ path, value }) => hub.push(path, value),
  remove: ({ path }) => hub.remove(path),
  ping: () => hub.ping(),
  onDisconnect: ({ what, path, value }) => hub.onDisconnect(what, path, value),
  add: ({ path, value }) => hub.transaction(path, (was) => (was ?? 0) + value),
  close: () => hub.close(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { turn, call, ...members } = JSON.parse(line);
  Promise.resolve().then(() => calls[call](members))
    .then((answer) => say({ turn, ok: answer ?? null }), (error) => say({ turn, error: told(error) }));
}
hub.close();
