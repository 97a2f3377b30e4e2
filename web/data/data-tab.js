// Data: the tree of a place in windows, what can be done with the selected place, and the write form.

import { joinPath, keyFault, pathFault, splitPath, startsWith } from '../client/paths.js';
import { button, copyText, element, isValidPath, pathInput, perFrame, preview, setText, textInput } from '../page/dom.js';
import { kindOf, valueOf } from '../page/json-text.js';
import { EmptyOffer, SignInOffer } from '../page/offers.js';
import { Edits, currentValue, refusalText } from './edits.js';
import { Transfer } from './transfer.js';
import { TreeView } from './tree-view.js';
import { editValue } from './value-editor.js';
import { WriteForm } from './write-form.js';

export function makeTab(hub) { return new DataTab(hub); }

class DataTab {
  #hub;
  #p = {};
  #view;
  #edits;
  #transfer;
  #writing;
  #offering = 0;
  #offers;             // { refused, empty }: what to offer when nothing is shown
  #offered = null;
  #phase = '';
  #figures = perFrame(() => this.#paintFigures());

  constructor(hub) {
    this.#hub = hub;
    this.#edits = new Edits(hub);
    this.#transfer = new Transfer(hub);
    this.#offers = { refused: new SignInOffer(hub), empty: new EmptyOffer(hub, this.#edits, () => this.#transfer.chooseFile('/')) };
    this.#view = new TreeView(hub, {
      select: (path) => { hub.select(path); this.#paintActions(); },
      enter: (path) => hub.go({ path }),
      edit: (row, line) => this.#edit(row, line),
      add: (path) => this.#form('add', path),
      remove: (path) => this.#edits.remove(path),
      changed: this.#figures,
    });
    this.element = this.#build();
    hub.on('link', (link, before) => { if (link.path !== before.path || link.ns !== before.ns || link.host !== before.host) this.#open(); });
    hub.on('moved', () => this.#open());
    hub.on('connection', () => {
      const { phase } = hub.realtime;
      if (phase !== this.#phase && phase === 'connected') this.#view.resume();
      this.#phase = phase;
      this.#figures();
    });
    hub.on('selected', () => this.#paintActions());
    this.element.addEventListener('keydown', (event) => {
      const isField = event.target.closest('input, textarea, select');
      if ((event.ctrlKey || event.metaKey) && event.key === 'z' && !isField) { event.preventDefault(); this.#edits.undo(); }
    });
    this.#open();
  }

  /** The state for tests. */
  get state() {
    const { root, flashed, shown, figures, selected } = this.#view;
    return { path: root?.path ?? null, state: root?.state ?? null, stale: root?.isStale ?? false, counted: root?.isCounted ?? false, count: root?.count ?? 0, shown, flashed: [...flashed], selected, listens: this.#hub.realtime.listens, undo: this.#edits.count, ...figures };
  }

  show() { this.#view.visible = true; }

  hide() {
    this.#view.visible = false;
    this.#view.resume(); // draws nothing and listens to nothing
  }

  #open() {
    const { path } = this.#hub.link;
    this.#p.path.value = path;
    this.#p.up.disabled = splitPath(path).length === 0;
    this.#p.find.value = '';
    this.#closeForm();
    this.#view.open(path);
    this.#hub.select(path);
    this.#figures();
  }

  // ---- messages

  #paintFigures() {
    const { root } = this.#view;
    if (!root) return;
    const { realtime } = this.#hub;
    let text = '';
    if (root.isStale && realtime.phase !== 'connected') text = 'last known state';
    else if (root.state === 'children') text = `${root.count.toLocaleString('en')}${root.isCounted ? '' : '+'} ${root.count === 1 ? 'child' : 'children'}${root.prefix ? ` with “${root.prefix}”` : ''}`;
    else if (root.state === 'leaf') text = 'a value';
    else if (root.state === 'empty') text = 'empty';
    setText(this.#p.figures, text);
    this.element.dataset.state = root.isStale && realtime.phase !== 'connected' ? 'stale' : root.state;
    let blank = '';
    if (root.state === 'refused') {
      blank = root.refusal.code === 'permission_denied'
        ? `The rules do not let you read ${root.path}. Go to a place that you may read, or sign in as someone who may. An administrator reads everything.`
        : `The hub refused to show ${root.path}: ${root.refusal.message || root.refusal.code}`;
    } else if (root.state === 'loading') {
      blank = realtime.phase === 'connected' ? 'Loading.' : 'Waiting for the hub.';
    } else if (root.state === 'empty') {
      blank = root.prefix ? `No key at ${root.path} begins with “${root.prefix}”.`
        : root.path === '/' ? 'This database is empty. Start with sample data, which you can remove again, or with your own.'
          : `Nothing is stored at ${root.path} yet. Add a child or write a value, and it lights up here.`;
    }
    this.#p.blank.hidden = !blank;
    setText(this.#p.blankText, blank);
    this.#offer(root);
    this.#offering ||= setTimeout(() => { this.#offering = 0; this.#writing.offer(); }, 150);
    this.#view.element.classList.toggle('is-blank', Boolean(blank));
  }

  #offer(root) {
    const isRefused = root.state === 'refused' && root.refusal.code === 'permission_denied' && !this.#hub.isAdmin;
    const offer = isRefused ? this.#offers.refused : root.state === 'empty' && root.path === '/' && !root.prefix ? this.#offers.empty : null;
    if (offer === this.#offered) return;
    this.#offered = offer;
    for (const one of Object.values(this.#offers)) one.element.hidden = one !== offer;
    offer?.update();
  }

  #paintActions() {
    const path = this.#hub.selected, isRoot = splitPath(path).length === 0;
    for (const name of ['rename', 'clone']) this.#p[name].disabled = isRoot;
    setText(this.#p.selected, path);
  }

  // ---- input

  #edit(row, line) {
    const { place, node } = row;
    const value = row.kind === 'root' ? place.leaf : node.value, priority = row.kind === 'root' ? place.priority ?? null : node.priority;
    editValue(line.valuePart, value, {
      label: `Value of ${row.path}`,
      done: (next) => {
        if (line.isConnected) line.focus({ preventScroll: true });
        if (next === undefined || next === value) return;
        this.#edits.set(row.path, priority === null || next === null || typeof next === 'object' ? next : { '.value': next, '.priority': priority }, `Changed ${row.path} from ${preview(value, 30)} to ${preview(next, 30)}.`);
      },
    });
  }

  /** The line below the tools: a child to add, or a new name. */
  #form(kind, path = this.#hub.selected) {
    const p = this.#p, parts = splitPath(path), key = parts.at(-1) ?? '';
    this.#hub.select(path);
    p.form.dataset.kind = kind;
    p.form.hidden = false;
    setText(p.formTitle, { add: `Add to ${path}`, rename: `Rename ${path}`, clone: `Clone ${path}` }[kind]);
    p.formKey.value = kind === 'add' ? '' : kind === 'clone' ? `${key}-copy` : key;
    p.formKey.placeholder = kind === 'add' ? 'Key (empty: one that sorts by time)' : 'New key';
    p.formValue.hidden = kind !== 'add';
    p.formValue.value = '';
    setText(p.formFault, '');
    setText(p.formButton, { add: 'Add', rename: 'Rename', clone: 'Clone' }[kind]);
    p.form.path = path;
    p.formKey.focus();
    p.formKey.select();
  }

  #closeForm() { this.#p.form.hidden = true; }

  async #submit() {
    const p = this.#p, { kind } = p.form.dataset, { path } = p.form, key = p.formKey.value.trim();
    let fault = key === '' && kind === 'add' ? null : keyFault(key), value;
    if (!fault && kind === 'add') {
      try { value = valueOf(p.formValue.value, kindOf(p.formValue.value)); } catch (error) { fault = error.message; }
      if (!fault && p.formValue.value === '') fault = 'Type a value: a text, a number, true, false or JSON.';
    }
    setText(p.formFault, fault ?? '');
    if (fault) return;
    const step = kind === 'add' ? await this.#edits.add(path, key, value) : await this.#edits.copy(path, key, { keep: kind === 'clone' });
    if (!step) return;
    this.#closeForm();
    if (step.place && startsWith(splitPath(step.place), splitPath(this.#hub.link.path))) this.#view.reveal(step.place, { focus: true });
  }

  /** Goes to a key of the shown place, or a path below it. */
  #jump(text) {
    const typed = text.trim(), { path } = this.#hub.link;
    if (!typed) return;
    if (pathFault(typed)) { this.#hub.say(pathFault(typed), { bad: true }); return; }
    this.#view.reveal(joinPath([...splitPath(path), ...splitPath(typed)]));
  }

  #filter(prefix) {
    if (prefix === (this.#view.root?.prefix ?? '')) return;
    this.#view.open(this.#hub.link.path, prefix);
    this.#hub.select(this.#hub.link.path);
    this.#figures();
  }

  async #copyJSON() {
    const path = this.#hub.selected;
    try {
      const { value, large } = await currentValue(this.#hub, path);
      if (large) this.#hub.say(`${path} is too large for the clipboard: export it.`); else await copyText(JSON.stringify(value, null, 2), `Copied ${path} as JSON.`);
    } catch (error) {
      this.#hub.say(refusalText(error), { bad: true });
    }
  }

  #build() {
    const p = this.#p, hub = this.#hub;
    const field = (label, attributes) => textInput({ 'aria-label': label, ...attributes });
    const tool = (title, id, run) => button(title, run, { class: 'button plain', id });
    const goTo = (event) => {
      event.preventDefault();
      if (isValidPath(p.path)) hub.go({ path: p.path.value });
    };
    p.path = pathInput({ 'aria-label': 'Place to show', id: 'place-path', placeholder: '/' });
    p.find = field('Key to go to, or to filter by', { id: 'find', type: 'search', placeholder: 'Key' });
    const find = element('form', { class: 'find', role: 'search', onsubmit: (event) => { event.preventDefault(); this.#jump(p.find.value); } }, p.find,
      element('button', { class: 'button plain', id: 'jump', title: 'Go to this key' }, 'Go to'),
      button('Filter', () => this.#filter(p.find.value.trim()), { class: 'button plain', id: 'filter', title: 'Show only keys that begin with this' }));
    p.find.addEventListener('input', () => { if (p.find.value === '') this.#filter(''); });
    p.form = element('form', { class: 'row-form', hidden: true, onsubmit: (event) => { event.preventDefault(); this.#submit(); } },
      p.formTitle = element('strong', {}), p.formKey = field('Key', { id: 'row-key' }), p.formValue = field('Value', { id: 'row-value', placeholder: 'Value' }),
      p.formButton = element('button', { class: 'button primary' }, 'Add'), button('Cancel', () => this.#closeForm()), p.formFault = element('span', { class: 'bad', role: 'alert' }));
    p.form.addEventListener('keydown', (event) => { if (event.key === 'Escape') this.#closeForm(); });
    const main = element('div', { class: 'data-main' },
      element('form', { class: 'bar', id: 'place-form', autocomplete: 'off', onsubmit: goTo },
        p.up = button('↑', () => hub.go({ path: joinPath(splitPath(hub.link.path).slice(0, -1)) }), { class: 'icon', id: 'place-up', title: 'One level up', 'aria-label': 'One level up' }),
        element('span', { class: 'path' }, p.path), p.figures = element('span', { class: 'bar-figures quiet', id: 'place-figures' })),
      element('div', { class: 'tools' }, find,
        element('div', { class: 'tool-group', role: 'toolbar', 'aria-label': 'Selected place' },
          p.selected = element('span', { class: 'selected mono quiet', id: 'selected' }),
          tool('Add', 'add', () => this.#form('add')), p.rename = tool('Rename', 'rename', () => this.#form('rename')), p.clone = tool('Clone', 'clone', () => this.#form('clone')),
          tool('Remove', 'remove', () => this.#edits.remove(hub.selected)), tool('Undo', 'undo', () => this.#edits.undo()),
          tool('Copy path', 'copy-path', () => copyText(hub.selected, 'Copied the path.')), tool('Copy JSON', 'copy-json', () => this.#copyJSON()),
          tool('Export', 'export', () => this.#transfer.exportFile(hub.selected)), tool('Import', 'import', () => this.#transfer.chooseFile(hub.selected)),
          p.write = tool('Write', 'show-write', () => p.write.setAttribute('aria-pressed', this.element.toggleAttribute('data-writing'))))),
      p.form, this.#transfer.element,
      element('div', { class: 'tree-pane' }, this.#view.element, p.blank = element('div', { class: 'blank', id: 'tree-blank', hidden: true },
        p.blankText = element('p', {}), ...Object.values(this.#offers).map((offer) => offer.element))));
    return element('section', { class: 'data', 'aria-label': 'Data' }, main, element('aside', { class: 'data-side', 'aria-label': 'Write' }, (this.#writing = new WriteForm(hub, this.#edits, (path) => this.#view.valueAt(path))).element));
  }
}
