// Observers on places, and the log of their events: newest first, filtered, paused, cleared.

import { button, element, perFrame, plural, pressedIn, preview, setText } from '../page/dom.js';
import { makeEntry } from './event-entry.js';
import { QueryObserver } from './query-observer.js';
import { Query } from './query.js';

const kept = 2000;       // entries kept in memory
const shownAtMost = 400; // entries on the page

export class EventsView {
  #parts;
  #hub;
  #changed;
  #observers = [];
  #chips = new Map();     // observer → its elements
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
    const observer = new QueryObserver(this.#hub, query, events, {
      event: (entry) => this.note(entry),
      note: (text) => this.note({ mark: text }),
      stateChanged: this.#counts,
      moved: () => { this.#nameChip(observer); this.#changed(); },
    });
    this.#observers.push(observer);
    this.#makeChip(observer);
    observer.start();
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
  restart() {
    for (const observer of this.#observers) observer.start();
    this.#counts();
  }

  /** Logs an entry (event-entry.js). */
  note(entry) { this.#log({ at: Date.now(), ...entry }); }

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

  #detach(observer, isReported = true) {
    observer.stop();
    this.#chips.get(observer).item.remove();
    this.#chips.delete(observer);
    this.#observers = this.#observers.filter((other) => other !== observer);
    this.#paintBlank();
    if (isReported) this.#changed();
  }

  #makeChip(observer) {
    const map = observer.query.near && button('◎', () => { this.#hub.circles.asked = observer.circle; this.#hub.go({ tab: 'follow' }); }, { class: 'chip-end', title: 'Show and move it on the map' });
    const chip = {
      path: element('span', { class: 'chip-path' }), text: element('span', { class: 'chip-note quiet' }), map,
      stop: button('×', () => this.#detach(observer), { class: 'chip-end', title: 'Stop observing' }),
    };
    chip.item = element('li', { class: 'chip' }, element('span', { class: 'chip-dot', 'aria-hidden': 'true' }), chip.path, chip.text, map, chip.stop);
    this.#chips.set(observer, chip);
    this.#nameChip(observer);
    this.#parts.chips.append(chip.item);
  }

  #nameChip(observer) {
    const chip = this.#chips.get(observer);
    if (!chip) return; // its circle has moved, but it is not observed any more
    const { query: { text }, events } = observer, { path, map, stop } = chip;
    setText(path, text);
    path.title = `${text}: ${events.join(', ')}`;
    stop.ariaLabel = `Stop observing ${text}`;
    if (map) map.ariaLabel = `Show ${text} on the map`;
  }

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
      const { item, text } = this.#chips.get(observer);
      item.dataset.state = observer.state;
      setText(text, observer.state === 'refused' ? 'refused' : observer.state === 'lost' ? 'waiting' : observer.count.toLocaleString('en'));
      if (observer.fault) text.title = observer.fault;
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
