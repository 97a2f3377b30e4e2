// A question before something that cannot be overlooked.

import { element } from './dom.js';

/** Resolves with true when the person agrees. verb: the word on the button; bad: it takes something away. */
export function ask(title, text, verb, { bad = false } = {}) {
  return new Promise((answer) => {
    const done = (agreed) => { dialog.close(); dialog.remove(); answer(agreed); };
    const no = element('button', { class: 'button', type: 'button', onclick: () => done(false) }, 'Cancel');
    const dialog = element('dialog', { class: 'ask', 'aria-label': title, oncancel: (event) => { event.preventDefault(); done(false); } },
      element('h2', {}, title), element('p', {}, text),
      element('div', { class: 'ask-foot' }, no, element('button', { class: bad ? 'button danger' : 'button primary', type: 'button', onclick: () => done(true) }, verb)));
    document.body.append(dialog);
    dialog.showModal();
    (bad ? no : dialog.querySelector('.primary')).focus();
  });
}
