// Import and export of a place as a file of JSON, with progress and a way to stop.

import { elide, splitPath } from '../client/paths.js';
import { PlaceSource, fault, sizeOf } from '../client/place-source.js';
import { isNothing } from '../client/tree-model.js';
import { askUser, button, element, setText } from '../page/dom.js';
import { currentValue, summaryOf } from './edits.js';

const size = (bytes) => (bytes < 1000 ? `${bytes} bytes` : bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0)} MB`);

export class Transfer {
  #hub;
  #parts;
  #abort = null;

  constructor(hub) {
    this.#hub = hub;
    const bar = element('progress', { 'aria-label': 'Progress' }), text = element('span', {});
    const stop = button('Stop', () => this.#abort?.abort(), { class: 'button plain' });
    const file = element('input', { type: 'file', accept: '.json,application/json', hidden: true, id: 'import-file', 'aria-label': 'File to import' });
    file.addEventListener('change', () => { if (file.files[0]) this.importFile(file.path, file.files[0]); file.value = ''; });
    this.element = element('div', { class: 'transfer', role: 'status', hidden: true }, bar, text, stop);
    this.#parts = { bar, text, file };
    this.element.after(file);
    document.body.append(file);
  }

  /** Writes a place to a file, with priorities. It is a consistent state if the hub returns it in one answer. */
  exportFile(path) {
    return this.#run(`Exporting ${path}`, async (signal) => {
      const pieces = [];
      let bytes = 0;
      const isOneInstant = await exportPlace(this.#hub, path, (piece) => {
        bytes += piece.length;
        pieces.push(piece);
        // The browser can keep large pieces on its disk.
        if (pieces.length >= 512) pieces.splice(0, pieces.length, new Blob(pieces));
        this.#show(0, 0, size(bytes));
      }, signal);
      const address = URL.createObjectURL(new Blob(pieces, { type: 'application/json' }));
      const name = `${this.#hub.ns}${splitPath(path).map((part) => `-${part}`).join('')}`.replace(/[^\p{L}\p{N}._-]+/gu, '_');
      element('a', { href: address, download: `${elide(name, 80)}.json` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60000);
      this.#hub.say(`Exported ${path}: ${size(bytes)}.${isOneInstant ? '' : ' It came child by child: of what was written meanwhile, some is in it and some is not.'}`);
    });
  }

  /** Asks for a file and imports it. */
  chooseFile(path) {
    this.#parts.file.path = path;
    this.#parts.file.click();
  }

  /** Replaces a place by the content of a file. */
  async importFile(path, file) {
    let before;
    try {
      before = await currentValue(this.#hub, path);
    } catch (error) {
      this.#hub.say(error.message, { bad: true });
      return;
    }
    const holds = before.large || !isNothing(before.value);
    const undo = before.large ? ' It cannot be taken back.' : '';
    if (holds && !await askUser(`Replace ${path}?`, `It holds ${summaryOf(before)}. All of it is replaced by ${file.name} (${size(file.size)}).${undo}`, 'Replace', { bad: true })) return;
    await this.#run(`Importing ${file.name}`, async (signal) => {
      await this.#put(path, file, signal);
      const action = before.large ? null : { title: 'Undo', run: () => this.#run(`Putting back ${path}`, (again) => this.#put(path, new Blob([JSON.stringify(before.value)]), again)) };
      this.#hub.say(`Imported ${size(file.size)} at ${path}.`, { action });
    });
  }

  /** With XMLHttpRequest, as fetch does not report upload progress. */
  async #put(path, body, signal) {
    const { credentials, base, ns } = this.#hub;
    const token = await credentials.fresh();
    const parameters = { print: 'silent', writeSizeLimit: 'unlimited', ns };
    if (credentials.actAs !== undefined) parameters.auth_variable_override = JSON.stringify(credentials.actAs);
    await new Promise((done, fail) => {
      const request = new XMLHttpRequest();
      request.open('PUT', base + this.#hub.placeAddress(path, parameters));
      if (token) request.setRequestHeader('Authorization', `Bearer ${token}`);
      request.upload.onprogress = ({ loaded, total }) => this.#show(loaded, total, loaded < total ? `${size(loaded)} of ${size(total)}` : 'The hub stores it');
      request.onload = () => {
        if (request.status < 300) { done(); return; }
        fault(new Response(request.responseText, { status: request.status })).then(fail);
      };
      request.onerror = () => fail(new Error('The connection ended: the hub may or may not have taken it.'));
      request.onabort = () => fail(new DOMException('', 'AbortError'));
      signal.addEventListener('abort', () => request.abort());
      request.send(body);
    });
  }

  async #run(title, work) {
    if (this.#abort) { this.#hub.say('Wait for the transfer that is under way.'); return; }
    this.#abort = new AbortController();
    this.title = title;
    this.#show(0, 0, '');
    this.element.hidden = false;
    try {
      await work(this.#abort.signal);
    } catch (error) {
      this.#hub.say(error.name === 'AbortError' ? `${title}: stopped.` : `${title} failed. ${error.message}`, { bad: error.name !== 'AbortError' });
    } finally {
      this.#abort = null;
      this.element.hidden = true;
    }
  }

  #show(part, whole, words) {
    const { bar, text } = this.#parts;
    if (whole) { bar.max = whole; bar.value = part; } else bar.removeAttribute('value');
    setText(text, `${this.title} ${words}`);
  }
}

// ---- export

// A place as one file of JSON, of any size. If the hub returns it in one answer, that is the file. Otherwise it consists of runs of the children,
// and for a child that is too large, of its children. Answers are passed through as they arrive: nothing is parsed, or held as a whole.

const openBrace = 123;

/**
 * take(piece) gets the file's bytes in order. Resolves with whether they are a consistent state of the place. runBytes: most bytes of a
 * run of several children; namesAtOnce: children named in one answer.
 */
export async function exportPlace(hub, path, take, signal, { runBytes = 32 << 20, namesAtOnce = 1000 } = {}) {
  const source = new PlaceSource(hub), encoder = new TextEncoder();
  const text = (words) => take(encoder.encode(words));

  async function get(at, parameters = {}) {
    const response = await hub.fetch(hub.placeAddress(at, { ...parameters, format: 'export' }), { signal });
    if (!response.ok) throw await fault(response);
    return response;
  }

  /** Each piece of an answer as it comes. */
  async function* pieces(response) {
    const body = response.body.getReader();
    for (let piece = await body.read(); !piece.done; piece = await body.read()) yield piece.value;
  }

  async function place(at) {
    if (await sizeOf(hub, at, Number.MAX_SAFE_INTEGER, { signal }) === null) { await children(at); return false; }
    for await (const piece of pieces(await get(at))) take(piece);
    return true;
  }

  async function children(at) {
    let isFirst = true;
    const member = () => { text(isFirst ? '{' : ','); isFirst = false; };

    /** The members of an answer, without its braces. */
    async function members(parameters) {
      let held = null;
      for await (const piece of pieces(await get(at, parameters))) {
        if (held) take(held);
        else if (piece[0] !== openBrace) return; // null: they were removed meanwhile
        else member();
        held = held ? piece : piece.subarray(1);
      }
      if (held) take(held.subarray(0, -1));
    }

    async function run(keys) {
      const parameters = { orderBy: '"$key"', startAt: JSON.stringify(keys[0]), endAt: JSON.stringify(keys.at(-1)) };
      if (await sizeOf(hub, at, runBytes, { parameters, signal }) !== null) { await members(parameters); return; }
      if (keys.length > 1) {
        const half = keys.length >> 1;
        await run(keys.slice(0, half));
        await run(keys.slice(half));
        return;
      }
      member();
      text(`${JSON.stringify(keys[0])}:`);
      await place(source.childPath(at, keys[0]));
    }

    for (let after = null; ;) {
      const { keys, leaf } = await source.page(at, { after, limit: namesAtOnce, signal });
      if (isFirst && leaf !== undefined && leaf !== null) { text(JSON.stringify(leaf)); return; } // overwritten meanwhile
      if (keys.length) await run(keys);
      if (keys.length < namesAtOnce) break;
      after = keys.at(-1);
    }
    if (isFirst) { text('null'); return; }
    const priority = await (await get(source.childPath(at, '.priority'))).text();
    if (priority !== 'null') text(`,".priority":${priority}`);
    text('}');
  }

  return place(path);
}
