// What the Queries tab asks of the hub. Only this file chooses the protocol:
//
//   as oneself        the observe protocol (hub.observe): the hub finds the children and creates the events
//   as another user   the realtime protocol or REST: the observe protocol cannot act as a user

import { latencyOf } from './event-entry.js';
import { Query, explained } from './query.js';

const isActing = (hub) => hub.credentials.actAs !== undefined;

/** Reads once: { value, order: [[key, distance], …] }, or only the count if that is all that was requested. */
export async function readOnce(hub, query, events) {
  const { path, observed } = query, isCount = events.join() === 'count';
  if (!isActing(hub)) {
    const { value, count, keys, distances } = await hub.observe.ask({ op: isCount ? 'count' : 'get', path, query: observed });
    return isCount ? { value: count } : { value, order: keys?.map((key, i) => [key, distances?.[i]]) };
  }
  let value;
  if (query.isLive) {
    const answer = await hub.fetch(hub.placeAddress(path, Object.fromEntries(query.parameters)));
    value = await answer.json();
    if (!answer.ok) throw new Error(value.error);
  } else value = await hub.realtime.get(path, query.isPlain ? {} : query.wire);
  return { value: isCount ? Object.keys(value ?? {}).length : value };
}

/** Where the hub would start to look for the children of a query, in words. */
export async function explainQuery(hub, { path, observed }) {
  if (isActing(hub)) return 'While you act as a user, queries are not explained.';
  try {
    return explained(path, (await hub.observe.ask({ op: 'count', path, query: observed, explain: true })).explain);
  } catch (refusal) {
    return refusal.member === 'explain' ? 'This hub explains no queries.' : refusal.text || refusal.message;
  }
}

/** One query that is observed until `stop`, also over lost connections. */
export class QueryObserver {
  /** asking | live | lost (until it is connected again) | refused */
  state = 'asking';
  fault = '';
  count = 0;        // events received
  circle = null;    // for the map
  #hub;
  #hooks;
  #end = () => {};
  #isInitial = true; // until all initial data was reported

  /** hooks: event(entry) (event-entry.js), note(text) for the log; stateChanged(); moved(): `query` has another centre. */
  constructor(hub, query, events, hooks) {
    this.#hub = hub;
    this.query = query;
    this.events = events;
    this.#hooks = hooks;
  }

  /** Starts, or starts again for another hub or identity. */
  start() {
    this.stop();
    this.state = 'asking';
    this.fault = '';
    this.#isInitial = true;
    if (isActing(this.#hub)) this.#listen(); else this.#observe();
  }

  stop() { this.#end(); }

  #observe() {
    const { query, events } = this, { circles, observe } = this.#hub;
    const circle = query.near && new Circle(query.near, query.text, events, (centre) => end.move(centre), (moved, error) => this.#moved(moved, error));
    const end = observe.observe(query.path, { events: [...events, 'ready'], query: query.observed }, (event) => {
      circle?.receive(event);
      if (event.event === 'ended') this.#refused(event.error);
      else if (event.event === 'lost') this.#lost();
      else if (event.event === 'ready') this.#ready();
      else if (event.event === 'reset') { this.#restarted(); this.#isInitial = true; } else this.#received(event);
      if (circle && event.event === 'ended') removeCircle(circles, circle);
    });
    if (circle) circles.list.push(this.circle = circle);
    this.#end = () => { if (circle) removeCircle(circles, circle); end(); };
  }

  #listen() {
    const { query, events } = this;
    let isEnded = false;
    this.#end = () => { isEnded = true; };
    if (query.isLive || events.includes('count')) {
      this.#refused({ text: 'while you act as a user, conditions, circles and counts are read once only' });
      return;
    }
    // Acting as a user is rare, so the code that turns pushes into events is loaded on demand.
    import('./window-events.js').then(({ observeQuery }) => {
      if (isEnded) return;
      this.#end = observeQuery(this.#hub.realtime, query, events, {
        ready: () => { this.#restarted(); this.#ready(); },
        event: (event) => this.#received(event),
        refused: (refusal) => this.#refused(refusal),
        lost: () => this.#lost(),
      });
    });
  }

  #ready() {
    this.#isInitial = false;
    this.state = 'live';
    this.#hooks.stateChanged();
  }

  #received({ event, key = null, prev, value, count, distance, seq, why, initial = this.#isInitial }) {
    this.count += 1;
    this.#hooks.event({
      path: this.query.text, event, key, prev, value: event === 'count' ? count : value, distance, seq, initial, why,
      latency: initial ? null : latencyOf(value, this.#hub.realtime.serverNow),
    });
    this.#hooks.stateChanged();
  }

  #refused({ code, text, message }) {
    this.state = 'refused';
    this.fault = code === 'permission_denied' ? 'the rules do not let you read here' : text || message || code;
    this.#hooks.note(`${this.query.text} refused: ${this.fault.replace(/\.$/, '')}.${code === 'permission_denied' ? ' Sign in as someone who may read it.' : ''}`);
    this.#hooks.stateChanged();
  }

  #lost() {
    if (this.state === 'live') this.state = 'lost';
    this.#hooks.stateChanged();
  }

  #restarted() {
    if (this.state === 'lost') this.#hooks.note(`Connected again: ${this.query.text} starts from its present state.`);
  }

  #moved(circle, error) {
    const { query } = this, { lat, lng } = circle.near;
    const refusal = (error?.text || error?.message)?.replace(/\.$/, '');
    this.#hooks.note(error ? `${query.text} stays where it is: ${refusal}.` : `${query.text}: the centre is now ${lat}, ${lng}.`);
    this.query = new Query({ ...query, near: { ...query.near, lat, lng } });
    circle.text = this.query.text;
    this.#hooks.moved();
  }
}

// ---- An observed circle: the Queries tab adds it to the hub's circles (hub.circles), the map of Follow draws and moves it.

const betweenMs = 100; // minimum time between two moves of one circle

export class Circle {
  /** The number of children within; null if the hub does not send it. */
  size = null;
  #move;
  #settled;
  #keys = new Set();
  #known; // the centre that was last sent to the hub
  #isMoving = false;

  /**
   * near: { lat, lng, radius? }; text: the observed query; events: the requested ones. move(centre) asks the hub and resolves when it has moved;
   * settled(circle, error) is called when the last of several moves is done.
   */
  constructor(near, text, events, move, settled) {
    Object.assign(this, { near, text, events });
    this.#known = near;
    this.#move = move;
    this.#settled = settled;
  }

  /** Handles an event of the observer. */
  receive({ event, key, count }) {
    if (event === 'count') this.size = count;
    if (event === 'added') this.#keys.add(key);
    if (event === 'removed') this.#keys.delete(key);
    if (event === 'reset') this.#keys.clear();
    if (!this.events.includes('count') && this.events.includes('added') && this.events.includes('removed')) this.size = this.#keys.size;
  }

  /** Moves the centre: here at once, at the hub when the previous move is done. */
  async moveTo(lat, lng) {
    this.near = { ...this.near, lat, lng };
    if (this.#isMoving) return;
    this.#isMoving = true;
    let error;
    try {
      while (this.near !== this.#known) {
        const wanted = this.near;
        await this.#move({ lat: wanted.lat, lng: wanted.lng });
        this.#known = wanted;
        await new Promise((done) => setTimeout(done, betweenMs));
      }
    } catch (refusal) {
      error = refusal;
      this.near = this.#known;
    }
    this.#isMoving = false;
    this.#settled(this, error);
  }
}

/** Removes a circle that is no longer observed. */
export function removeCircle(circles, circle) {
  circles.list = circles.list.filter((other) => other !== circle);
  for (const name of ['chosen', 'asked']) if (circles[name] === circle) circles[name] = null;
}
