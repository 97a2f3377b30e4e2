// Observers on places, and the log of what they reported: newest first, filtered, paused, cleared.

import { clockTime, element, perFrame, plural, preview, setText } from './dom.js';
import { elide, normalPath, pathFault } from './paths.js';

const kept = 2000;       // entries kept in memory
const shownAtMost = 400; // entries on the page

export class EventsView {
  #parts;
  #observe;
  #changed;
  #observers = [];
  #entries = [];          // oldest first
  #fresh = [];            // not on the page yet
  #paused = false;
  #filter = '';
  #counts = perFrame(() => this.#paintCounts());
  #flush = perFrame(() => this.#paint());

  /** parts: the elements; observe: the protocol client; changed(): the set of observed paths differs. */
  constructor(parts, observe, changed) {
    this.#parts = parts;
    this.#observe = observe;
    this.#changed = changed;
    parts.form.addEventListener('submit', (event) => {
      event.preventDefault();
      const kinds = [...parts.kinds.querySelectorAll('input:checked')].map((box) => box.name);
      const path = parts.path.value.trim() || '/';
      const fault = pathFault(path) ?? (kinds.length ? null : 'Choose at least one kind of event.');
      parts.path.setCustomValidity(fault ?? '');
      if (fault) { parts.path.reportValidity(); return; }
      this.attach(path, kinds);
    });
    parts.path.addEventListener('input', () => parts.path.setCustomValidity(''));
    parts.filter.addEventListener('input', () => { this.#filter = parts.filter.value.trim().toLowerCase(); this.#rebuild(); });
    parts.clear.addEventListener('click', () => this.clear());
    parts.pause.addEventListener('click', () => this.pause(!this.#paused));
    this.#rebuild();
  }

  /** Everything logged, oldest first: { at, path, event, key, prev, value, seq, initial }. */
  get entries() { return this.#entries.filter((entry) => entry.event); }
  get paths() { return [...new Set(this.#observers.map((observer) => observer.path))]; }

  attach(path, events = ['added', 'changed', 'removed']) {
    path = normalPath(path);
    const same = this.#observers.find((other) => other.path === path);
    if (same) this.#detach(same, false);
    const observer = { path, events, state: 'asking', fault: '', seq: null, count: 0, end: null, item: null };
    this.#observers.push(observer);
    this.#makeChip(observer);
    observer.end = this.#observe.observe(path, events, {
      ready: (seq) => {
        if (observer.state === 'lost') this.#mark(`Connected again: ${path} starts from its present state.`);
        observer.seq = seq;
        observer.state = 'live';
        this.#counts();
      },
      event: (message) => {
        observer.count += 1;
        this.#log({
          at: Date.now(), path, event: message.event, key: message.key ?? null, prev: message.prev, value: message.value,
          seq: message.seq, initial: observer.seq !== null && message.seq <= observer.seq, why: message.why,
        });
        this.#counts();
      },
      refused: (error) => {
        observer.state = 'refused';
        observer.fault = error.code === 'permission_denied' ? 'the rules do not let you read here' : error.message || error.code;
        this.#mark(`${path} refused: ${observer.fault}.${error.code === 'permission_denied' ? ' Connect with a token that may read it.' : ''}`);
        this.#counts();
      },
      lost: () => {
        if (observer.state === 'live') observer.state = 'lost';
        this.#counts();
      },
    });
    this.#counts();
    this.#changed();
    return observer;
  }

  /** Observes exactly these paths: what a link asks for. */
  attachOnly(paths) {
    const wanted = paths.map(normalPath);
    for (const observer of [...this.#observers]) if (!wanted.includes(observer.path)) this.#detach(observer);
    for (const path of wanted) if (!this.#observers.some((observer) => observer.path === path)) this.attach(path);
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
    observer.item = element('li', { class: 'chip' }, observer.dot,
      element('span', { class: 'chip-path', title: `${observer.path}: ${observer.events.join(', ')}` }, observer.path), observer.text,
      element('button', {
        type: 'button', class: 'chip-end', title: 'Stop observing', 'aria-label': `Stop observing ${observer.path}`,
        onclick: () => this.#detach(observer),
      }, '×'));
    this.#parts.chips.append(observer.item);
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
    if (this.#paused) return;
    const { list } = this.#parts;
    const rows = [];
    for (let i = this.#fresh.length - 1; i >= 0 && rows.length < shownAtMost; i--) {
      if (this.#matches(this.#fresh[i])) rows.push(makeEntry(this.#fresh[i], !this.#fresh[i].initial));
    }
    this.#fresh = [];
    list.prepend(...rows);
    // Hidden rows would start to glow when they are shown again.
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
        : 'Attach an observer to a path to see children come, change and go.');
  }
}

function makeEntry(entry, fresh) {
  if (entry.mark) return element('li', { class: 'log-mark' }, element('time', {}, clockTime(entry.at)), entry.mark);
  const whole = () => JSON.stringify(entry.value ?? null, null, 2);
  const details = element('details', { class: entry.initial ? 'entry initial' : 'entry' },
    element('summary', {},
      element('time', {}, clockTime(entry.at)),
      element('span', { class: `event event-${entry.event}` }, entry.event),
      element('span', { class: 'entry-text' },
        entry.key === null ? element('span', { class: 'entry-path' }, entry.path) : element('span', { class: 'entry-key' }, elide(entry.key, 60)),
        ' ', element('span', { class: 'entry-value' }, preview(entry.value ?? null, 160)))));
  details.addEventListener('toggle', () => {
    if (!details.open || details.childElementCount > 1) return;
    const facts = [`at ${entry.path}`];
    if (entry.prev !== undefined) facts.push(entry.prev === null ? 'first child' : `after ${entry.prev}`);
    if (entry.seq !== undefined) facts.push(`seq ${entry.seq}`);
    if (entry.initial) facts.push('was there when the observer was attached');
    if (entry.why) facts.push(String(entry.why));
    details.append(element('div', { class: 'entry-more' }, element('p', { class: 'quiet' }, facts.join(' · ')), element('pre', {}, elide(whole(), 20000))));
  });
  return element('li', fresh ? { class: 'fresh' } : {}, details);
}
