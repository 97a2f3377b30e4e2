// Writing JSON at the selected place: set, update (several paths at once), push, remove. It always follows the selection. Input is checked before
// it is sent; a write that removes data lists it and asks for confirmation.

import { joinPath, normalPath, pathFault, splitPath } from '../client/paths.js';
import { isNothing } from '../client/tree-model.js';
import { button, element, setText, textInput } from '../page/dom.js';
import { TextFault, readValue } from '../page/json-text.js';
import { currentValue, refusalText, summaryOf, write } from './edits.js';

const verbs = { set: 'Set', update: 'Update', push: 'Push', remove: 'Remove' };
const loadedLength = 20000; // a longer value is loaded only on request
const example = '{\n  "hello": "world"\n}';

export class WriteForm {
  #hub;
  #p = {};
  #sure = false;    // the second press for a write that removes data
  #typed = false;   // the text was typed, not loaded
  #timer = 0;
  #known;
  #edits;
  #before = null;   // the current value of the place that a set or removal would replace: { value } or { large }

  /** edits: undoes changes; known(path): the value there in export form, undefined if it is not loaded. */
  constructor(hub, edits, known) {
    this.#hub = hub;
    this.#edits = edits;
    this.#known = known;
    this.element = this.#build();
    const p = this.#p;
    p.form.addEventListener('submit', (event) => { event.preventDefault(); this.send(); });
    p.json.addEventListener('input', () => {
      this.#typed = p.json.value.trim() !== '';
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.check(), 120);
      this.#doubt();
    });
    p.json.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.send(); }
    });
    p.path.addEventListener('input', () => { this.check(); this.#doubt(); });
    p.path.addEventListener('change', () => { if (!pathFault(p.path.value)) hub.select(p.path.value); });
    p.kinds.addEventListener('change', () => this.#follow());
    hub.on('selected', (path) => this.#show(path));
    hub.on('moved', () => this.#doubt());
    this.#show(hub.selected);
    this.#follow();
  }

  get kind() { return this.#p.kinds.querySelector('input:checked').value; }

  /** Shows faults; returns the checked write or null. */
  check() {
    const { path, json, check } = this.#p;
    const kind = this.kind;
    const fault = path.value.trim() === '' ? 'Name the place to write to.' : pathFault(path.value, { priority: kind === 'set' || kind === 'remove' });
    path.setAttribute('aria-invalid', String(Boolean(fault) && path.value !== ''));
    json.removeAttribute('aria-invalid');
    check.className = 'check';
    if (kind === 'remove') {
      setText(check, fault ?? '');
      return fault ? null : { kind, path: normalPath(path.value) };
    }
    try {
      const { value, warnings } = readValue(json.value, kind);
      setText(check, fault ?? warnings[0] ?? (kind === 'update' ? 'Keys may be paths. All of it is written, or nothing.' : ''));
      return fault ? null : { kind, path: normalPath(path.value), value };
    } catch (error) {
      if (!(error instanceof TextFault)) throw error;
      json.setAttribute('aria-invalid', String(json.value.trim() !== ''));
      check.className = 'check bad';
      setText(check, `Line ${error.line}, column ${error.column}: ${error.message}`);
      this.fault = error;
      return null;
    }
  }

  async send() {
    const wanted = this.check();
    const { json, path, button, check } = this.#p;
    if (!wanted) {
      check.className = 'check bad';
      if (json.getAttribute('aria-invalid') === null) { path.focus(); return; }
      json.focus();
      if (this.fault) json.setSelectionRange(this.fault.offset, Math.min(this.fault.offset + 1, json.value.length));
      return;
    }
    button.disabled = true;
    try {
      if (!await this.#agreed(wanted)) return;
      this.#doubt();
      let place = wanted.path, undo = null;
      const before = wanted.kind === 'update' ? await this.#edits.beforeUpdate(place, Object.keys(wanted.value)) : null;
      const started = performance.now();
      if (wanted.kind === 'set') await write(this.#hub, place, wanted.value);
      else if (wanted.kind === 'update') await this.#hub.realtime.update(place, wanted.value);
      else if (wanted.kind === 'remove') await this.#hub.realtime.remove(place);
      else place = joinPath([...splitPath(place), await this.#hub.realtime.push(place, wanted.value)]);
      const ms = Math.max(1, Math.round(performance.now() - started));
      this.#typed = false;
      if (wanted.kind === 'push') undo = this.#edits.wrote(place, { value: null }, `Pushed ${place}.`);
      else if (wanted.kind === 'update') undo = this.#edits.updated(place, before, `Updated ${place}.`);
      else if (this.#before) undo = this.#edits.wrote(place, this.#before, `${wanted.kind === 'set' ? 'Wrote' : 'Removed'} ${place}.`);
      this.#say('good', `${{ set: 'Written to', update: 'Updated', push: 'Pushed', remove: 'Removed' }[wanted.kind]} ${place} in ${ms} ms.`, undo);
    } catch (error) {
      this.#say('bad', refusalText(error));
    } finally {
      button.disabled = false;
    }
  }

  /** Loads the place's value into the text. */
  async load() {
    const { path, json } = this.#p;
    const fault = pathFault(path.value);
    if (fault) { this.#say('bad', fault); return; }
    try {
      const { value, large } = await currentValue(this.#hub, normalPath(path.value));
      if (large) { this.#say('', 'It is too large for a text here: export it.'); return; }
      json.value = JSON.stringify(value, null, 2);
      this.#typed = false;
      if (this.kind === 'remove') this.#choose('set');
      this.check();
      this.#say('', isNothing(value) ? `Nothing is stored at ${normalPath(path.value)}.` : `Loaded ${normalPath(path.value)}.`);
    } catch (error) {
      this.#say('bad', refusalText(error));
    }
  }

  /** Whether a write may be sent: one that removes data needs a second press, after listing the data. */
  async #agreed({ kind, path }) {
    if (kind !== 'set' && kind !== 'remove') return true;
    if (this.#sure) return true;
    const before = this.#before = await currentValue(this.#hub, path).catch(() => null); // a user who may write need not be able to read
    const isObject = !before || before.large || (before.value !== null && typeof before.value === 'object' && !('.value' in before.value));
    if (!isObject && !(kind === 'remove' && !isNothing(before.value))) return true;
    this.#sure = true;
    const { button } = this.#p;
    setText(button, kind === 'remove' ? 'Yes, remove' : 'Yes, replace');
    button.classList.add('danger');
    this.#say('', `This ${kind === 'remove' ? 'removes' : 'replaces'} ${before ? summaryOf(before) : 'what you cannot read'} at ${path}. Press again to do it.`);
    return false;
  }

  #show(path) {
    const { path: field } = this.#p;
    if (field.value !== path) field.value = path;
    this.#doubt();
    if (!this.#typed) this.#p.json.value = ''; // never the value of another place
    this.offer();
    this.check();
    if (this.#p.json.value === '') this.#blank();
  }

  /** Shows the current value of the selected place, if it is small and on the screen, unless the user has typed a text. */
  offer() {
    const { json } = this.#p;
    if (this.#typed || this.kind !== 'set' || document.activeElement === json) return;
    const value = this.#known(this.#hub.selected), text = value === undefined || isNothing(value) ? '' : JSON.stringify(value, null, 2);
    const shown = text.length > loadedLength ? '' : text;
    if (json.value === shown) return;
    json.value = shown;
    this.check();
    if (shown === '') this.#blank();
  }

  /** An empty text is not a fault until it is sent. */
  #blank() {
    setText(this.#p.check, '');
    this.#p.check.className = 'check';
  }

  #choose(kind) {
    this.#p.kinds.querySelector(`[value=${kind}]`).checked = true;
    this.#follow();
  }

  #follow() {
    const { json, button, form } = this.#p, kind = this.kind;
    form.dataset.kind = kind;
    json.disabled = kind === 'remove';
    setText(button, verbs[kind]);
    this.check();
    this.#doubt();
  }

  #doubt() {
    if (!this.#sure) return;
    this.#sure = false;
    const { button } = this.#p;
    button.classList.remove('danger');
    setText(button, verbs[this.kind]);
    this.#say('', '');
  }

  /** undo: undoes what the text reports. */
  #say(kind, text, undo = null) {
    const { result, undoButton } = this.#p;
    result.className = `result ${kind}`;
    setText(result, text);
    undoButton.hidden = !undo;
    undoButton.onclick = undo && (() => { this.#say('', ''); this.#p.button.focus(); undo(); });
  }

  #build() {
    const p = this.#p;
    const kind = (value, title, checked) => element('label', {}, element('input', { type: 'radio', name: 'kind', value, checked }), element('span', {}, title));
    const server = () => {
      p.json.setRangeText('{".sv": "timestamp"}', p.json.selectionStart, p.json.selectionEnd, 'end');
      p.json.focus();
      this.#typed = true;
      this.check();
    };
    return element('section', { class: 'write-pane', 'aria-labelledby': 'write-title' },
      element('header', { class: 'pane-head' }, element('h2', { id: 'write-title' }, 'Write'),
        element('div', { class: 'pane-tools' },
          button('Load current', () => this.load(), { class: 'button plain', id: 'write-load' }),
          button('Server time', server, { class: 'button plain', title: 'Put {".sv": "timestamp"}, which the hub turns into its own time' }))),
      p.form = element('form', { id: 'write', autocomplete: 'off', novalidate: true },
        element('label', { class: 'path' }, element('span', { class: 'sr' }, 'Place to write to'), p.path = textInput({ id: 'write-path', placeholder: '/path' })),
        p.kinds = element('fieldset', { class: 'switch wide', id: 'write-kind' }, element('legend', { class: 'sr' }, 'Operation'),
          kind('set', 'Set', true), kind('update', 'Update'), kind('push', 'Push'), kind('remove', 'Remove')),
        p.json = element('textarea', { id: 'write-json', rows: '8', spellcheck: 'false', autocapitalize: 'off', 'aria-label': 'Value as JSON', 'aria-describedby': 'write-check', placeholder: example }),
        element('div', { class: 'write-foot' },
          element('div', { class: 'write-words' }, p.check = element('p', { class: 'check', id: 'write-check', 'aria-live': 'polite' }), p.result = element('p', { class: 'result', id: 'write-result', role: 'status' }), p.undoButton = element('button', { class: 'link', id: 'write-undo', type: 'button', hidden: true }, 'Undo')),
          p.button = element('button', { class: 'button primary', id: 'write-button', title: 'Ctrl + Enter' }, 'Set'))));
  }
}
