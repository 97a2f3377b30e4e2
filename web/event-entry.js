// One line of the event log.

import { clockTime, element, preview } from './dom.js';
import { elide } from './paths.js';

const timeNames = ['timestamp', 'at', 'time', 'createdAt', 'updatedAt'];
const recentMs = 600000;

/** How long ago by the hub's clock the time in a value was, in ms; null when it holds none that is recent. */
export function latencyOf(value, now) {
  const times = typeof value === 'number' ? [value] : value && typeof value === 'object' ? timeNames.map((name) => value[name]) : [];
  const time = times.find((other) => typeof other === 'number' && Math.abs(now - other) < recentMs);
  return time === undefined ? null : Math.max(0, now - time);
}

const spell = (ms) => (ms < 1 ? '< 1 ms' : ms < 10000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`);

/** { at, path, event, key, prev, value, seq, initial, latency } or { at, mark } → li. */
export function makeEntry(entry, fresh) {
  if (entry.mark) return element('li', { class: 'log-mark' }, element('time', {}, clockTime(entry.at)), entry.mark);
  const whole = () => JSON.stringify(entry.value ?? null, null, 2);
  const details = element('details', { class: entry.initial ? 'entry initial' : 'entry' },
    element('summary', {},
      element('time', {}, clockTime(entry.at)),
      element('span', { class: `event event-${entry.event}` }, entry.event),
      element('span', { class: 'entry-text' },
        entry.key === null ? element('span', { class: 'entry-path' }, entry.path) : element('span', { class: 'entry-key' }, elide(entry.key, 60)),
        ' ', element('span', { class: 'entry-value' }, preview(entry.value ?? null, 160))),
      element('span', { class: 'entry-prev', title: entry.prev ? `behind ${entry.prev}` : null }, entry.prev === undefined ? '' : entry.prev === null ? 'first' : `after ${elide(entry.prev, 24)}`),
      element('span', { class: 'entry-latency' }, entry.latency == null ? '' : spell(entry.latency))));
  details.addEventListener('toggle', () => {
    if (!details.open || details.childElementCount > 1) return;
    const facts = [`at ${entry.path}`];
    if (entry.prev !== undefined) facts.push(entry.prev === null ? 'first child' : `after ${entry.prev}`);
    if (entry.seq !== undefined) facts.push(`seq ${entry.seq}`);
    if (entry.initial) facts.push('was there when the observer was attached');
    if (entry.latency != null) facts.push(entry.event === 'read' ? `answered in ${spell(entry.latency)}` : `${spell(entry.latency)} after the time in it`);
    if (entry.why) facts.push(String(entry.why));
    details.append(element('div', { class: 'entry-more' }, element('p', { class: 'quiet' }, facts.join(' · ')), element('pre', {}, elide(whole(), 20000))));
  });
  return element('li', fresh ? { class: 'fresh' } : {}, details);
}
