// Observers on places, and the log of their events: newest first, filtered, paused, cleared.

import { element, perFrame, plural, pressedIn, preview, setText } from '../page/dom.js';
import { Circle, removeCircle } from './circle.js';
import { latencyOf, makeEntry } from './event-entry.js';
import { Query } from './query.js';

const kept = 2000;       // entries kept in memory
const shownAtMost = 400; // entries on the page

export class EventsView {
  #parts;
  #hub;
  #changed;
  #observers = [];
  #entries = [];          // oldest first
  #fresh = [];            // not on the page yet
  #paused = false;
  #isPressed;
  #filter = '';
  #counts = perFrame(() => this.#paintCounts());
  #flush = perFrame(() => this.#paint());

  /** parts: the elements; changed(): the set of observers differs. */
  constructor(parts, hub, changed) {
    this.#parts = parts;
    this.#hub = hub;
    this.#changed = changed;
    parts.filter.addEventListener('input', () => { this.#filter = parts.filter.value.trim().toLowerCase(); this.#rebuild(); });
    parts.clear.addEventListener('click', () => this.clear());
    parts.pause.addEventListener('click', () => this.pause(!this.#paused));
    this.#isPressed = pressedIn(parts.list, this.#flush);
    this.#rebuild();
  }

  /** Everything logged, oldest first: { at, path, event, key, prev, value, distance, seq, initial, latency }. */
  get entries() { return this.#entries.filter((entry) => entry.event); }
  /** The observers' queries as texts. */
  get texts() { return [...new Set(this.#observers.map((observer) => observer.query.text))]; }

  attach(query, events = ['added', 'changed', 'removed']) {
    const same = this.#observers.find((other) => other.query.text === query.text);
    if (same) this.#detach(same, false);
    const observer = { query, events, state: 'asking', fault: '', count: 0, end: null, item: null };
    this.#observers.push(observer);
    this.#makeChip(observer);
    this.#begin(observer);
    this.#counts();
    this.#changed();
  }

  /** Observes exactly these queries, as a link requests. */
  attachOnly(texts) {
    const wanted = texts.map((text) => Query.from(text));
    for (const observer of [...this.#observers]) if (!wanted.some((query) => query.text === observer.query.text)) this.#detach(observer);
    for (const query of wanted) if (!query.fault && !this.#observers.some((observer) => observer.query.text === query.text)) this.attach(query);
  }

  /** Restarts every observer, for another hub or another identity. */
  again() {
    for (const observer of this.#observers) {
      observer.end();
      Object.assign(observer, { state: 'asking', fault: '' });
      this.#begin(observer);
    }
    this.#counts();
  }

  /** Reads once: { value, order: [[key, distance], …] }, or only the count if that is all that was requested. */
  async read(query, events) {
    const { path, observed } = query, { realtime, observe, credentials } = this.#hub, isCount = events.join() === 'count';
    if (credentials.actAs === undefined) {
      const { value, count, keys, distances } = await observe.ask({ op: isCount ? 'count' : 'get', path, query: observed });
      return isCount ? { value: count } : { value, order: keys?.map((key, i) => [key, distances?.[i]]) };
    }
    let value;
    if (query.isLive) {
      const answer = await this.#hub.fetch(this.#hub.placeAddress(path, Object.fromEntries(query.parameters)));
      value = await answer.json();
      if (!answer.ok) throw new Error(value.error);
    } else value = await realtime.get(path, query.isPlain ? {} : query.wire);
    return { value: isCount ? Object.keys(value ?? {}).length : value };
  }

  /** Logs an entry that no observer reported. */
  note(entry) { this.#log({ at: Date.now(), ...entry }); }

  /** Uses the observe protocol, whose events the hub creates; when acting as another user, the realtime protocol. */
  #begin(observer) {
    const { query, events } = observer;
    let path = query.text;
    let initial = true; // until all initial data was reported
    const begunAnew = () => { if (observer.state === 'lost') this.#mark(`Connected again: ${path} starts from its present state.`); };
    const handlers = {
      ready: () => {
        initial = false;
        observer.state = 'live';
        this.#counts();
      },
      event: (message) => {
        observer.count += 1;
        const isOld = message.initial ?? initial;
        this.#log({
          at: Date.now(), path, event: message.event, key: message.key ?? null, prev: message.prev, value: message.event === 'count' ? message.count : message.value, distance: message.distance,
          seq: message.seq, initial: isOld, why: message.why, latency: isOld ? null : latencyOf(message.value, this.#hub.realtime.serverNow),
        });
        this.#counts();
      },
      refused: ({ code, text, message }) => {
        observer.state = 'refused';
        observer.fault = code === 'permission_denied' ? 'the rules do not let you read here' : text || message || code;
        this.#mark(`${path} refused: ${observer.fault.replace(/\.$/, '')}.${code === 'permission_denied' ? ' Sign in as someone who may read it.' : ''}`);
        this.#counts();
      },
      lost: () => {
        if (observer.state === 'live') observer.state = 'lost';
        this.#counts();
      },
    };
    const { realtime, observe, credentials } = this.#hub;
    if (credentials.actAs !== undefined) {
      if (query.isLive || events.includes('count')) {
        observer.end = () => {};
        handlers.refused({ text: 'while you act as a user, conditions, circles and counts are read once only' });
        return;
      }
      let isEnded = false;
      const end = () => { isEnded = true; };
      observer.end = end;
      // Acting as a user is rare, so the code that turns pushes into events is loaded on demand.
      import('./window-events.js').then(({ observeQuery }) => {
        if (!isEnded) observer.end = observeQuery(realtime, query, events, { ...handlers, ready: () => { begunAnew(); handlers.ready(); } });
      });
      return;
    }
    const circle = query.near && new Circle(query.near, path, events, (centre) => end.move(centre), (moved, error) => {
      const { lat, lng } = moved.near;
      observer.query = new Query({ ...query, near: { ...query.near, lat, lng } });
      const refusal = (error?.text || error?.message)?.replace(/\.$/, '');
      this.#mark(error ? `${path} stays where it is: ${refusal}.` : `${path}: the centre is now ${lat}, ${lng}.`);
      path = moved.text = observer.query.text;
      this.#nameChip(observer);
      this.#changed();
    });
    const end = observe.observe(query.path, { events: [...events, 'ready'], query: query.observed }, (event) => {
      circle?.hear(event);
      if (event.event === 'ended') handlers.refused(event.error);
      else if (event.event === 'lost' || event.event === 'ready') handlers[event.event]();
      else if (event.event !== 'reset') handlers.event(event);
      else { begunAnew(); initial = true; }
      if (circle && event.event === 'ended') removeCircle(this.#hub.circles, circle);
    });
    if (circle) this.#hub.circles.list.push(observer.circle = circle);
    observer.end = () => { if (circle) removeCircle(this.#hub.circles, circle); end(); };
  }

  pause(paused) {
    this.#paused = paused;
    this.#parts.pause.setAttribute('aria-pressed', String(paused));
    if (!paused) this.#flush();
    this.#paintPause();
  }

  clear() {
    this.#entries = [];
    this.#fresh = [];
    this.#rebuild();
  }

  #detach(observer, tell = true) {
    observer.end();
    observer.item.remove();
    this.#observers = this.#observers.filter((other) => other !== observer);
    this.#paintBlank();
    if (tell) this.#changed();
  }

  #makeChip(observer) {
    observer.dot = element('span', { class: 'chip-dot', 'aria-hidden': 'true' });
    observer.text = element('span', { class: 'chip-note quiet' });
    observer.path = element('span', { class: 'chip-path' });
    observer.map = observer.query.near && element('button', {
      type: 'button', class: 'chip-end', title: 'Show and move it on the map',
      onclick: () => { this.#hub.circles.asked = observer.circle; this.#hub.go({ tab: 'follow' }); },
    }, '◎');
    const end = () => this.#detach(observer);
    observer.stop = element('button', { type: 'button', class: 'chip-end', title: 'Stop observing', onclick: end }, '×');
    observer.item = element('li', { class: 'chip' }, observer.dot, observer.path, observer.text, observer.map, observer.stop);
    this.#nameChip(observer);
    this.#parts.chips.append(observer.item);
  }

  #nameChip({ query: { text }, events, path, map, stop }) {
    setText(path, text);
    path.title = `${text}: ${events.join(', ')}`;
    stop.ariaLabel = `Stop observing ${text}`;
    if (map) map.ariaLabel = `Show ${text} on the map`;
  }

  #mark(text) { this.#log({ at: Date.now(), mark: text }); }

  #log(entry) {
    this.#entries.push(entry);
    this.#fresh.push(entry);
    if (this.#entries.length > kept + 200) this.#entries.splice(0, this.#entries.length - kept);
    if (this.#fresh.length > kept) this.#fresh.splice(0, this.#fresh.length - kept);
    if (this.#paused) this.#counts(); else this.#flush();
  }

  #matches(entry) {
    if (!this.#filter) return true;
    entry.words ??= [entry.event, entry.path, entry.key, entry.mark, preview(entry.value ?? null, 400)].join(' ').toLowerCase();
    return this.#filter.split(/\s+/).every((word) => entry.words.includes(word));
  }

  #paint() {
    if (this.#paused || this.#isPressed()) return;
    const { list } = this.#parts;
    const rows = [];
    for (let i = this.#fresh.length - 1; i >= 0 && rows.length < shownAtMost; i--) {
      if (this.#matches(this.#fresh[i])) rows.push(makeEntry(this.#fresh[i], !this.#fresh[i].initial));
    }
    this.#fresh = [];
    list.prepend(...rows);
    // Otherwise hidden rows would start to glow when they are shown again.
    setTimeout(() => { for (const row of rows) row.classList.remove('fresh'); }, 1700);
    while (list.childElementCount > shownAtMost) list.lastElementChild.remove();
    this.#paintBlank();
  }

  #rebuild() {
    const rows = [];
    for (let i = this.#entries.length - 1; i >= 0 && rows.length < shownAtMost; i--) {
      if (this.#matches(this.#entries[i])) rows.push(makeEntry(this.#entries[i], false));
    }
    if (!this.#paused) this.#fresh = [];
    this.#parts.list.replaceChildren(...rows);
    this.#paintBlank();
    this.#paintPause();
  }

  #paintCounts() {
    for (const observer of this.#observers) {
      observer.item.dataset.state = observer.state;
      setText(observer.text, observer.state === 'refused' ? 'refused' : observer.state === 'lost' ? 'waiting' : observer.count.toLocaleString('en'));
      if (observer.fault) observer.text.title = observer.fault;
    }
    this.#paintPause();
  }

  #paintPause() {
    setText(this.#parts.pause, !this.#paused ? 'Pause' : this.#fresh.length ? `Go on (${this.#fresh.length})` : 'Go on');
  }

  #paintBlank() {
    const { blank, list } = this.#parts;
    blank.hidden = list.childElementCount > 0;
    if (blank.hidden) return;
    setText(blank, this.#filter && this.#entries.length ? `None of ${plural(this.#entries.length, 'entry', 'entries')} matches the filter.`
      : this.#observers.length ? 'Listening. Events appear here as they happen.'
        : 'Observe a place to see its children come, change and go.');
  }
}
