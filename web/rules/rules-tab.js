// Rules: the editor with the hub's check while typing, deploys, and explanations.
//
//   typing ─► (a pause) ─► POST checkRules ─► faults in the text, warnings, changes          review ─► PUT ─► in force

import { Gate, gatedTab, request } from '../page/administration.js';
import { button, element, plural, setText } from '../page/dom.js';
import { CasesView } from './cases.js';
import { Editor } from './editor.js';
import { ExplainView } from './explain.js';
import { RefusalsView } from './refusals.js';
import { ReviewView } from './review.js';

const pauseMs = 350;
const sides = [['editor', 'Editor'], ['explain', 'Explain'], ['words', 'Words'], ['refusals', 'Refusals'], ['cases', 'Cases']];

export const makeTab = (hub) => gatedTab(new RulesTab(hub));

class RulesTab {
  #hub;
  #p = {};
  #inForce = null;
  #report = null;       // the hub's answer for #checked
  #checked = null;
  #faults = [];
  #timer = 0;
  #asking = null;
  #side = 'explain';
  #place = '';
  #words = null;
  #turn = 0;            // counts moves: answers to earlier requests are dropped

  constructor(hub) {
    this.#hub = hub;
    this.editor = new Editor({ id: 'rules-text', title: 'Rules', describedBy: 'rules-state', changed: () => this.#changed(), done: () => this.#review() });
    this.review = new ReviewView(hub, { done: (text) => this.#deployed(text), back: () => this.#showReview(false) });
    this.explain = new ExplainView(hub, (line, column) => this.#goToInForce(line, column));
    this.refusals = new RefusalsView(hub, (refusal) => { this.#go('explain'); this.explain.explain(refusal); });
    this.cases = new CasesView(hub, () => this.editor.value, (line, column) => this.#goTo(line, column));
    this.gate = new Gate(hub, 'Rules', this.#build(), { begin: () => this.#begin(), end: () => this.#end() });
    hub.on('moved', () => this.#moved());
    this.#go(this.#side);
  }

  get state() {
    return { text: this.editor.value, inForce: this.#inForce, isChecked: this.#checked === this.editor.value, faults: this.#faults, side: this.#side, refusals: this.refusals.rows, explanation: this.explain.answer, cases: this.cases.answer, words: this.#words?.answer };
  }

  #build() {
    const p = this.#p;
    p.state = element('p', { class: 'rules-state', id: 'rules-state', role: 'status' });
    p.discard = button('Discard', () => this.#discard(), { id: 'rules-discard' });
    p.deploy = button('Review, deploy', () => this.#review(), { id: 'rules-review', class: 'button primary' });
    p.former = button('Former…', () => this.#toggleFormer(), { id: 'rules-former', 'aria-expanded': 'false' });
    p.formerList = element('ul', { class: 'former', 'aria-label': 'Rules that were in force before', hidden: true });
    p.faults = element('ul', { class: 'faults', 'aria-label': 'Faults and warnings' });
    p.edit = element('div', { class: 'rules-edit' },
      element('header', { class: 'pane-head' }, element('h2', {}, 'Rules'), p.state, element('div', { class: 'rules-tools' }, p.former, p.discard, p.deploy)),
      p.formerList, this.editor.element, p.faults);
    p.sides = element('div', { class: 'switch', role: 'group', 'aria-label': 'Tools' }, ...sides.map(([id, title]) => element('button', { type: 'button', 'data-side': id, onclick: () => this.#go(id) }, title)));
    p.panes = { explain: this.explain.element, words: element('div', { class: 'pane' }), refusals: this.refusals.element, cases: this.cases.element };
    p.root = element('div', { class: 'rules' },
      element('div', { class: 'rules-main' }, p.edit, this.review.element),
      element('div', { class: 'rules-side' }, element('header', { class: 'pane-head' }, p.sides), element('div', { class: 'rules-pane' }, ...Object.values(p.panes))));
    return p.root;
  }

  // ---- the rules in force

  async #begin() {
    this.refusals.start();
    const turn = this.#turn;
    try {
      const text = await this.#read();
      if (turn !== this.#turn) return;
      const wasEdited = this.#inForce !== null && this.editor.value !== this.#inForce;
      this.#inForce = text;
      if (!wasEdited) this.editor.value = text;
      this.#check();
    } catch (fault) {
      setText(this.#p.state, fault.message);
    }
  }

  /**
   * Clears the rules for another hub or namespace, or when the user is no longer an administrator. An administrator who acts as a user keeps the
   * typed text.
   */
  #moved() {
    const place = `${this.#hub.host} ${this.#hub.ns}`;
    if (place === this.#place && this.#hub.credentials.isSecret) return;
    this.#place = place;
    this.#turn += 1;
    this.#inForce = null;
    this.#faults = [];
    this.editor.value = '';
    clearTimeout(this.#timer);
    this.#asking?.abort();
    this.cases.clear();
    this.#words?.clear();
    this.explain.clear();
    this.refusals.clear();
    this.#p.faults.replaceChildren();
    this.#toggleFormer(false);
    this.review.element.hidden = true;
    this.#p.edit.hidden = false;
  }

  #end() {
    this.refusals.stop();
    clearTimeout(this.#timer);
  }

  async #read() {
    const response = await this.#hub.fetch('/.settings/rules.json');
    if (!response.ok) throw new Error(`The rules could not be read (${response.status}).`);
    return response.text();
  }

  // ---- typing

  #changed() {
    this.#paint();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check(), pauseMs);
  }

  async #check() {
    clearTimeout(this.#timer);
    const text = this.editor.value;
    this.#asking?.abort();
    const asking = this.#asking = new AbortController();
    try {
      const report = await request(this.#hub, '/.settings/checkRules', { text, signal: asking.signal });
      if (report.faults) this.#settle(text, null, report.faults.map((found) => ({ ...found, kind: 'fault' })));
      else this.#settle(text, report, report.warnings.map((warning) => ({ ...warning, kind: 'warning' })));
    } catch (fault) {
      if (fault.name !== 'AbortError') setText(this.#p.state, fault.message);
    }
  }

  #settle(text, report, faults) {
    if (text !== this.editor.value) return;
    this.#checked = text;
    this.#report = report;
    this.#faults = faults;
    this.editor.mark(faults);
    this.#p.faults.replaceChildren(...faults.slice(0, 100).map(({ line, column, message, hint, kind }) => element('li', { class: `of-${kind}` },
      element('button', { type: 'button', class: 'fault', onclick: () => this.editor.reveal(line, column) },
        element('span', { class: 'fault-place' }, `${line}:${column}`), element('span', { class: 'fault-text' }, hint ? `${message} (${hint})` : message), element('span', { class: 'fault-kind' }, kind)))));
    this.#paint();
    this.#sayWords();
  }

  #paint() {
    const p = this.#p;
    const isEdited = this.#inForce !== null && this.editor.value !== this.#inForce;
    const isChecked = this.#checked === this.editor.value;
    const faults = this.#faults.filter(({ kind }) => kind === 'fault').length;
    const warnings = this.#faults.length - faults;
    p.discard.disabled = !isEdited;
    p.deploy.disabled = !isEdited || !isChecked || faults > 0;
    const said = !isChecked ? 'Checking' : faults ? plural(faults, 'fault') : warnings ? plural(warnings, 'warning') : 'No faults';
    p.state.dataset.tone = !isChecked ? '' : faults ? 'bad' : warnings ? 'warn' : 'good';
    setText(p.state, `${said} · ${isEdited ? 'edited' : 'in force'}`);
  }

  #discard() {
    const text = this.editor.value;
    this.#put(this.#inForce);
    this.#hub.say('The text is that in force again.', { action: { title: 'Undo', run: () => this.#put(text) } });
  }

  #put(text) {
    this.editor.value = text;
    this.#paint();
    this.#check();
  }

  // ---- deploying

  async #review(title) {
    if (this.#p.deploy.disabled) return;
    const turn = this.#turn;
    let text;
    try { text = await this.#read(); } catch (fault) { this.#hub.say(fault.message, { bad: true }); return; }
    if (turn !== this.#turn) return;
    this.#inForce = text;
    this.#showReview(true);
    this.review.show(this.#inForce, this.editor.value, this.#report, title);
  }

  #showReview(on) {
    this.review.element.hidden = !on;
    this.#p.edit.hidden = on;
    if (!on) this.editor.focus();
  }

  #deployed(text) {
    this.#inForce = text;
    this.editor.value = text;
    this.#toggleFormer(false);
    this.#showReview(false);
    this.#check();
  }

  async #toggleFormer(open = this.#p.formerList.hidden) {
    const p = this.#p;
    p.former.setAttribute('aria-expanded', String(open));
    p.formerList.hidden = !open;
    if (!open) return;
    try {
      const { former } = await request(this.#hub, '/.settings/formerRules.json');
      p.formerList.replaceChildren(...former.map(({ until, source }) => element('li', {},
        element('span', {}, `until ${new Date(until).toLocaleString()}`), element('span', { class: 'quiet' }, plural(source.split('\n').length, 'line')),
        button('Compare, go back', () => this.#bringBack(source), { class: 'button plain' }))));
      if (!former.length) p.formerList.append(element('li', { class: 'quiet' }, 'These are the first rules that the hub knows of.'));
    } catch (fault) {
      p.formerList.replaceChildren(element('li', { class: 'bad' }, fault.message));
    }
  }

  async #bringBack(source) {
    const text = this.editor.value;
    const isEdited = text !== this.#inForce;
    this.editor.value = source;
    if (isEdited) this.#hub.say('What you had typed was replaced by the former rules.', { action: { title: 'Undo', run: () => { this.#showReview(false); this.#put(text); } } });
    await this.#check();
    this.#review('Go back to former rules');
  }

  // ---- the other side

  #go(side) {
    this.#side = side;
    this.#p.root.dataset.side = side;
    for (const button of this.#p.sides.children) button.setAttribute('aria-pressed', String(button.dataset.side === side));
    for (const [id, pane] of Object.entries(this.#p.panes)) pane.hidden = id !== side && !(side === 'editor' && id === 'explain');
    this.#sayWords();
  }

  /** What the text means, while the side shows it. */
  async #sayWords() {
    const { words } = this.#p.panes;
    if (words.hidden) return;
    if (!this.#words) {
      const { WordsView } = await import('./words.js');
      if (!this.#words) words.append((this.#words = new WordsView(this.#hub, () => this.editor.value)).element);
    }
    if (this.#checked === this.editor.value) this.#words.update();
  }

  #goTo(line, column) {
    if (matchMedia('(max-width: 820px)').matches) this.#go('editor');
    this.#showReview(false);
    this.editor.reveal(line, column);
  }

  /** Shows a place of the rules in force; in an edited text it may be elsewhere. */
  #goToInForce(line, column) {
    if (this.editor.value !== this.#inForce) this.#hub.say('This place is in the rules in force; the text in the editor is another one.');
    this.#goTo(line, column);
  }
}
