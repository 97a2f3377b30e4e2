// Short messages below, each with at most one thing to do about it.

import { byId, element } from './dom.js';

const shownMs = 7000;
const atMost = 3;

/** Shows a message. options: bad (stays until it is closed), action { title, run }. Returns the function that closes it. */
export function say(text, { bad = false, action = null } = {}) {
  const list = byId('words');
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
