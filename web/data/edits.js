// Changes made by hand, each of which can be undone as long as the page is open: set, add, rename, clone, remove.

import { elide, joinPath, splitPath } from '../client/paths.js';
import { fault, sizeOf } from '../client/place-source.js';
import { isNothing } from '../client/tree-model.js';
import { askUser, plural, preview } from '../page/dom.js';

const keptBytes = 8 << 20;     // most bytes remembered of one change, to undo it
const socketLength = 400000;   // larger writes go over REST
const keptSteps = 50;
const namedAtMost = 200;     // most names of an update that can be undone

/** The current value of a place: { value } in export form, or { large: true } if it exceeds what is remembered. */
export async function currentValue(hub, path) {
  if (await sizeOf(hub, path, keptBytes) === null) return { large: true };
  const response = await hub.fetch(hub.placeAddress(path, { format: 'export' }));
  if (!response.ok) throw await fault(response);
  return { value: await response.json() };
}

/** "5", "3 children (a, b, c)": what a write would replace; "" for an empty place. */
export function summaryOf({ value, large }) {
  if (large) return `more than ${keptBytes >> 20} MB of data`;
  if (isNothing(value)) return '';
  if (typeof value !== 'object' || '.value' in value) return preview(typeof value === 'object' ? value['.value'] : value, 60);
  const keys = Object.keys(value).filter((key) => key !== '.priority');
  return `${plural(keys.length, 'child', 'children')} (${elide(keys.slice(0, 4).join(', '), 60)}${keys.length > 4 ? ', …' : ''})`;
}

export class Edits {
  #hub;
  #steps = []; // { text, undo() }

  constructor(hub) {
    this.#hub = hub;
    hub.on('moved', () => { this.#steps = []; });
  }

  get count() { return this.#steps.length; }

  /** Replaces the value of a place. */
  set(path, value, done = `Wrote ${path}.`) {
    return this.#run(async () => {
      const before = await currentValue(this.#hub, path);
      await this.#write(path, value);
      return { text: done, undo: before.large ? null : () => this.#write(path, before.value) };
    });
  }

  /** Adds a child; without a key under one that sorts by time. */
  add(path, key, value) {
    return this.#run(async () => {
      const place = joinPath([...splitPath(path), key || this.#hub.realtime.newKey()]);
      const before = await currentValue(this.#hub, place);
      if (!isNothing(before.value ?? null) || before.large) {
        if (!await askUser('Something is there already', `${place} holds ${summaryOf(before)}. Replace it?`, 'Replace', { bad: true })) return null;
      }
      await this.#write(place, value);
      return { text: `Added ${place}.`, place, undo: before.large ? null : () => this.#write(place, before.value ?? null) };
    });
  }

  /** Copies a place to another key; `keep` also keeps the old one. */
  copy(path, key, { keep }) {
    return this.#run(async () => {
      const parts = splitPath(path), from = parts.pop(), parent = joinPath(parts), place = joinPath([...parts, key]);
      if (place === path) return null;
      const what = await currentValue(this.#hub, path), before = await currentValue(this.#hub, place);
      if (what.large) throw new Error(`${path} is more than ${keptBytes >> 20} MB: export it, and import it at ${place}.`);
      if (isNothing(what.value)) throw new Error(`There is nothing at ${path} any more.`);
      if (before.large || !isNothing(before.value)) {
        if (!await askUser('Something is there already', `${place} holds ${summaryOf(before)}. Replace it?`, 'Replace', { bad: true })) return null;
      }
      await this.#update(parent, keep ? { [key]: what.value } : { [key]: what.value, [from]: null });
      const undo = () => this.#update(parent, keep ? { [key]: before.value } : { [key]: before.value, [from]: what.value });
      return { text: keep ? `Cloned ${path} to ${place}.` : `Renamed ${path} to ${place}.`, place, undo: before.large ? null : undo };
    });
  }

  remove(path) {
    return this.#run(async () => {
      const before = await currentValue(this.#hub, path);
      if (!before.large && isNothing(before.value)) throw new Error(`There is nothing at ${path}.`);
      const isObject = before.large || (typeof before.value === 'object' && !('.value' in before.value));
      if (isObject || splitPath(path).length === 0) {
        const after = before.large ? ' This cannot be taken back: export it first.' : '';
        if (!await askUser(`Remove ${path}?`, `It holds ${summaryOf(before)}.${after}`, 'Remove', { bad: true })) return null;
      }
      await this.#write(path, null);
      return { text: `Removed ${path}.`, undo: before.large ? null : () => this.#write(path, before.value) };
    });
  }

  /** Undoes the last change. */
  async undo() {
    const step = this.#steps.at(-1);
    if (!step) { this.#hub.say('There is nothing to take back.'); return; }
    await this.#undoStep(step);
  }

  async #undoStep(step) {
    if (!this.#steps.includes(step)) { this.#hub.say('That was taken back already, or is too long ago.'); return; }
    this.#steps = this.#steps.filter((other) => other !== step);
    try {
      await step.undo();
      this.#hub.say(`Taken back: ${step.text}`);
    } catch (error) {
      this.#hub.say(`Could not take it back. ${refusalText(error)}`, { bad: true });
    }
  }

  /**
   * Records a write of the form that replaced `before` ({ value } or { large }). Returns a function that undoes it, null when that is
   * impossible. The form itself reports the write.
   */
  wrote(path, before, text) { return this.#keep({ text, undo: before.large ? null : () => this.#write(path, before.value) }); }

  /** The same for an update, with the previous values of its names (`beforeUpdate`). */
  updated(path, before, text) { return this.#keep({ text, undo: before && (() => this.#update(path, before)) }); }

  /** The current values of the places in an update of `path`: { name: value }; null if they exceed what is remembered, or may not be read. */
  async beforeUpdate(path, names) {
    if (names.length > namedAtMost) return null;
    const places = names.map((name) => joinPath([...splitPath(path), ...splitPath(name)]));
    try {
      const sizes = await Promise.all(places.map((place) => sizeOf(this.#hub, place, keptBytes)));
      if (sizes.reduce((sum, size) => sum + (size ?? Infinity), 0) > keptBytes) return null;
      const found = await Promise.all(places.map((place) => currentValue(this.#hub, place)));
      return found.some(({ large }) => large) ? null : Object.fromEntries(found.map(({ value }, i) => [names[i], value]));
    } catch {
      return null; // a user who may write need not be able to read
    }
  }

  #keep(step) {
    if (!step.undo) return null;
    this.#steps.push(step);
    if (this.#steps.length > keptSteps) this.#steps.shift();
    return () => this.#undoStep(step);
  }

  #done(step) {
    const undo = this.#keep(step);
    this.#hub.say(step.text, undo ? { action: { title: 'Undo', run: undo } } : {});
  }

  /** Returns the step, or null if it failed. */
  async #run(work) {
    try {
      const step = await work();
      if (step) this.#done(step);
      return step;
    } catch (error) {
      this.#hub.say(refusalText(error), { bad: true });
      return null;
    }
  }

  #write(path, value) { return write(this.#hub, path, value); }

  async #update(path, entries) {
    const text = JSON.stringify(entries);
    if (text.length <= socketLength) return this.#hub.realtime.update(path, entries);
    return send(this.#hub, path, text, 'PATCH');
  }
}

/** Writes a value: a small one over the socket, a large one over REST. */
export async function write(hub, path, value) {
  const text = JSON.stringify(value);
  if (text.length <= socketLength) return hub.realtime.set(path, value);
  return send(hub, path, text, 'PUT');
}

async function send(hub, path, text, method) {
  const response = await hub.fetch(hub.placeAddress(path, { print: 'silent' }), { method, body: text });
  if (!response.ok) throw await fault(response);
}

/** A refusal as a sentence. */
export function refusalText(error) {
  if (error.code === 'permission_denied') return 'The rules do not allow it. Sign in as someone who may, or change the rules.';
  if (error.code && error.code !== 'disconnected') return `The hub refused (${error.code}): ${error.message}`;
  return error.message;
}
