// What the page says to a person: short messages below, each with at most one thing to do about it, and questions before something that cannot
// be overlooked.

import { byId, element } from './dom.js';

const shownMs = 7000;
const atMost = 3;

/** Shows a message. options: bad (stays until it is closed), action { title, run }. Returns the function that closes it. */
export function say(text, { bad = false, action = null } = {}) {
  const list = byId('words');
  // Said twice in a row it stands there once, with what can be done about the later one.
  for (const item of [...list.children]) if (item.firstElementChild.textContent === text) item.remove();
  let timer = 0;
  const close = () => { clearTimeout(timer); item.remove(); };
  const item = element('div', { class: 'word', 'data-bad': bad ? '' : null },
    element('span', {}, text),
    action && element('button', { class: 'button plain', type: 'button', onclick: () => { close(); action.run(); } }, action.title),
    element('button', { class: 'icon', type: 'button', 'aria-label': 'Close this message', onclick: close }, '×'));
  const wait = () => { clearTimeout(timer); if (!bad) timer = setTimeout(close, shownMs); };
  item.addEventListener('pointerenter', () => clearTimeout(timer));
  item.addEventListener('pointerleave', wait);
  item.addEventListener('focusin', () => clearTimeout(timer));
  item.addEventListener('focusout', wait);
  list.append(item);
  while (list.childElementCount > atMost) list.firstElementChild.remove();
  wait();
  return close;
}

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
