// What the page is built from: elements, form fields, values as short texts, and messages to the user. Text is always inserted as text, never
// as markup.

import { pathFault } from '../client/paths.js';

/** element('button', { class: 'x', type: 'button', onclick }, 'text', child, …) */
export function element(name, attributes = {}, ...content) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'class') node.className = value;
    else node.setAttribute(key, value === true ? '' : value);
  }
  for (const item of content) if (item !== null && item !== undefined) node.append(item);
  return node;
}

/** A button that submits no form. */
export const button = (title, onclick, attributes = {}) => element('button', { class: 'button', type: 'button', onclick, ...attributes }, title);

export const byId = (id) => document.getElementById(id);

/** Runs `work` once in the next frame, however often it is requested. */
export function perFrame(work) {
  let isRequested = false;
  return () => {
    if (isRequested) return;
    isRequested = true;
    requestAnimationFrame(() => { isRequested = false; work(); });
  };
}

/** Tracks whether the pointer is down in a list, which must not move then, so that a click hits the pressed row. after(): called on release. */
export function pressedIn(list, after = () => {}) {
  let isDown = false;
  list.addEventListener('pointerdown', ({ button }) => { isDown = button === 0; });
  const up = () => { if (isDown) setTimeout(() => { isDown = false; after(); }); };
  for (const end of ['pointerup', 'pointercancel']) addEventListener(end, up);
  return () => isDown;
}

/** Sets text only when it differs, so that unchanged rows cost nothing. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

// ---- Form fields.

/** A text field for keys, paths and values: without spell check, automatic capitals and suggestions. */
export const textInput = (attributes = {}) => element('input', { spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', ...attributes });

/** A control with a title. */
export const field = (title, control) => element('label', { class: 'field' }, element('span', {}, title), control);

/** choices: [[value, title], …] */
export const select = (attributes, choices) => element('select', attributes, ...choices.map(([value, title]) => element('option', { value }, title)));

/** A text field for a path; the fault that `isValidPath` shows disappears when the user types. */
export function pathInput(attributes = {}) {
  const input = textInput({ enterkeyhint: 'go', ...attributes });
  input.addEventListener('input', () => input.setCustomValidity(''));
  return input;
}

/** Whether the field holds a valid path. If not, the browser shows the fault at the field. */
export function isValidPath(input) {
  const fault = pathFault(input.value);
  input.setCustomValidity(fault ?? '');
  if (fault) input.reportValidity();
  return !fault;
}

// ---- Times, counts and values as short texts. Pure.

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
export function clockTime(ms) {
  return `${clock.format(ms)}.${String(Math.floor(ms % 1000)).padStart(3, '0')}`;
}

/** "now", "12 s", "5 min", "3 h", "2 d". */
export function age(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 3) return 'now';
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** "142 m", "2.62 km". */
export const metres = (distance) => (distance < 1000 ? `${Math.round(distance)} m` : `${(distance / 1000).toLocaleString('en', { maximumSignificantDigits: 3 })} km`);

export const plural = (count, one, many = one + 's') => `${count.toLocaleString('en')} ${count === 1 ? one : many}`;

/** A value in one short line: {name: "Ana", age: 3, …}. */
export function preview(value, length = 80) {
  const text = inline(value, 3);
  return text.length > length ? text.slice(0, length - 1) + '…' : text;
}

function inline(value, depth) {
  if (value === null || typeof value !== 'object') return typeof value === 'string' ? JSON.stringify(value.length > 120 ? value.slice(0, 120) + '…' : value) : String(value);
  if (depth === 0) return '{…}';
  const keys = Object.keys(value);
  const shown = keys.slice(0, 8).map((key) => `${key}: ${inline(value[key], depth - 1)}`);
  if (keys.length > 8) shown.push('…');
  return `{${shown.join(', ')}}`;
}

export function typeOf(value) {
  return value === null || value === undefined ? 'null' : typeof value;
}

// ---- Messages to the user, and questions before important actions.

const shownMs = 7000;
const atMost = 3;

/** Shows a message. options: bad (stays until it is closed), action { title, run }. Returns the function that closes it. */
export function say(text, { bad = false, action = null } = {}) {
  const list = byId('words');
  // A repeated message replaces the earlier one, with the action of the later one.
  for (const item of [...list.children]) if (item.firstElementChild.textContent === text) item.remove();
  let timer = 0;
  const close = () => { clearTimeout(timer); item.remove(); };
  const item = element('div', { class: 'word', 'data-bad': bad ? '' : null },
    element('span', {}, text),
    action && button(action.title, () => { close(); action.run(); }, { class: 'button plain' }),
    button('×', close, { class: 'icon', 'aria-label': 'Close this message' }));
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

/** Resolves with true when the user agrees. verb: the text of the button; bad: the action removes something. */
export function askUser(title, text, verb, { bad = false } = {}) {
  return new Promise((answer) => {
    const done = (agreed) => { dialog.close(); dialog.remove(); answer(agreed); };
    const no = button('Cancel', () => done(false));
    const dialog = element('dialog', { class: 'ask', 'aria-label': title, oncancel: (event) => { event.preventDefault(); done(false); } },
      element('h2', {}, title), element('p', {}, text),
      element('div', { class: 'ask-foot' }, no, button(verb, () => done(true), { class: bad ? 'button danger' : 'button primary' })));
    document.body.append(dialog);
    dialog.showModal();
    (bad ? no : dialog.querySelector('.primary')).focus();
  });
}

/** Puts a text on the clipboard, and confirms it. */
export async function copyText(text, done = 'Copied.') {
  try {
    await navigator.clipboard.writeText(text);
    say(done);
  } catch {
    say('The browser does not let this page use the clipboard here.', { bad: true });
  }
}
