// Queries: observers on places, and the log of what they report.

import { element } from './dom.js';
import { EventsView } from './events-view.js';

export function makeTab(hub) {
  const p = {};
  const root = element('section', { class: 'queries', 'aria-label': 'Queries' },
    element('header', { class: 'pane-head' }, element('h2', {}, 'Child events'),
      element('div', { class: 'pane-tools' },
        element('label', { class: 'filter' }, element('span', { class: 'sr' }, 'Filter the log'), p.filter = element('input', { id: 'log-filter', type: 'search', placeholder: 'Filter', spellcheck: 'false' })),
        p.pause = element('button', { class: 'button plain', id: 'log-pause', type: 'button', 'aria-pressed': 'false' }, 'Pause'),
        p.clear = element('button', { class: 'button plain', type: 'button' }, 'Clear'))),
    p.form = element('form', { class: 'attach', id: 'attach', autocomplete: 'off' },
      element('label', { class: 'path' }, element('span', { class: 'sr' }, 'Path to observe'), p.path = element('input', { id: 'attach-path', spellcheck: 'false', autocapitalize: 'off', placeholder: '/timeline/ana' })),
      p.kinds = element('fieldset', { class: 'kinds' }, element('legend', { class: 'sr' }, 'Events to observe'),
        ...['added', 'changed', 'removed', 'value'].map((name) => element('label', {}, element('input', { type: 'checkbox', name, checked: name !== 'value' }), element('span', {}, name)))),
      element('button', { class: 'button' }, 'Observe')),
    p.chips = element('ul', { class: 'observers', 'aria-label': 'Attached observers' }),
    element('div', { class: 'log-scroll', tabindex: '0', role: 'region', 'aria-label': 'Event log' }, p.list = element('ol', { class: 'log' }), p.blank = element('div', { class: 'blank' })));
  const view = new EventsView(p, hub.observe, () => { hub.link.observe = view.paths; hub.keepLink(); });
  view.attachOnly(hub.link.observe);
  return { element: root, show() {}, hide() {}, get state() { return { events: view.entries, observe: (path, kinds) => { view.attach(path, kinds); } }; } };
}
