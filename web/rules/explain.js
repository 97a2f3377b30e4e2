// Explain: one operation, as some identity, and how the rules in force decide it on the current data.

import { pathFault } from '../client/paths.js';
import { accounts, request } from '../page/administration.js';
import { button, element, field, select, setText, textInput } from '../page/dom.js';
import { authOf } from '../users/accounts.js';

const operations = [['read', 'Read'], ['query', 'Query'], ['write', 'Write'], ['update', 'Update']];
const orders = [['', 'no order'], ['orderByKey', 'by key'], ['orderByValue', 'by value'], ['orderByPriority', 'by priority'], ['orderByChild', 'by child']];

export class ExplainView {
  #hub;
  #goTo;
  #p = {};
  #filling = Promise.resolve();
  #turn = 0; // counts resets: answers to earlier requests are dropped
  /** The last answer. */
  answer = null;

  /** goTo(line, column): shows a place of the rules in force. */
  constructor(hub, goTo) {
    this.#hub = hub;
    this.#goTo = goTo;
    this.element = this.#build();
    this.#paint();
  }

  #build() {
    const p = this.#p;
    const choice = (id, list) => select({ id, onchange: () => this.#paint() }, list);
    const input = (id, more = {}) => textInput({ id, ...more });
    const area = (id, rows) => element('textarea', { id, rows, spellcheck: 'false', autocapitalize: 'off' });
    p.operation = choice('explain-operation', operations);
    p.path = input('explain-path', { placeholder: '/users/ada', oninput: () => p.path.removeAttribute('aria-invalid') });
    p.uid = input('explain-uid', { placeholder: 'signed out', onchange: () => { this.#filling = this.#fill(); } });
    p.auth = area('explain-auth', 3);
    p.value = area('explain-value', 2);
    p.order = choice('explain-order', orders);
    p.child = input('explain-child');
    p.start = input('explain-start');
    p.end = input('explain-end');
    p.equal = input('explain-equal');
    p.first = input('explain-first', { inputmode: 'numeric' });
    p.last = input('explain-last', { inputmode: 'numeric' });
    p.value.addEventListener('input', () => setText(p.hint, ''));
    p.valueField = element('label', { class: 'area' }, p.valueTitle = element('span', {}), p.value);
    p.hint = element('p', { class: 'hint' });
    p.childField = field('child', p.child);
    p.query = element('div', { class: 'fields' }, field('order', p.order), p.childField, field('from (JSON)', p.start), field('up to (JSON)', p.end),
      field('equal to (JSON)', p.equal), field('first', p.first), field('last', p.last));
    p.result = element('div', { class: 'explain-result', 'aria-live': 'polite' });
    p.form = element('form', { id: 'explain', autocomplete: 'off', novalidate: true, onsubmit: (event) => { event.preventDefault(); this.run(); } },
      element('div', { class: 'fields' }, field('operation', p.operation), element('div', { class: 'wide' }, field('path', p.path))),
      p.query, p.valueField,
      element('div', { class: 'fields' }, element('div', { class: 'wide' }, field('as the account with this id', p.uid)), element('button', { class: 'button primary', id: 'explain-run' }, 'Explain')),
      element('details', { class: 'auth' }, element('summary', {}, 'auth, as the rules see it'), element('label', { class: 'area' }, element('span', { class: 'sr' }, 'auth as JSON, null when signed out'), p.auth)),
      p.hint);
    p.auth.value = 'null';
    return element('div', { class: 'explain pane' }, p.form, p.result);
  }

  #paint() {
    const p = this.#p, operation = p.operation.value;
    p.query.hidden = operation !== 'query';
    p.childField.hidden = p.order.value !== 'orderByChild';
    p.valueField.hidden = operation !== 'write' && operation !== 'update';
    setText(p.valueTitle, operation === 'update' ? 'values (JSON): paths below the place and their values' : 'value (JSON); null removes');
  }

  /** Fills in the `auth` value of an account id. */
  async #fill(provider = null) {
    const uid = this.#p.uid.value.trim();
    if (!uid) { this.#p.auth.value = 'null'; return; }
    let auth = { uid, provider: provider ?? 'custom', token: {} };
    try {
      const [entry] = (await accounts(this.#hub, ':lookup', { localId: [uid] })).users ?? [];
      if (entry) auth = authOf(entry, provider);
    } catch { /* a hub without accounts: the id is all there is */ }
    if (this.#p.uid.value.trim() === uid) this.#p.auth.value = JSON.stringify(auth, null, 1);
  }

  clear() {
    this.#turn += 1;
    this.answer = null;
    this.#p.result.replaceChildren();
  }

  /** Loads a refusal of /.settings/refusals.json, and explains it. */
  async explain(refusal) {
    const p = this.#p;
    const isRead = ['get', 'listen', 'cancelled listen'].includes(refusal.operation);
    const order = orders.map(([name]) => name).find((name) => name && refusal[name]);
    const many = refusal.paths.length > 1;
    p.operation.value = isRead ? (order || refusal.limitToFirst || refusal.limitToLast ? 'query' : 'read') : many ? 'update' : 'write';
    p.path.value = many ? '/' : refusal.paths[0];
    p.value.value = many ? JSON.stringify(Object.fromEntries(refusal.paths.map((path) => [path.slice(1), true])), null, 1) : 'true';
    p.order.value = order ?? '';
    p.child.value = refusal.orderByChild ?? '';
    p.first.value = refusal.limitToFirst ?? '';
    p.last.value = refusal.limitToLast ?? '';
    for (const bound of [p.start, p.end, p.equal]) bound.value = '';
    p.uid.value = refusal.uid ?? '';
    setText(p.hint, isRead ? '' : 'The hub keeps no values of what it refuses: “true” stands in for what was written. Type a value like it.');
    this.#paint();
    this.#filling = this.#fill(refusal.provider);
    await this.run();
  }

  /** The operation as a case of `vigla rules test`. Throws an Error with a sentence. */
  #inquiry() {
    const p = this.#p, operation = p.operation.value;
    const json = (control, name) => {
      try { return JSON.parse(control.value); } catch (fault) { throw new Error(`${name} is not JSON: ${fault.message}`); }
    };
    const inquiry = { as: json(p.auth, 'auth'), [operation]: p.path.value.trim() };
    if (operation === 'write') inquiry.value = json(p.value, 'The value');
    if (operation === 'update') inquiry.values = json(p.value, 'The values');
    if (operation !== 'query') return inquiry;
    if (p.order.value) inquiry[p.order.value] = p.order.value === 'orderByChild' ? p.child.value.trim() : true;
    for (const [name, control] of [['startAt', p.start], ['endAt', p.end], ['equalTo', p.equal]]) if (control.value.trim()) inquiry[name] = json(control, `“${name}”`);
    for (const [name, control] of [['limitToFirst', p.first], ['limitToLast', p.last]]) if (control.value.trim()) inquiry[name] = Number(control.value);
    return inquiry;
  }

  async run() {
    const p = this.#p, turn = this.#turn;
    await this.#filling;
    if (turn !== this.#turn) return;
    const fault = p.path.value.trim() ? pathFault(p.path.value) : 'Name the place that is asked for; “/” is the root.';
    if (fault) {
      this.answer = null;
      p.result.replaceChildren(element('p', { class: 'bad', role: 'alert' }, fault));
      p.path.setAttribute('aria-invalid', 'true');
      p.path.focus();
      return;
    }
    p.path.removeAttribute('aria-invalid');
    try {
      const answer = await request(this.#hub, '/.settings/explain', { json: this.#inquiry() });
      if (turn !== this.#turn) return;
      this.answer = answer;
      p.result.replaceChildren(traceView(this.answer, this.#goTo));
    } catch (fault) {
      if (turn !== this.#turn) return;
      this.answer = null;
      p.result.replaceChildren(element('p', { class: 'bad', role: 'alert' }, fault.message));
    }
  }
}

// ---- How the rules decided one operation: the answer of /.settings/explain, rule by rule, part by part.

const results = { true: ['true', 'good'], false: ['false', 'bad'], null: ['failed', 'bad'] };

/** The answer as an element. goTo(line, column) shows a place of the rules' text. */
export function traceView(answer, goTo) {
  const { rules } = answer;
  // If no rule granted the operation, all rules that could have granted it decided; otherwise the last rule did.
  const kind = answer.operation === 'read' ? '.read' : '.write';
  const invalid = !answer.allowed && rules.at(-1)?.kind === '.validate' && rules.at(-1).result !== true;
  const decided = (rule, at) => answer.allowed ? rule.kind === kind && rule.result === true : invalid ? at === rules.length - 1 : rule.kind === kind;
  return element('div', { class: 'trace' },
    element('p', { class: 'verdict', 'data-allowed': String(answer.allowed), role: 'status' },
      element('strong', {}, answer.allowed ? 'Allowed' : 'Refused'), ' ', element('span', {}, answer.allowed ? '' : answer.reason)),
    rules.length ? null : element('p', { class: 'quiet' }, 'No rule was asked: there is none on the way to the place.'),
    ...rules.map((rule, at) => ruleView(rule, decided(rule, at), goTo)),
    answer.truncated ? element('p', { class: 'quiet' }, 'The explanation is longer than what is shown.') : null);
}

function ruleView(rule, isDecisive, goTo) {
  const [word, tone] = results[String(rule.result)];
  const place = `${rule.line}:${rule.column}`;
  return element('details', { class: 'rule', open: isDecisive },
    element('summary', {},
      element('span', { class: `verdict-word ${tone}` }, word),
      element('code', { class: 'rule-name' }, rule.rule),
      isDecisive ? element('span', { class: 'decided' }, 'decided') : null),
    element('p', { class: 'rule-where' }, element('span', { class: 'quiet' }, `asked at ${rule.path} · `),
      button(`line ${place}`, () => goTo(rule.line, rule.column), { class: 'link' })),
    rule.error ? element('p', { class: 'bad' }, `It failed: ${rule.error}`) : null,
    rule.parts.length ? element('ul', { class: 'parts', 'aria-label': `Parts of ${rule.rule}` }, ...rule.parts.map(partView))
      : element('p', { class: 'parts' }, element('code', {}, rule.text)));
}

function partView(part) {
  const made = element('li', {}, element('code', { class: 'part-text' }, part.text.replace(/\s+/g, ' ')), ' = ', valueView(part));
  made.style.setProperty('--depth', part.depth);
  return made;
}

function valueView({ type, value, error }) {
  if (type === 'error') return element('span', { class: 'bad' }, `failed: ${error}`);
  if (type === 'object') return element('span', { class: 'quiet' }, 'a node with children');
  return element('code', { class: `type-${type}` }, type === 'string' ? JSON.stringify(value) : type === 'number' && value === null ? 'NaN' : String(value));
}
