// How the rules decided one operation: the answer of /.settings/explain, rule by rule, part by part.

import { element } from './dom.js';

const results = { true: ['true', 'good'], false: ['false', 'bad'], null: ['failed', 'bad'] };

/** The answer as an element. goTo(line, column) shows a place of the rules' text. */
export function traceView(answer, goTo) {
  const { rules } = answer;
  // What was refused for want of a grant was decided by all that could have granted; else the last rule decided.
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
      element('button', { type: 'button', class: 'link', onclick: () => goTo(rule.line, rule.column) }, `line ${place}`)),
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
