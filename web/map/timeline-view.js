// The children of one place as a list, newest first. Fed by a live tree; a change touches only its own rows.

import { compareKeys, elide } from '../client/paths.js';
import { age, button, element, perFrame, plural, pressedIn, preview, setText } from '../page/dom.js';

const pageSize = 80;

export class TimelineView {
  #parts;
  #hooks;
  #tree = null;
  #rows = new Map(); // Node → li
  #stale = new Set();
  #fresh = new Set();
  #limit = pageSize;
  #flush = perFrame(() => this.#paint());
  #isPressed;

  /** parts: list, blank, count. hooks: mark(node | null), go(node), serverNow() in ms. */
  constructor(parts, hooks) {
    this.#parts = parts;
    this.#hooks = hooks;
    this.#isPressed = pressedIn(parts.list, this.#flush);
    setInterval(() => this.#ages(), 5000);
    this.#flush();
  }

  /** Keys of the listed entries, newest first. */
  get keys() { return [...this.#rows.keys()].map((node) => node.key).sort((a, b) => compareKeys(b, a)); }

  show(tree) {
    this.#tree = tree;
    this.#rows.clear();
    this.#stale.clear();
    this.#fresh.clear();
    this.#limit = pageSize;
    this.#parts.list.replaceChildren();
    this.#flush();
  }

  change(change, tree) {
    if (tree !== this.#tree) return;
    const top = tree.model.root;
    for (const node of change.removed) if (node.parent === top) this.#stale.delete(node);
    for (const node of change.added) if (node.parent === top && !change.initial) this.#fresh.add(node);
    for (const node of [...change.changed, ...change.structure, ...change.added]) {
      let entry = node;
      while (entry.parent && entry.parent !== top) entry = entry.parent;
      if (entry.parent === top) this.#stale.add(entry);
    }
    this.#flush();
  }

  state() { this.#flush(); }

  #paint() {
    if (this.#isPressed()) return;
    const { list, blank, count } = this.#parts;
    const root = this.#tree?.model.root;
    const order = root?.order ?? [];
    const wanted = order.slice(-this.#limit).reverse();
    const keep = new Set(wanted);
    for (const [node, item] of this.#rows) {
      if (keep.has(node)) continue;
      this.#rows.delete(node);
      item.remove();
    }
    let place = list.firstElementChild;
    for (const node of wanted) {
      const item = this.#rows.get(node);
      if (item) {
        if (this.#stale.has(node)) fill(item, node, this.#hooks.serverNow());
        if (item === place) place = place.nextElementSibling; else list.insertBefore(item, place);
        continue;
      }
      const made = this.#make(node);
      this.#rows.set(node, made);
      list.insertBefore(made, place);
    }
    list.querySelector('.more')?.remove();
    if (order.length > this.#limit) {
      list.append(element('li', { class: 'more' }, button(`Show older (${(order.length - this.#limit).toLocaleString('en')})`, () => { this.#limit += pageSize * 2; this.#flush(); }, { class: 'link' })));
    }
    this.#stale.clear();
    this.#fresh.clear();
    setText(count, order.length ? plural(order.length, 'entry', 'entries') : '');
    blank.hidden = order.length > 0;
    if (order.length === 0) {
      const state = this.#tree?.state;
      setText(blank, !this.#tree ? 'Name a path, such as /timeline/ana, to list its children as they arrive.'
        : state === 'refused' ? `The rules do not let you read ${this.#tree.path}. Connect with a token that may.`
          : state === 'loading' ? 'Waiting for the hub.' : `Nothing at ${this.#tree.path} yet. Entries appear here as they arrive.`);
    }
  }

  #make(node) {
    const item = element('li', { class: this.#fresh.has(node) ? 'post fresh' : 'post' },
      element('button', {
        type: 'button',
        onclick: () => this.#hooks.go(node),
        onpointerenter: () => this.#hooks.mark(node), onpointerleave: () => this.#hooks.mark(null),
        onfocus: () => this.#hooks.mark(node), onblur: () => this.#hooks.mark(null),
      }, element('span', { class: 'post-title' }), element('span', { class: 'post-facts quiet' }), element('time', { class: 'quiet' })));
    fill(item, node, this.#hooks.serverNow());
    setTimeout(() => item.classList.remove('fresh'), 1700);
    return item;
  }

  #ages() {
    const now = this.#hooks.serverNow();
    for (const [node, item] of this.#rows) setText(item.querySelector('time'), ageOf(node, now));
  }
}

function fill(item, node, now) {
  const text = node.firstValue(['description', 'title', 'text', 'name', 'message'], 'string');
  setText(item.querySelector('.post-title'), elide(text ?? (node.isLeaf ? preview(node.value, 120) : node.key), 200));
  const facts = [];
  for (const key of ['user', 'author', 'status']) {
    const value = node.child(key)?.value;
    if (typeof value === 'string') facts.push(value);
  }
  if (node.child('policeArrived')?.value === true) facts.push('police arrived');
  if (node.child('falseAlarm')?.value === true) facts.push('false alarm');
  if (text || node.isLeaf) facts.push(elide(node.key, 24));
  setText(item.querySelector('.post-facts'), facts.join(' · '));
  setText(item.querySelector('time'), ageOf(node, now));
}

/** Times below 1e11 are seconds: the year 5138 is far enough. */
function ageOf(node, now) {
  const time = node.firstValue(['timestamp', 'at', 'createdAt', 'time'], 'number');
  return time ? age(now - (time < 1e11 ? time * 1000 : time)) : '';
}
