// Queries: a place, conditions, a circle, order, range and limit; observers on it, the log of their events, and code to copy.

import { button, copyText, element, select, setText, textInput } from '../page/dom.js';
import { kindOf, valueOf } from '../page/json-text.js';
import { EventsView } from './events-view.js';
import { explainQuery, readOnce } from './query-observer.js';
import { Query } from './query.js';
import { WhereRows } from './where-rows.js';

const forms = [['sdk', 'SDK'], ['observe', 'Observe'], ['curl', 'curl'], ['command', 'vigla']];

export function makeTab(hub) { return new QueriesTab(hub); }

class QueriesTab {
  #hub;
  #p = {};
  #view;
  #where = new WhereRows(() => this.#paint());
  #form = 'sdk';

  constructor(hub) {
    this.#hub = hub;
    this.element = this.#build();
    this.#p.circleField.classList.add('circle');
    this.#view = new EventsView(this.#p, hub, () => { hub.link.observe = this.#view.texts; hub.keepLink(); });
    this.#view.attachOnly(hub.link.observe);
    hub.on('link', (link, before) => { if (String(link.observe) !== String(before.observe)) this.#view.attachOnly(link.observe); });
    hub.on('moved', () => this.#view.restart());
    hub.on('selected', (path) => { if (!this.#p.path.value) { this.#p.path.placeholder = path; this.#paint(); } });
    this.#p.path.placeholder = hub.selected;
    this.#paint();
  }

  get state() {
    return { events: this.#view.entries, observers: this.#view.texts, observe: (text, kinds) => { this.#view.attach(Query.from(text), kinds); }, text: this.#p.same.textContent };
  }

  show() { this.#paint(); }
  hide() {}

  /** The form's Query; throws an Error with a sentence when a bound is not a valid value. */
  get #query() {
    const p = this.#p, [kind, side] = [p.range.value, p.side.value];
    const bounds = {};
    const bound = (name, text) => { if (name && text.trim() !== '') bounds[name] = p.order.value === 'key' ? text : valueOf(text, kindOf(text)); };
    if (p.order.value) {
      if (kind === 'equalTo') bound('equalTo', p.start.value);
      if (kind === 'range') { bound(p.startKind.value, p.start.value); bound(p.endKind.value, p.end.value); }
    }
    return new Query({
      path: p.path.value.trim() || p.path.placeholder, where: this.#where.conditions, near: p.near.value ? this.#circle : null,
      order: p.order.value || null, child: p.child.value.trim(), bounds, limit: side ? { side, count: Number(p.count.value) } : null,
    });
  }

  get #circle() {
    const [lat, lng] = this.#p.centre.value.split(/[,;\s]+/).filter(Boolean).map(Number), radius = this.#p.radius.value;
    return { lat, lng, ...(radius && { radius: Number(radius) }) };
  }

  get #events() { return [...this.#p.kinds.querySelectorAll('input:checked')].map((box) => box.name); }

  #read() {
    let query, fault;
    try {
      query = this.#query;
      fault = query.fault;
    } catch (error) {
      fault = error.message;
    }
    if (!fault && !this.#events.length) fault = 'Choose at least one kind of event.';
    return { query, fault };
  }

  #paint() {
    const p = this.#p, hub = this.#hub;
    p.childField.hidden = p.order.value !== 'child';
    p.circleField.hidden = !p.near.value;
    setText(p.order.options[0], p.near.value ? 'by distance' : 'as it is');
    setText(p.side.options[1], p.near.value && !p.order.value ? 'the nearest' : 'the first');
    p.rangeField.hidden = !p.order.value;
    p.startField.hidden = !p.order.value || !p.range.value;
    p.endField.hidden = p.range.value !== 'range' || !p.order.value;
    p.startKind.hidden = p.range.value !== 'range';
    p.count.disabled = !p.side.value;
    const { query, fault } = this.#read();
    setText(p.fault, fault ?? '');
    setText(p.plan, '');
    p.observe.disabled = p.once.disabled = p.explain.disabled = Boolean(fault);
    for (const button of p.forms.children) button.setAttribute('aria-pressed', String(button.dataset.form === this.#form));
    if (fault) { setText(p.same, ''); return; }
    const signs = { signs: Boolean(hub.credentials.token) };
    setText(p.same, { sdk: () => query.sdk(this.#events, hub.base, hub.ns), observe: () => query.observe(this.#events), curl: () => query.curl(hub.base, hub.ns, this.#events, signs), command: () => query.command(hub.base, hub.ns, this.#events, signs) }[this.#form]());
  }

  async #once() {
    const { query, fault } = this.#read();
    if (fault) return;
    const started = performance.now();
    try {
      const read = await readOnce(this.#hub, query, this.#events);
      this.#view.note({ event: 'read', path: query.text, key: null, ...read, latency: performance.now() - started });
    } catch (refusal) {
      this.#view.note({ mark: `${query.text}: ${refusal.text || refusal.message || refusal.code}` });
    }
  }

  /** Shows where the hub would start to look for the children, without reading them. */
  async #explain() {
    const { query, fault } = this.#read();
    if (fault) return;
    const text = await explainQuery(this.#hub, query);
    if (query.text === this.#read().query?.text) setText(this.#p.plan, text);
  }

  #build() {
    const p = this.#p;
    const input = (name, label, attributes = {}) => (p[name] = textInput({ 'aria-label': label, ...attributes }));
    const choice = (name, label, options) => (p[name] = select({ 'aria-label': label, id: `query-${name}` }, options));
    const row = (title, ...content) => element('div', { class: 'query-row' }, element('span', { class: 'quiet' }, title), ...content);
    p.form = element('form', { class: 'query-form', id: 'attach', autocomplete: 'off', oninput: () => this.#paint(), onchange: () => this.#paint(), onsubmit: (event) => {
      event.preventDefault();
      const { query, fault } = this.#read();
      if (!fault) this.#view.attach(query, this.#events);
    } },
      row('Place', input('path', 'Place to observe', { id: 'attach-path', class: 'mono' })),
      this.#where.element,
      row('Near', choice('near', 'Near', [['', 'anywhere'], ['circle', 'around a point']])),
      p.circleField = row('', input('centre', 'Centre: latitude, longitude', { id: 'query-centre', class: 'mono', placeholder: '37.975, 23.735' }),
        element('span', { class: 'unit', 'data-unit': 'm' }, input('radius', 'Radius in metres', { id: 'query-radius', type: 'number', min: '1', step: 'any', placeholder: 'radius' }))),
      row('Order', choice('order', 'Order', [['', 'as it is'], ['key', 'by key'], ['child', 'by a child'], ['value', 'by value'], ['priority', 'by priority']]),
        p.childField = element('span', { class: 'grow' }, input('child', 'Child to order by', { id: 'query-child', class: 'mono', placeholder: 'timestamp' }))),
      p.rangeField = row('Range', choice('range', 'Range', [['', 'all'], ['range', 'from … to …'], ['equalTo', 'equal to']])),
      p.startField = row('', choice('startKind', 'Beginning of the range', [['startAt', 'from'], ['startAfter', 'after']]), input('start', 'Value at the beginning', { id: 'query-start', class: 'mono', placeholder: 'value' })),
      p.endField = row('', choice('endKind', 'End of the range', [['endAt', 'to'], ['endBefore', 'before']]), input('end', 'Value at the end', { id: 'query-end', class: 'mono', placeholder: 'value' })),
      row('Limit', choice('side', 'Limit', [['', 'none'], ['first', 'the first'], ['last', 'the last']]), input('count', 'How many', { id: 'query-count', type: 'number', min: '1', value: '50' })),
      row('Events', p.kinds = element('fieldset', { class: 'kinds' }, element('legend', { class: 'sr' }, 'Events to hear of'),
        ...['added', 'changed', 'moved', 'removed', 'value', 'count'].map((name) => element('label', {}, element('input', { type: 'checkbox', name, checked: ['added', 'changed', 'removed'].includes(name) }), element('span', {}, name))))),
      p.fault = element('p', { class: 'bad query-fault', role: 'alert' }),
      element('div', { class: 'query-foot' }, p.observe = element('button', { class: 'button primary', id: 'observe' }, 'Observe'), p.once = button('Read once', () => this.#once(), { id: 'read-once' }),
        p.explain = button('Explain', () => this.#explain(), { class: 'button plain', id: 'query-explain', title: 'From where the hub looks for the children' })),
      p.plan = element('p', { class: 'quiet query-plan', role: 'status', id: 'query-plan' }));
    const side = element('div', { class: 'query-side' }, element('header', { class: 'pane-head' }, element('h2', {}, 'Query')), p.form,
      element('section', { class: 'same', 'aria-label': 'The same elsewhere' },
        element('div', { class: 'same-head' }, p.forms = element('div', { class: 'switch', role: 'group', 'aria-label': 'Form' },
          ...forms.map(([form, title]) => element('button', { type: 'button', 'data-form': form, onclick: () => { this.#form = form; this.#paint(); } }, title))),
        button('Copy', () => copyText(p.same.textContent), { class: 'button plain', id: 'copy-same' })),
        p.same = element('pre', { class: 'mono', id: 'same', tabindex: '0', role: 'region', 'aria-label': 'The same elsewhere, as text' })));
    const log = element('div', { class: 'query-log' },
      element('header', { class: 'pane-head' }, element('h2', {}, 'Events'),
        element('div', { class: 'pane-tools' },
          element('label', { class: 'filter' }, element('span', { class: 'sr' }, 'Filter the log'), p.filter = element('input', { id: 'log-filter', type: 'search', placeholder: 'Filter', spellcheck: 'false' })),
          p.pause = element('button', { class: 'button plain', id: 'log-pause', type: 'button', 'aria-pressed': 'false' }, 'Pause'),
          p.clear = element('button', { class: 'button plain', type: 'button' }, 'Clear'))),
      p.chips = element('ul', { class: 'observers', 'aria-label': 'Observers' }),
      element('div', { class: 'log-scroll', tabindex: '0', role: 'region', 'aria-label': 'Event log' }, p.list = element('ol', { class: 'log' }), p.blank = element('div', { class: 'blank' })));
    return element('section', { class: 'queries', 'aria-label': 'Queries' }, side, log);
  }
}
