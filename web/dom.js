// Small builders for the page. Text always goes in as text, never as markup.

/** element('button', { class: 'x', type: 'button', onclick }, 'text', child, …) */
export function element(name, attributes = {}, ...content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (key === 'class') made.className = value;
    else made.setAttribute(key, value === true ? '' : value);
  }
  for (const item of content) if (item !== null && item !== undefined) made.append(item);
  return made;
}

export const byId = (id) => document.getElementById(id);

/** Runs `work` once in the next frame, however often it is requested. */
export function perFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; work(); });
  };
}

/** Sets text only when it differs, so that unchanged rows cost nothing. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

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
