// Tiles under the map, from an address typed into the page; by default the page requests data only from its hub. The address is kept in this
// browser only. A link does not contain it, so that no link can make a page call a foreign server.

import { button, element, field, setText, textInput } from '../page/dom.js';

const stored = 'vigla.map-tiles';
const side = 256;           // pixels of a tile's side
const closest = 19;         // highest zoom that tile servers offer
const atOnce = 120;         // most tiles of one picture
const kept = 400;
const coarser = 4;          // coarser levels to substitute while a tile loads

/** The fault of a tile address, as a sentence; null for a valid or empty one. */
export function tilesFault(address) {
  if (!address) return null;
  if (!/^https?:\/\/./.test(address)) return 'The address begins with “https:”, or with “http:”.';
  const missing = ['{z}', '{x}', '{y}'].filter((part) => !address.includes(part));
  return missing.length ? `The address has ${missing.join(', ')} where the numbers of a tile go.` : null;
}

export class MapTiles {
  address = '';
  credit = '';
  failed = false;   // the last requested tile did not load
  #images = new Map(); // address → image, the oldest first
  #changed;

  /** changed(): a tile has loaded or failed. storage: where the address is kept (localStorage). */
  constructor(changed, storage = localStorage) {
    this.#changed = changed;
    this.storage = storage;
    try {
      const { address, credit } = JSON.parse(storage.getItem(stored)) ?? {};
      if (typeof address === 'string' && !tilesFault(address)) Object.assign(this, { address, credit: String(credit ?? '') });
    } catch { /* not allowed to keep anything, or something else was kept there */ }
  }

  get images() { return [...this.#images.values()]; }

  /** Uses tiles from this address from now on, none for ''; throws an Error with a sentence. credit: the attribution on the map. */
  set(address, credit = '') {
    const fault = tilesFault(address);
    if (fault) throw new Error(fault);
    Object.assign(this, { address, credit: address ? credit : '', failed: false });
    this.#images.clear();
    try {
      if (address) this.storage.setItem(stored, JSON.stringify({ address, credit })); else this.storage.removeItem(stored);
    } catch { /* they are there until the page is closed */ }
    this.#changed();
  }

  /** Draws the loaded tiles and requests the others. True if an address is set. */
  draw(pen, { scale, view, width, height }) {
    if (!this.address) return false;
    const z = Math.max(0, Math.min(closest, Math.round(Math.log2(scale / side)))), count = 2 ** z, size = scale / count;
    const left = view.x * scale - width / 2, top = view.y * scale - height / 2;
    const first = (start) => Math.max(0, Math.floor(start / size)), last = (end) => Math.min(count - 1, Math.floor(end / size));
    let drawn = 0;
    for (let y = first(top); y <= last(top + height); y++) {
      for (let x = first(left); x <= last(left + width) && drawn < atOnce; x++) {
        drawn += 1;
        this.#tile(pen, z, x, y, x * size - left, y * size - top, size);
      }
    }
    return true;
  }

  #tile(pen, z, x, y, left, top, size) {
    const image = this.#image(z, x, y, true);
    // Half a pixel larger, so that no seams show between tiles.
    if (image) { pen.drawImage(image, left, top, size + 0.5, size + 0.5); return; }
    for (let up = 1; up <= Math.min(coarser, z); up++) {
      const whole = this.#image(z - up, x >> up, y >> up, false), part = side >> up, mask = (1 << up) - 1;
      if (!whole) continue;
      pen.drawImage(whole, (x & mask) * part, (y & mask) * part, part, part, left, top, size + 0.5, size + 0.5);
      return;
    }
  }

  /** A loaded tile; null if it is not loaded, and then requested if `wanted`. */
  #image(z, x, y, wanted) {
    const address = this.address.replaceAll('{z}', z).replaceAll('{x}', x).replaceAll('{y}', y);
    let image = this.#images.get(address);
    if (image && wanted) { this.#images.delete(address); this.#images.set(address, image); }
    if (!image && wanted) {
      image = new Image();
      image.referrerPolicy = 'origin'; // tile servers want to know which site shows them
      image.onload = () => { image.isThere = true; this.failed = false; this.#changed(); };
      image.onerror = () => { this.failed = true; this.#changed(); };
      image.src = address;
      this.#images.set(address, image);
      if (this.#images.size > kept) this.#images.delete(this.#images.keys().next().value);
    }
    return image?.isThere ? image : null;
  }
}

/** Asks for the address of tiles in a sheet. */
export function askForTiles(tiles) {
  const address = textInput({ id: 'tiles-address', inputmode: 'url', value: tiles.address }), addressField = field('Address, with {z}, {x} and {y}', address);
  const credit = textInput({ id: 'tiles-credit', value: tiles.credit }), creditField = field('Words on the map, as whose they are asks for', credit);
  const fault = element('p', { class: 'bad', role: 'alert' });
  const close = () => { dialog.close(); dialog.remove(); };
  const set = (...wanted) => {
    try { tiles.set(...wanted); close(); } catch (error) { setText(fault, error.message); address.focus(); }
  };
  const dialog = element('dialog', { class: 'ask', 'aria-label': 'Tiles of the map', oncancel: (event) => { event.preventDefault(); close(); } },
    element('form', { class: 'tiles-form', novalidate: true, onsubmit: (event) => { event.preventDefault(); set(address.value.trim(), credit.value.trim()); } },
      element('h2', {}, 'Tiles under the map'),
      element('p', {}, 'The page asks that server for pictures of the places you look at. The address is kept in this browser, not in links.'),
      addressField, creditField, fault,
      element('div', { class: 'ask-foot' },
        button('No tiles', () => set(''), { id: 'tiles-none' }),
        button('Cancel', close),
        element('button', { class: 'button primary', id: 'tiles-set' }, 'Show them'))));
  document.body.append(dialog);
  dialog.showModal();
}
