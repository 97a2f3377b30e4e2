// The loaded content of one block of children while it is on the screen. A block of small values is one listen. A block with large
// values is split into smaller ones. Single large children are not listened to: only their names are shown, and refreshed from time to time.

import { LiveWindow } from '../client/live-trees.js';

const singlesFrom = 8;    // a block of at most this many children is not split further
const namedChildren = 9;  // names shown of a large child's children
const lookAgainMs = 5000;

/** A child that is loaded by itself: live when it is small, otherwise only its names. */
class Single {
  node = null;
  names = null;    // of a large child: the names of its first children; [] for a long text
  more = false;    // it has more children than the listed names
  kind = 'asking'; // asking | live | named | gone | failed
  window = null;
  #timer = 0;
  #abort = new AbortController();

  constructor(source, path, key, hooks) {
    this.key = key;
    this.#begin(source, path, hooks).catch((fault) => { if (fault.name !== 'AbortError') { this.kind = 'failed'; hooks.changed(); } });
  }

  async #begin(source, path, hooks) {
    const place = source.childPath(path, this.key), { signal } = this.#abort;
    if (await source.isSmall(place, {}, signal)) {
      if (signal.aborted) return;
      this.window = new LiveWindow(source.hub.realtime, path, { i: '.key', sp: this.key, sin: true, ep: this.key, ein: true }, {
        changed: (change, initial) => {
          this.node = this.window.model.root.child(this.key) ?? null;
          this.kind = this.node ? 'live' : 'gone';
          hooks.changed(change, initial);
        },
        failed: hooks.failed, lost: hooks.lost,
      });
      return;
    }
    const look = async () => {
      const value = await source.small(place, { shallow: 'true', limitToFirst: String(namedChildren) }, signal).catch((fault) => {
        if (fault.name === 'AbortError' || this.names) return null;
        throw fault;
      });
      if (signal.aborted) return;
      const all = value && typeof value === 'object' ? Object.keys(value) : [], names = all.slice(0, namedChildren - 1);
      const differs = this.names && names.join('/') !== this.names.join('/');
      this.names = names;
      this.more = all.length >= namedChildren;
      this.kind = 'named';
      hooks.changed(null, !differs);
      this.#timer = setTimeout(() => look().catch(() => {}), lookAgainMs);
    };
    await look();
  }

  end() {
    this.#abort.abort();
    clearTimeout(this.#timer);
    this.window?.end();
  }
}

/**
 * hooks: changed(change, initial, content): rows differ; change is null for named children. split(keys, size): the block is too large.
 * failed(refusal), lost().
 */
export class BlockContent {
  /** asking | live | singles */
  kind = 'asking';
  keys = null;    // of singles, in order
  #window = null;
  #singles = new Map();
  #source;
  #path;
  #hooks;
  #abort = new AbortController();

  /** block: { query, parameters, after, count, upper } as BlockList provides them. */
  constructor(source, path, block, hooks) {
    this.#source = source;
    this.#path = path;
    this.#hooks = hooks;
    this.#begin(block).catch((fault) => { if (fault.name !== 'AbortError') hooks.failed(fault); });
  }

  get isLive() { return Boolean(this.#window?.isLive); }
  get exported() { return this.#window.model.root.exported(); }
  get order() { return this.#window?.model.known ? this.#window.model.root.order ?? [] : null; }

  /** The child at an offset: { key, node, single }; null while unknown. */
  at(offset) {
    if (this.kind === 'live') {
      const node = this.order?.[offset];
      return node ? { key: node.key, node, single: null } : null;
    }
    const key = this.keys?.[offset];
    if (key === undefined) return null;
    const single = this.#singles.get(key) ?? null;
    return { key, node: single?.node ?? null, single };
  }

  /** Loads the single children between two offsets and releases all others. */
  show(from, to) {
    if (this.kind !== 'singles') return;
    const wanted = new Set(this.keys.slice(from, to + 1));
    for (const [key, single] of this.#singles) if (!wanted.has(key)) { single.end(); this.#singles.delete(key); }
    for (const key of wanted) {
      if (this.#singles.has(key)) continue;
      const { changed, failed, lost } = this.#hooks;
      this.#singles.set(key, new Single(this.#source, this.#path, key, { changed: (change = null, initial = true) => changed(change, initial, key), failed, lost }));
    }
  }

  end() {
    this.#abort.abort();
    this.#window?.end();
    for (const single of this.#singles.values()) single.end();
  }

  async #begin(block) {
    const { signal } = this.#abort;
    if (await this.#source.isSmall(this.#path, block.parameters, signal)) {
      if (signal.aborted) return;
      this.kind = 'live';
      const { changed, failed, lost } = this.#hooks;
      this.#window = new LiveWindow(this.#source.hub.realtime, this.#path, block.query, { changed: (change, initial) => changed(change, initial, null), failed, lost });
      return;
    }
    const keys = await this.#names(block, signal);
    if (signal.aborted) return;
    if (keys.length > singlesFrom) { this.#hooks.split(keys, Math.max(singlesFrom, Math.ceil(keys.length / 4))); return; }
    this.keys = keys;
    this.kind = 'singles';
    this.#hooks.changed(null, true, null);
  }

  async #names({ after, count, isInside }, signal) {
    const { keys } = await this.#source.page(this.#path, { after, limit: count + 100, signal });
    return keys.filter(isInside);
  }
}
