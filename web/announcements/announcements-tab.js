// Announcements: the newest children of a place as a feed, with their counters live, and a form that adds one.

import { LiveWindow } from '../client/live-trees.js';
import { elide, joinPath, splitPath } from '../client/paths.js';
import { Edits, refusalText } from '../data/edits.js';
import { age, button, element, field, isValidPath, pathInput, perFrame, plural, pressedIn, select, setText } from '../page/dom.js';

const shownAtFirst = 50;
const textNames = ['text', 'message', 'body', 'description'];
const known = new Set([...textNames, 'title', 'name', 'at', 'timestamp', 'time', 'createdAt', 'until', 'by', 'author', 'user', 'severity']);

// The counters of a rule's "funnel", in the order in which they are shown.
const funnelNames = ['sent', 'delivered', 'failed', 'skipped', 'combined', 'unreachable'];

/** A place's counters as a funnel, such as ["12 sent", "10 delivered"]. */
const funnelOf = (node) => funnelNames.filter((name) => typeof node.child(name)?.value === 'number').map((name) => `${node.child(name).value.toLocaleString('en')} ${name}`);

export function makeTab(hub) { return new NewsTab(hub); }

class NewsTab {
  #hub;
  #p = {};
  #edits;
  #window = null;
  #refusal = null;
  #limit = shownAtFirst;
  #items = new Map(); // key → li
  #lit = new Set();   // keys to light up in the next frame
  #visible = false;
  #draw = perFrame(() => this.#paint());
  #isPressed;

  constructor(hub) {
    this.#hub = hub;
    this.#edits = new Edits(hub);
    this.element = this.#build();
    this.#isPressed = pressedIn(this.#p.list, this.#draw);
    hub.on('link', (link, before) => { if (link.news !== before.news && this.#visible) this.#open(); });
    hub.on('moved', () => { if (this.#visible) this.#open(); });
    setInterval(() => { if (this.#visible) this.#draw(); }, 5000);
  }

  get state() { return { path: this.#path, refused: this.#refusal?.code ?? null, items: [...this.#p.list.children].map((item) => item.innerText), keys: [...this.#p.list.children].map((item) => item.dataset.key) }; }

  get #path() { return this.#hub.link.news || '/announcements'; }

  show() {
    this.#visible = true;
    this.#open();
  }

  hide() {
    this.#visible = false;
    this.#window?.end();
    this.#window = null;
  }

  #open() {
    this.#window?.end();
    this.#refusal = null;
    this.#items.clear();
    this.#p.list.replaceChildren();
    this.#p.path.value = this.#path;
    const fresh = (change, initial) => {
      for (let node of initial ? [] : [...change.added, ...change.changed]) {
        while (node.parent?.parent) node = node.parent;
        this.#lit.add(node.key);
      }
      this.#draw();
    };
    this.#window = new LiveWindow(this.#hub.realtime, this.#path, { i: '.key', l: this.#limit, vf: 'r' }, {
      changed: fresh, failed: (refusal) => { this.#refusal = refusal; this.#draw(); }, lost: () => this.#draw(),
    });
    this.#draw();
  }

  #paint() {
    if (this.#isPressed()) return;
    const { list, blank, count, more } = this.#p;
    const order = this.#refusal || !this.#window ? [] : this.#window.model.root.order ?? [];
    const wanted = new Set(order.map((node) => node.key));
    for (const [key, item] of this.#items) if (!wanted.has(key)) { item.remove(); this.#items.delete(key); }
    let next = list.firstElementChild;
    for (const node of [...order].reverse()) {
      let item = this.#items.get(node.key);
      if (!item) {
        item = this.#make(node.key);
        this.#items.set(node.key, item);
      }
      if (item === next) next = next.nextElementSibling; else list.insertBefore(item, next);
      this.#fill(item, node);
      if (!this.#lit.has(node.key)) continue;
      item.classList.remove('fresh');
      void item.offsetWidth; // restarts the animation
      item.classList.add('fresh');
    }
    this.#lit.clear();
    more.hidden = order.length < this.#limit;
    setText(count, order.length ? `${plural(order.length, 'announcement')}${more.hidden ? '' : ' or more'}` : '');
    blank.hidden = order.length > 0;
    setText(blank, this.#refusal ? (this.#refusal.code === 'permission_denied' ? `The rules do not let you read ${this.#path}.` : this.#refusal.message)
      : this.#window?.isLive ? `Nothing at ${this.#path} yet. What is announced appears here at once, and on every device that listens.` : 'Loading.');
  }

  #make(key) {
    const parts = { title: element('strong', { class: 'news-title' }), text: element('p', { class: 'news-text' }), facts: element('p', { class: 'quiet news-facts' }), counters: element('p', { class: 'news-counters' }), funnel: element('p', { class: 'quiet news-funnel' }) };
    const place = () => joinPath([...splitPath(this.#path), key]);
    const item = element('li', { class: 'news', 'data-key': key }, parts.title, parts.text, parts.counters, parts.funnel,
      element('div', { class: 'news-foot' }, parts.facts,
        button('Show', () => { this.#hub.go({ tab: 'data', path: this.#path }); this.#hub.select(place()); }, { class: 'button plain' }),
        button('Remove', () => this.#edits.remove(place()), { class: 'button plain', 'aria-label': `Remove ${key}` })));
    item.parts = parts;
    item.addEventListener('animationend', () => item.classList.remove('fresh'));
    return item;
  }

  #fill(item, node) {
    const { title, text, facts, counters, funnel } = item.parts;
    const textOf = (names) => node.firstValue(names, 'string'), numberOf = (names) => node.firstValue(names, 'number');
    const heading = textOf(['title', 'name']), body = textOf(textNames);
    setText(title, elide(heading ?? body ?? (node.isLeaf ? String(node.value) : node.key), 200));
    setText(text, heading ? elide(body ?? '', 1000) : '');
    const now = this.#hub.realtime.serverNow, at = numberOf(['at', 'timestamp', 'time', 'createdAt']), until = numberOf(['until']);
    const severity = textOf(['severity']) ?? 'info';
    item.dataset.severity = severity;
    const said = [severity === 'info' ? '' : severity, at ? age(now - at) : '', textOf(['by', 'author', 'user']) ?? '', until ? (until > now ? `for ${age(until - now)}` : 'over') : '', elide(node.key, 24)];
    setText(facts, said.filter(Boolean).join(' · '));
    item.toggleAttribute('data-over', Boolean(until && until <= now));
    const children = node.order ?? [], place = [node, ...children].find((one) => funnelOf(one).length);
    setText(funnel, place ? funnelOf(place).join(' · ') : '');
    const isFunnel = (child) => child === place || (place === node && funnelNames.includes(child.key));
    const counted = children.filter((child) => !known.has(child.key) && !isFunnel(child) && (child.count || typeof child.value === 'number'));
    setText(counters, counted.slice(0, 6).map((child) => `${elide(child.key, 30)} ${(child.count || child.value).toLocaleString('en')}`).join(' · '));
  }

  async #send() {
    const p = this.#p, title = p.title.value.trim(), text = p.text.value.trim();
    setText(p.result, '');
    if (!title && !text) { setText(p.result, 'Type a title or a text.'); return; }
    const by = this.#hub.identity?.uid;
    const value = { ...(title && { title }), ...(text && { text }), severity: p.severity.value, at: { '.sv': 'timestamp' }, ...(by && { by }) };
    if (p.until.value) value.until = Math.round(this.#hub.realtime.serverNow + Number(p.until.value) * 60000);
    p.send.disabled = true;
    try {
      await this.#hub.realtime.push(this.#path, value);
      p.title.value = p.text.value = '';
      this.#hub.say(`Announced at ${this.#path}.`);
    } catch (error) {
      setText(p.result, refusalText(error));
    } finally {
      p.send.disabled = false;
    }
  }

  #build() {
    const p = this.#p;
    p.path = pathInput({ id: 'news-path', 'aria-label': 'Place of the announcements' });
    const goTo = (event) => {
      event.preventDefault();
      if (isValidPath(p.path)) { this.#limit = shownAtFirst; this.#hub.go({ news: p.path.value.trim() }); }
    };
    p.more = button('Show older', () => { this.#limit *= 2; this.#open(); }, { hidden: true });
    return element('section', { class: 'news-tab', 'aria-label': 'Announcements' },
      element('div', { class: 'news-feed' },
        element('form', { class: 'bar', autocomplete: 'off', onsubmit: goTo }, element('span', { class: 'path' }, p.path), p.count = element('span', { class: 'quiet', id: 'news-count' }), element('button', { class: 'button' }, 'Show')),
        element('div', { class: 'news-scroll', tabindex: '0', role: 'region', 'aria-label': 'Feed' }, p.list = element('ol', { class: 'news-list', id: 'news' }), p.more, p.blank = element('div', { class: 'blank' }))),
      element('div', { class: 'news-side' }, element('header', { class: 'pane-head' }, element('h2', {}, 'Announce')),
        element('form', { class: 'news-form', autocomplete: 'off', onsubmit: (event) => { event.preventDefault(); this.#send(); } },
          field('Title', p.title = element('input', { id: 'news-title', maxlength: '200' })),
          p.text = element('textarea', { id: 'news-text', rows: '4', 'aria-label': 'Text', placeholder: 'Text' }),
          element('div', { class: 'news-row' }, field('Severity', p.severity = select({}, [['info', 'info'], ['notice', 'notice'], ['urgent', 'urgent']])),
            field('Holds for', p.until = select({}, [['', 'ever'], ['60', 'an hour'], ['1440', 'a day'], ['10080', 'a week']]))),
          p.result = element('p', { class: 'bad', role: 'alert' }), p.send = element('button', { class: 'button primary', id: 'announce' }, 'Announce'))));
  }
}
