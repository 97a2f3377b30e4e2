// Outbox: the notifications and events of a database that are not delivered, and a form that sends a test to a device.
//
//   /.outbox.json?state=dead ─► dead letters, with their reasons        ?state=waiting ─► what waits for its next attempt

import { Gate, Repeating, gatedTab, request } from '../page/administration.js';
import { age, askUser, button, element, field, isValidPath, pathInput, plural, pressedIn, setText } from '../page/dom.js';

const everyMs = 4000;
const testEveryMs = 500;
const pageSize = 100;

export const makeTab = (hub) => gatedTab(new OutboxTab(hub));

/** Up to `limit` deliveries behind a mark, the oldest first, and the mark of the `next` page. */
const listed = (hub, state, limit, after) => request(hub, `/.outbox.json?state=${state}&limit=${limit}${after ? `&after=${encodeURIComponent(after)}` : ''}`);

class OutboxTab {
  #hub;
  #p = {};
  #reads = 0; // counts reads and moves to another hub: only the latest read is shown
  #moves = 0;
  #isShown = false;
  #test = null; // { id, device } of the test whose end is awaited

  constructor(hub) {
    this.#hub = hub;
    const more = () => this.#read();
    this.dead = new Letters(hub, 'dead', { more, change: (method, id) => this.#change(method, id) });
    this.waiting = new Letters(hub, 'waiting', { more });
    hub.on('moved', () => {
      this.#reads++;
      this.#moves++;
      this.#test = null;
      this.#note('');
      for (const letters of [this.dead, this.waiting]) letters.clear();
    });
    this.repeating = new Repeating(everyMs, () => this.#read());
    this.gate = new Gate(hub, 'Outbox', this.#build(), {
      begin: () => { this.#isShown = true; this.repeating.start(); this.#follow(); },
      // A copy, so that the loop of `#follow` ends although the tab may be shown again before its next turn.
      end: () => { this.#isShown = false; this.repeating.stop(); this.#test &&= { ...this.#test }; },
    });
  }

  get state() { return { dead: this.dead.list, waiting: this.waiting.list, reads: this.dead.reads, note: this.#p.note.textContent }; }

  #build() {
    const p = this.#p;
    p.retry = button('Retry all', () => this.#changeAll('POST'), { class: 'button plain', id: 'outbox-retry-all' });
    p.discard = button('Discard all', () => this.#changeAll('DELETE'), { class: 'button plain', id: 'outbox-discard-all' });
    const guide = element('a', { href: 'docs/notifications.md', target: '_blank' }, 'docs/notifications.md');
    return element('div', { class: 'outbox' },
      element('div', { class: 'outbox-main', tabindex: '0', role: 'region', 'aria-label': 'Deliveries' }, p.fault = element('p', { class: 'bad outbox-fault', role: 'alert' }),
        this.dead.build('Dead letters', [p.retry, p.discard], ['Nothing has failed. The rules send notifications (.notify) and events (.webhook). What cannot be delivered is kept here, with the reason, until you retry or discard it. ', guide, ' shows how to reach a phone or a browser.']),
        this.waiting.build('Waiting', [], ['Nothing waits. What the rules send appears here until it is delivered, with the time of its next attempt.'])),
      element('div', { class: 'outbox-side' }, element('header', { class: 'pane-head' }, element('h2', {}, 'Send a test')),
        element('form', { class: 'outbox-form', autocomplete: 'off', onsubmit: (event) => { event.preventDefault(); this.#send(); } },
          field('Row of the device', p.device = pathInput({ id: 'test-device', required: true, placeholder: '/devices/ana/phone', enterkeyhint: 'send' })),
          field('Title', p.title = element('input', { id: 'test-title', placeholder: 'Test' })),
          field('Text', p.text = element('input', { id: 'test-text', placeholder: 'This is a test of the hub.' })),
          p.note = element('p', { id: 'test-note', role: 'status' }), p.send = element('button', { class: 'button primary', id: 'test-send' }, 'Send'))));
  }

  async #read() {
    const number = ++this.#reads;
    let fault = '';
    try {
      const lists = [await this.dead.read(), await this.waiting.read()];
      if (number !== this.#reads) return;
      this.dead.show(lists[0]);
      this.waiting.show(lists[1]);
    } catch (error) {
      if (number !== this.#reads) return;
      fault = error.message;
    }
    setText(this.#p.fault, fault);
    this.#p.retry.hidden = this.#p.discard.hidden = !this.dead.list.length;
  }

  // ---- changes of dead letters. POST retries, DELETE discards.

  async #request(method, query) {
    return (await request(this.#hub, `/.outbox${method === 'POST' ? '/retry' : ''}.json?${query}`, { method })).count;
  }

  async #change(method, id) {
    try { await this.#request(method, `id=${encodeURIComponent(id)}`); } catch (fault) { this.#hub.say(fault.message, { bad: true }); }
    await this.#read();
  }

  async #changeAll(method) {
    const isRetry = method === 'POST';
    if (!isRetry && !await askUser('Discard all dead letters?', 'They are dropped for good, also those that are not on this page.', 'Discard all', { bad: true })) return;
    try {
      this.#hub.say(`${plural(await this.#request(method, 'all=true'), 'dead letter')} ${isRetry ? 'will be tried again' : 'discarded'}.`);
    } catch (fault) {
      this.#hub.say(fault.message, { bad: true });
    }
    await this.#read();
  }

  // ---- a test

  #note(text, tone = 'quiet') {
    this.#p.note.className = tone;
    setText(this.#p.note, text);
  }

  async #send() {
    const p = this.#p, device = p.device.value.trim(), title = p.title.value.trim(), text = p.text.value.trim(), moves = this.#moves;
    if (!isValidPath(p.device)) return;
    p.send.disabled = true;
    this.#test = null;
    this.#note('Sending.');
    try {
      const { id } = await request(this.#hub, '/.outbox/test.json', { json: { device, ...(title && { title }), ...(text && { text }) } });
      if (moves !== this.#moves) return;
      this.#test = { id, device };
      this.#follow();
    } catch (fault) {
      if (moves === this.#moves) this.#note(fault.message, 'bad');
    } finally {
      p.send.disabled = false;
    }
  }

  /** Asks what became of the test until it is over, or the tab is hidden. */
  async #follow() {
    const test = this.#test;
    let wait = testEveryMs;
    while (this.#isShown && test && test === this.#test) {
      try {
        // A shorter text sorts before it. What dies between the two requests is found by the second one.
        const find = async (state) => (await listed(this.#hub, state, pageSize, test.id.slice(0, -1))).entries.find(({ id }) => id === test.id);
        const waiting = await find('waiting'), dead = waiting ? null : await find('dead');
        // The hub removes the row of a device that is gone. An administrator who acts as a user may not be able to read it.
        const row = waiting || dead ? '' : await request(this.#hub, this.#hub.placeAddress(test.device, { shallow: true })).catch(() => null);
        if (test !== this.#test) return;
        if (!waiting) {
          this.#test = null;
          if (dead) this.#note(`Not delivered: ${dead.reason}`, 'bad');
          else if (row === null) this.#note('It has left the outbox: the receiver has accepted it, or knows no such device any more.');
          else if (row === 'null') this.#note('The receiver knows no such device any more, so the hub has removed its row.', 'bad');
          else this.#note('Delivered: the receiver has accepted it.', 'good');
          return this.#read();
        }
        if (waiting.attempts) {
          this.#note(`Not delivered yet: ${failed(waiting.attempts)}, the next one is ${soon(waiting.due - this.#hub.realtime.serverNow)}.`, 'warn');
          if (wait !== everyMs) this.#read();
          wait = everyMs;
        }
      } catch (fault) {
        if (test === this.#test) this.#note(fault.message, 'bad');
        wait = everyMs;
      }
      await new Promise((done) => setTimeout(done, wait));
    }
  }
}

const failed = (attempts) => `${plural(attempts, 'attempt')} failed`;
const soon = (ms) => { const text = age(ms); return text === 'now' ? text : `in ${text}`; };
const past = (ms) => { const text = age(ms); return text === 'now' ? 'just now' : `${text} ago`; };

// ---- the deliveries of one state, the oldest first: as many pages as the user has asked for.

class Letters {
  #hub;
  #state;
  #hooks;
  #rows = new Map(); // an entry as JSON → its row
  #pages = 1;
  #isLive = false; // whether rows that appear are new: not those of a first or further page
  #p = {};
  list = [];
  reads = 0;

  /** hooks: more() shows a further page; change(method, id), for dead letters. */
  constructor(hub, state, hooks) {
    this.#hub = hub;
    this.#state = state;
    this.#hooks = hooks;
  }

  build(title, tools, blank) {
    const p = this.#p, hooks = this.#hooks;
    p.list = element('ul', { 'aria-label': title });
    p.isPressed = pressedIn(p.list, () => this.#paint());
    return element('section', { class: `outbox-${this.#state}`, 'aria-label': title },
      element('header', { class: 'pane-head' }, p.title = element('h2', { tabindex: '-1' }, title), p.count = element('span', { class: 'quiet' }), ...tools),
      p.list, p.more = button(`${pageSize} more`, () => { this.#pages++; this.#isLive = false; hooks.more(); }, { class: 'link', hidden: true }),
      p.blank = element('p', { class: 'blank', hidden: true }, ...blank));
  }

  async read() {
    const found = [], most = pageSize * this.#pages;
    let after;
    do {
      const page = await listed(this.#hub, this.#state, pageSize, after);
      found.push(...page.entries);
      after = page.next;
    } while (after && found.length < most);
    return found.slice(0, most);
  }

  show(list) {
    this.list = list;
    this.reads++;
    this.#paint();
    this.#isLive = true;
  }

  clear() {
    this.#pages = 1;
    this.#isLive = false;
    this.#rows.clear();
    this.#p.list.replaceChildren();
    this.list = [];
    this.reads = 0;
    this.#p.more.hidden = this.#p.blank.hidden = true;
    setText(this.#p.count, '');
  }

  #paint() {
    const p = this.#p, { list, reads } = this;
    if (!reads || p.isPressed()) return;
    const wanted = new Map(list.map((entry) => [JSON.stringify(entry), entry]));
    let lost = null; // the position of the row that had the focus
    for (const [name, row] of this.#rows) {
      if (wanted.has(name)) continue;
      if (row.contains(document.activeElement)) lost = [...p.list.children].indexOf(row);
      row.remove();
      this.#rows.delete(name);
    }
    let next = p.list.firstElementChild;
    for (const [name, entry] of wanted) {
      let row = this.#rows.get(name);
      if (!row) this.#rows.set(name, row = this.#row(entry, this.#isLive));
      if (row === next) next = next.nextElementSibling; else p.list.insertBefore(row, next);
      const now = this.#hub.realtime.serverNow;
      setText(row.querySelector('time'), this.#hooks.change ? past(now - entry.diedAt) : `${entry.attempts ? 'next' : 'first'} attempt ${soon(entry.due - now)}`);
    }
    if (lost !== null) (p.list.children[Math.min(lost, list.length - 1)]?.querySelector('.button') ?? p.title).focus();
    p.more.hidden = list.length < pageSize * this.#pages;
    p.blank.hidden = list.length > 0;
    setText(p.count, list.length ? `${list.length}${p.more.hidden ? '' : ' or more'}` : '');
  }

  #row({ id, title, webhook, device, reason, source, rule, attempts }, isNew) {
    const name = title ?? (webhook ? `Webhook ${webhook}` : device);
    const place = (path) => button(path, () => this.#hub.go({ tab: 'data', path }), { class: 'link mono' });
    const part = (...content) => element('span', {}, ...content);
    const { change } = this.#hooks;
    const act = (word, method) => button(word, () => change(method, id), { class: 'button plain', 'aria-label': `${word} ${name}` });
    return element('li', { class: isNew ? 'letter fresh' : 'letter', 'data-id': id },
      element('div', {}, element('strong', {}, name), reason ? element('p', { class: 'bad' }, reason) : null,
        element('p', { class: 'quiet letter-facts' }, element('time', {}), attempts ? part(failed(attempts)) : reason ? part('not retried') : null, device ? part('to ', place(device)) : null,
          rule === 'test' ? part('a test') : part('from ', place(source)), rule === 'test' ? null : part('by ', element('code', {}, rule)))),
      change && act('Retry', 'POST'), change && act('Discard', 'DELETE'));
  }
}
