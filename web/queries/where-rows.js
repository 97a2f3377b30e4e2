// The conditions of a query as rows of its form: a child, an operator, and a value.

import { button, element, select, setText, textInput } from '../page/dom.js';
import { kindOf, valueOf } from '../page/json-text.js';
import { operators } from './query.js';

export class WhereRows {
  #list = element('div', { class: 'conditions' });
  #add;
  #changed;

  /** changed(): a row was added or removed. The surrounding form handles typing. */
  constructor(changed) {
    this.#changed = changed;
    this.#add = button('', () => { this.#make().path.focus(); changed(); }, { class: 'button plain', id: 'where-add' });
    this.element = element('div', { class: 'query-row' }, element('span', { class: 'quiet' }, 'Where'), element('div', { role: 'group', 'aria-label': 'Conditions' }, this.#list, this.#add));
    this.#paint();
  }

  /** [[path, operator, value], …] of the rows that name a child; throws TextFault for an invalid value. */
  get conditions() {
    return this.#rows.filter(({ path, value }) => path.value.trim() || value.value.trim())
      .map(({ path, operator, value }) => [path.value.trim(), operator.value, wanted(operator.value, value.value)]);
  }

  get #rows() { return [...this.#list.children].map(({ parts }) => parts); }

  #make() {
    const input = (placeholder) => textInput({ class: 'mono', placeholder });
    const parts = {
      path: input('status'),
      operator: select({}, Object.entries(operators)),
      value: input('open'),
      remove: button('×', () => { item.remove(); this.#paint(); this.#changed(); this.#add.focus(); }, { class: 'icon', title: 'Remove this condition' }),
    };
    const item = element('div', { class: 'condition' }, ...Object.values(parts));
    item.parts = parts;
    this.#list.append(item);
    this.#paint();
    return parts;
  }

  #paint() {
    setText(this.#add, this.#list.childElementCount ? 'And …' : 'Add a condition');
    this.#rows.forEach((parts, i) => {
      for (const [name, words] of [['path', 'Child of'], ['operator', 'Operator of'], ['value', 'Value of'], ['remove', 'Remove']]) parts[name].ariaLabel = `${words} condition ${i + 1}`;
    });
  }
}

/** Parses a text for an operator: a list is JSON, or comma-separated; a child's name and a prefix are plain texts. */
export function wanted(operator, text) {
  const value = (one) => valueOf(one, kindOf(one));
  if (operator === 'has' || operator === 'prefix') return kindOf(text) === 'JSON' ? value(text) : text;
  if (operator !== 'in' || text.trim().startsWith('[')) return value(text.trim());
  return text.split(',').map((one) => one.trim()).filter(Boolean).map(value);
}
