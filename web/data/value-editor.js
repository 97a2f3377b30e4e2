// Edits a value in place: type, Enter; Escape cancels.

import { element } from '../page/dom.js';
import { TextFault, readValue } from '../page/json-text.js';

const kinds = ['text', 'number', 'yes/no', 'JSON'];

/** The kind of value that a text suggests when none was chosen: 12 a number, true a truth value, {…} JSON, else a text. */
export function kindOf(text) {
  const trimmed = text.trim();
  if (trimmed === 'true' || trimmed === 'false') return 'yes/no';
  if (/^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(trimmed)) return 'number';
  if (/^([{["]|null$)/.test(trimmed)) return 'JSON';
  return 'text';
}

/** The value of a text for a kind; throws TextFault. */
export function valueOf(text, kind) {
  if (kind === 'text') return text;
  const { value } = readValue(text, 'set');
  if (kind === 'number' && typeof value !== 'number') throw new TextFault('This is not a number.', text, 0);
  if (kind === 'yes/no' && typeof value !== 'boolean') throw new TextFault('This is neither true nor false.', text, 0);
  return value;
}

/** Replaces `shown` with an editor. done(value) is called once with the new value, or with undefined when editing was cancelled. */
export function editValue(shown, value, { label, done }) {
  const input = element('input', { class: 'editor-text', 'aria-label': label, spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off' });
  const kind = element('select', { class: 'editor-kind', 'aria-label': 'Type of the value' }, ...kinds.map((name) => element('option', {}, name)));
  input.value = typeof value === 'string' ? value : JSON.stringify(value);
  let isChosen = typeof value === 'string';
  kind.value = isChosen ? 'text' : kindOf(input.value);
  const fault = element('span', { class: 'editor-fault', role: 'alert' });
  const editor = element('span', { class: 'editor' }, input, kind, fault);
  let isOver = false;
  const finish = (result) => {
    if (isOver) return;
    isOver = true;
    editor.remove();
    shown.hidden = false;
    done(result);
  };
  const save = () => {
    try {
      finish(valueOf(input.value, kind.value));
    } catch (error) {
      if (!(error instanceof TextFault)) throw error;
      fault.textContent = error.message;
      input.setAttribute('aria-invalid', 'true');
    }
  };
  input.addEventListener('input', () => {
    fault.textContent = '';
    input.removeAttribute('aria-invalid');
    if (!isChosen) kind.value = kindOf(input.value);
  });
  kind.addEventListener('change', () => { isChosen = true; input.focus(); });
  editor.addEventListener('keydown', (event) => {
    event.stopPropagation();
    if (event.key === 'Enter') { event.preventDefault(); save(); }
    if (event.key === 'Escape') { event.preventDefault(); finish(undefined); }
  });
  editor.addEventListener('focusout', (event) => { if (!editor.contains(event.relatedTarget)) finish(undefined); });
  shown.hidden = true;
  shown.after(editor);
  input.focus();
  input.select();
  return { cancel: () => finish(undefined) };
}
