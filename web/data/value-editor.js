// Edits a value in place: type, Enter; Escape cancels.

import { element, textInput } from '../page/dom.js';
import { TextFault, kindOf, valueOf } from '../page/json-text.js';

const kinds = ['text', 'number', 'yes/no', 'JSON'];

/** Replaces `shown` with an editor. done(value) is called once with the new value, or with undefined when editing was cancelled. */
export function editValue(shown, value, { label, done }) {
  const input = textInput({ class: 'editor-text', 'aria-label': label });
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
