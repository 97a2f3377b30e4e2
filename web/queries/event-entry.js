// One line of the event log.

import { elide } from '../client/paths.js';
import { clockTime, element, metres, preview } from '../page/dom.js';

const timeNames = ['timestamp', 'at', 'time', 'createdAt', 'updatedAt'];
const recentMs = 600000;

/** The age of the time in a value by the hub's clock, in ms; null unless it contains a recent time. */
export function latencyOf(value, now) {
  const times = typeof value === 'number' ? [value] : value && typeof value === 'object' ? timeNames.map((name) => value[name]) : [];
  const time = times.find((other) => typeof other === 'number' && Math.abs(now - other) < recentMs);
  return time === undefined ? null : Math.max(0, now - time);
}

const spell = (ms) => (ms < 1 ? '< 1 ms' : ms < 10000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`);

/** The position of a child: its distance, or the child before it; and why it left. */
export function placeOf({ prev, distance, why }) {
  const place = distance !== undefined ? metres(distance) : prev === undefined ? '' : prev === null ? 'first' : `after ${elide(prev, 24)}`;
  return [why, place].filter(Boolean).join(' · ');
}

/** { at, path, event, key, prev, value, distance, why, order, seq, initial, latency } or { at, mark } → li. */
export function makeEntry(entry, fresh) {
  if (entry.mark) return element('li', { class: 'log-mark' }, element('time', {}, clockTime(entry.at)), entry.mark);
  const whole = () => JSON.stringify(entry.value ?? null, null, 2);
  const details = element('details', { class: entry.initial ? 'entry initial' : 'entry' },
    element('summary', {},
      element('time', {}, clockTime(entry.at)),
      element('span', { class: `event event-${entry.event}` }, entry.event),
      element('span', { class: 'entry-text' }, ...(entry.event === 'count' ? [element('span', { class: 'entry-key' }, entry.value.toLocaleString('en')), ' ', element('span', { class: 'entry-path' }, entry.path)] : [
        entry.key === null ? element('span', { class: 'entry-path' }, entry.path) : element('span', { class: 'entry-key' }, elide(entry.key, 60)),
        ' ', element('span', { class: 'entry-value' }, preview(entry.value ?? null, 160))])),
      element('span', { class: entry.distance === undefined ? 'entry-prev' : 'entry-prev is-near', title: entry.prev ? `behind ${entry.prev}` : null }, placeOf(entry)),
      element('span', { class: 'entry-latency' }, entry.latency == null ? '' : spell(entry.latency))));
  details.addEventListener('toggle', () => {
    if (!details.open || details.childElementCount > 1) return;
    const facts = [`at ${entry.path}`];
    if (entry.distance !== undefined) facts.push(`${entry.distance.toLocaleString('en')} m from the centre`);
    if (entry.prev !== undefined) facts.push(entry.prev === null ? 'first child' : `after ${entry.prev}`);
    if (entry.seq !== undefined) facts.push(`seq ${entry.seq}`);
    if (entry.initial) facts.push('was there when the observer was attached');
    if (entry.latency != null) facts.push(entry.event === 'read' ? `answered in ${spell(entry.latency)}` : `${spell(entry.latency)} after the time in it`);
    if (entry.why) facts.push(entry.why === 'left' ? 'it is still there, and not in the query any more' : entry.why === 'deleted' ? 'it was deleted' : entry.why);
    if (entry.order) facts.push(`in order: ${elide(entry.order.slice(0, 50).map(([key, distance]) => (distance === undefined ? key : `${key} ${metres(distance)}`)).join(', ') || 'nothing', 1000)}`);
    details.append(element('div', { class: 'entry-more' }, element('p', { class: 'quiet' }, facts.join(' · ')), element('pre', {}, elide(whole(), 20000))));
  });
  return element('li', fresh ? { class: 'fresh' } : {}, details);
}
