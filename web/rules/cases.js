// Cases: what the rules in the editor should allow and deny, the results, and the rules that the cases do not cover both ways.

import { request } from '../page/administration.js';
import { button, element, plural } from '../page/dom.js';
import { Editor } from './editor.js';
import { traceView } from './explain.js';

const example = `{
  "users": { "ada": { "uid": "ada", "token": {} } },
  "data": {},
  "cases": [
    { "name": "who is signed out reads nothing", "as": null, "read": "/", "expect": "deny" },
    { "name": "Ada writes her own", "as": "ada", "write": "/users/ada/name", "value": "Ada", "expect": "allow" },
  ],
}
`;

export class CasesView {
  #hub;
  #text;
  #goTo;
  #editor;
  #result;
  #run;
  #turn = 0; // counts resets: answers to earlier requests are dropped
  /** The last answer. */
  answer = null;

  /** text(): the edited rules; goTo(line, column): shows a place in them. */
  constructor(hub, text, goTo) {
    this.#hub = hub;
    this.#text = text;
    this.#goTo = goTo;
    this.#editor = new Editor({ id: 'rule-cases', title: 'Cases', done: () => this.run() });
    this.#result = element('div', { class: 'cases-result', 'aria-live': 'polite' });
    const file = element('input', { type: 'file', accept: '.json,.jsonc', hidden: true, id: 'cases-file', 'aria-label': 'File of cases', onchange: () => this.#open(file) });
    this.#run = button('Run', () => this.run(), { class: 'button primary', id: 'cases-run' });
    this.element = element('div', { class: 'pane cases' },
      element('div', { class: 'cases-head' },
        element('p', { class: 'quiet' }, 'Decided by the rules in the editor, on the data in the cases.'),
        file, button('Open…', () => file.click()),
        button('Example', () => { this.#editor.value = example; this.#editor.focus(); }), this.#run),
      this.#editor.element, this.#result);
  }

  clear() {
    this.#turn += 1;
    this.answer = null;
    this.#editor.value = '';
    this.#result.replaceChildren();
  }

  async #open(file) {
    const [chosen] = file.files;
    if (!chosen) return;
    this.#editor.value = await chosen.text();
    file.value = '';
    this.run();
  }

  async run() {
    this.#run.disabled = true;
    this.answer = null;
    const turn = this.#turn;
    try {
      const answer = await request(this.#hub, '/.settings/testRules', { json: { cases: this.#editor.value || '{"cases":[]}', rules: this.#text() } });
      if (turn !== this.#turn) return;
      this.answer = answer;
      this.#editor.mark([]);
      this.#result.replaceChildren(...this.#report(this.answer));
    } catch (fault) {
      if (turn !== this.#turn) return;
      const isOfCases = fault.body?.of === 'cases';
      this.#editor.mark(isOfCases ? fault.body.faults : []);
      const faults = (fault.body?.faults ?? []).slice(0, 20);
      this.#result.replaceChildren(
        element('p', { class: 'bad', role: 'alert' }, fault.body?.of === 'rules' ? 'The rules in the editor are faulty: mend them first.' : faults.length ? 'The cases are faulty:' : fault.message),
        ...(isOfCases ? faults.map(({ line, column, message, hint }) => element('p', {},
          button(`${line}:${column}`, () => this.#editor.reveal(line, column), { class: 'link' }), ` ${message}${hint ? ` (${hint})` : ''}`)) : []));
    } finally {
      this.#run.disabled = false;
    }
  }

  #report({ count, passed, failures, rules, covered, unknown }) {
    const gaps = rules.filter(({ gap }) => gap);
    return [
      element('p', { class: 'cases-sum' },
        element('strong', { class: passed === count ? 'good' : 'bad' }, `${passed} of ${plural(count, 'case')} passed`), ` · ${covered} of ${plural(rules.length, 'rule')} seen both ways`),
      ...failures.map((failure) => element('details', { class: 'failure' },
        element('summary', {}, element('span', { class: 'verdict-word bad' }, 'failed'), ` ${failure.name}: ${failure.message}`),
        button(`Case at ${failure.line}:${failure.column}`, () => this.#editor.reveal(failure.line, failure.column), { class: 'link' }),
        failure.explanation ? traceView(failure.explanation, this.#goTo) : null)),
      count - passed > failures.length ? element('p', { class: 'quiet' }, `${count - passed - failures.length} more failed.`) : null,
      ...unknown.map((name) => element('p', { class: 'bad' }, `“neverFalse” names a rule that is not there: ${name}`)),
      rules.length ? element('table', { class: 'coverage' },
        element('caption', {}, gaps.length ? `${plural(gaps.length, 'rule')} that could be turned round without a case telling` : 'Every rule was seen both ways'),
        element('thead', {}, element('tr', {}, ...['Rule', 'true', 'not true', ''].map((title) => element('th', { scope: 'col' }, title)))),
        element('tbody', {}, ...[...gaps, ...rules.filter(({ gap }) => !gap)].map((rule) => element('tr', { class: rule.gap ? 'gap' : null },
          element('td', {}, button(rule.rule, () => this.#goTo(rule.line, rule.column), { class: 'link mono' })),
          element('td', {}, String(rule.true)), element('td', {}, String(rule.notTrue)), element('td', { class: rule.gap ? 'bad' : 'good' }, rule.gap ?? 'covered'))))) : null,
    ].filter(Boolean);
  }
}
