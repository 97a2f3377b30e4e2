// Writing a value: set, update (several paths at once), push, remove. Checked before it is sent.

import { setText } from './dom.js';
import { TextFault, readValue } from './json-text.js';
import { joinPath, normalPath, pathFault, splitPath } from './paths.js';

const verbs = { set: 'Set', update: 'Update', push: 'Push', remove: 'Remove' };

export class WriteForm {
  #parts;
  #realtime;
  #sure = false; // the second press of a dangerous write
  #checkTimer = 0;

  constructor(parts, realtime) {
    this.#parts = parts;
    this.#realtime = realtime;
    parts.form.addEventListener('submit', (event) => { event.preventDefault(); this.send(); });
    parts.json.addEventListener('input', () => {
      clearTimeout(this.#checkTimer);
      this.#checkTimer = setTimeout(() => this.check(), 120);
      this.#doubt();
    });
    parts.json.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.send(); }
    });
    parts.path.addEventListener('input', () => { this.check(); this.#doubt(); });
    parts.kinds.addEventListener('change', () => this.#follow());
    parts.load.addEventListener('click', () => this.load());
    parts.time.addEventListener('click', () => {
      const { json } = this.#parts;
      json.setRangeText('{".sv": "timestamp"}', json.selectionStart, json.selectionEnd, 'end');
      json.focus();
      this.check();
    });
    this.#follow();
  }

  get kind() { return this.#parts.kinds.querySelector('input:checked').value; }

  set path(path) { this.#parts.path.value = path; this.check(); this.#doubt(); }

  /** Fills the form; for links from other parts of the page and for tests. */
  fill({ kind, path, text }) {
    if (kind) this.#parts.kinds.querySelector(`[value=${kind}]`).checked = true;
    if (path !== undefined) this.#parts.path.value = path;
    if (text !== undefined) this.#parts.json.value = text;
    this.#follow();
  }

  /** Shows faults; returns the checked write or null. */
  check() {
    const { path, json, check } = this.#parts;
    const kind = this.kind;
    const fault = path.value.trim() === '' ? 'Name the path to write to.' : pathFault(path.value, { priority: kind === 'set' || kind === 'remove' });
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
      json.setAttribute('aria-invalid', 'true');
      check.className = 'check bad';
      setText(check, `Line ${error.line}, column ${error.column}: ${error.message}`);
      this.fault = error;
      return null;
    }
  }

  async send() {
    const write = this.check();
    const { json, path, button, check } = this.#parts;
    if (!write) {
      check.className = 'check bad';
      if (json.getAttribute('aria-invalid') === 'true') {
        json.focus();
        json.setSelectionRange(this.fault.offset, Math.min(this.fault.offset + 1, json.value.length));
      } else {
        path.focus();
      }
      return;
    }
    const wide = splitPath(write.path).length === 0 && write.kind === 'set';
    if ((write.kind === 'remove' || wide) && !this.#sure) {
      this.#sure = true;
      setText(button, write.kind === 'remove' ? 'Yes, remove' : 'Yes, replace all');
      button.classList.add('danger');
      this.#say('', write.kind === 'remove' ? `This removes ${write.path} and everything below it. Press again to do it.` : 'This replaces the whole database. Press again to do it.');
      return;
    }
    this.#doubt();
    button.disabled = true;
    const started = performance.now();
    try {
      let place = write.path;
      if (write.kind === 'set') await this.#realtime.set(place, write.value);
      else if (write.kind === 'update') await this.#realtime.update(place, write.value);
      else if (write.kind === 'remove') await this.#realtime.remove(place);
      else place = joinPath([...splitPath(place), await this.#realtime.push(place, write.value)]);
      const ms = Math.max(1, Math.round(performance.now() - started));
      this.#say('good', `${{ set: 'Written to', update: 'Updated', push: 'Pushed', remove: 'Removed' }[write.kind]} ${place} in ${ms} ms.`);
    } catch (refusal) {
      this.#say('bad', explain(refusal, write));
    } finally {
      button.disabled = false;
    }
  }

  async load() {
    const { path, json } = this.#parts;
    const fault = pathFault(path.value);
    if (fault) { this.#say('bad', fault); return; }
    try {
      const value = await this.#realtime.get(normalPath(path.value));
      json.value = JSON.stringify(value, null, 2);
      if (this.kind === 'remove') this.fill({ kind: 'set' });
      this.check();
      this.#say('', value === null ? `Nothing is stored at ${normalPath(path.value)}.` : `Loaded ${normalPath(path.value)}.`);
    } catch (refusal) {
      this.#say('bad', explain(refusal, { kind: 'read', path: normalPath(path.value) }));
    }
  }

  #follow() {
    const { json, button, form } = this.#parts;
    const kind = this.kind;
    form.dataset.kind = kind;
    json.disabled = kind === 'remove';
    setText(button, verbs[kind]);
    this.check();
    this.#doubt();
  }

  #doubt() {
    if (!this.#sure) return;
    this.#sure = false;
    const { button } = this.#parts;
    button.classList.remove('danger');
    setText(button, verbs[this.kind]);
    this.#say('', '');
  }

  #say(kind, text) {
    const { result } = this.#parts;
    result.className = `result ${kind}`;
    setText(result, text);
  }
}

function explain(refusal, { kind, path }) {
  switch (refusal.code) {
    case 'permission_denied':
      return `The rules do not let you ${kind === 'read' ? 'read' : 'write'} ${path}. Connect with a token that may, or change the rules.`;
    case 'disconnected': return refusal.message;
    case 'too_big': return `The hub found this too large: ${refusal.message}`;
    default: return `The hub refused (${refusal.code}): ${refusal.message}`;
  }
}

