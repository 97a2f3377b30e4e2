// The charts and lists of a hub's health: which of its metrics are drawn, and which are listed by their labels. Missing metrics are
// hidden; all others are in the table of all metrics.

import { element, setText } from '../page/dom.js';
import { figure, linePoints, niceTop } from './metrics.js';

const gauge = (name, labels) => (readings) => readings.gauge(name, labels);
const rate = (name, labels) => (readings) => readings.rate(name, labels);
/** The first of these series that the hub provides. */
const either = (...reads) => (readings) => reads.map((read) => read(readings)).find((series) => series.length) ?? [];

const milliseconds = (part) => (readings) => readings.quantile('vigla_request_seconds', part).map(({ at, value }) => ({ at, value: value * 1000 }));
const percent = (name) => (readings) => readings.rate(name).map(({ at, value }) => ({ at, value: value * 100 }));

export const charts = [
  { id: 'connections', title: 'Connections', series: [{ read: gauge('vigla_connections') }], hint: 'Open now' },
  { id: 'operations', title: 'Operations', unit: '/s', series: [{ name: 'requests', read: rate('vigla_requests_total') }, { name: 'commits', read: rate('vigla_commits_total') }], hint: 'Requests handled and commits in a second' },
  { id: 'latency', title: 'Time of a request', unit: 'ms', series: [{ name: 'half', read: milliseconds(0.5) }, { name: '99 %', read: milliseconds(0.99) }], hint: 'What half of the requests and 99 in 100 took at most' },
  { id: 'events', title: 'Events', unit: 'B/s', series: [{ read: rate('vigla_event_bytes_total') }], hint: 'Bytes of events for observers in a second, as often as there are observers' },
  { id: 'bytes', title: 'Traffic', unit: 'B/s', series: [{ name: 'in', read: rate('vigla_received_bytes_total') }, { name: 'out', read: rate('vigla_sent_bytes_total') }], hint: 'Bytes in a second' },
  { id: 'observers', title: 'Observers', series: [{ read: gauge('vigla_observers') }], hint: 'Listens, subscriptions and event streams' },
  { id: 'queues', title: 'Queues', series: [{ name: 'databases', read: gauge('vigla_database_inbox') }, { name: 'net loops', read: gauge('vigla_loop_inbox') }], hint: 'Work that waits: near 0 unless the hub is at its limit' },
  { id: 'journal', title: 'Waiting for the journal', unit: 'B', series: [{ read: gauge('vigla_database_waiting_bytes') }], hint: 'Requests not yet carried out and durable' },
  { id: 'slow', title: 'Slow readers', series: [{ name: 'suspended', read: gauge('vigla_suspended_clients') }], hint: 'Clients that are told less because they read too slowly' },
  { id: 'backlog', title: 'Waiting for readers', unit: 'B', series: [{ read: gauge('vigla_backlog_bytes') }], hint: 'Bytes that wait for clients to read them' },
  { id: 'sign-ins', title: 'Sign-ins', unit: '/s', series: [{ name: 'all', read: rate('vigla_sign_ins_total') }, { name: 'let in', read: rate('vigla_sign_ins_total', { outcome: 'ok' }) }], hint: 'Sign-ups, sign-ins and refreshes in a second' },
  { id: 'refusals', title: 'Refused by the rules', unit: '/s', series: [{ read: either(rate('vigla_rule_refusals_total'), rate('page_refusals')) }], hint: 'Requests that the rules refused, in a second' },
  { id: 'memory', title: 'Memory', unit: 'B', series: [{ name: 'process', read: gauge('vigla_resident_memory_bytes') }, { name: 'requests', read: gauge('vigla_memory_held_bytes') }], hint: 'Of the process, and what is held for requests and answers under way' },
  { id: 'data', title: 'Data', unit: 'B', series: [{ read: gauge('vigla_data_bytes') }], hint: 'Of all databases as JSON, counted now and then' },
  { id: 'keys', title: 'Keys', series: [{ read: gauge('vigla_data_keys') }], hint: 'Of all databases on all levels, counted now and then' },
  { id: 'cpu', title: 'Processor', unit: '%', series: [{ read: percent('vigla_cpu_seconds_total') }], hint: 'Of one core' },
];

/** Lists: the metric, and the label to list it by. */
export const lists = [
  { id: 'close-reasons', title: 'Why connections ended', metric: 'vigla_connections_closed_total', label: 'reason' },
  { id: 'turned-away', title: 'Connections turned away', metric: 'vigla_connections_refused_total', label: 'reason' },
  { id: 'sessions', title: 'Sessions open', metric: 'vigla_sessions', label: 'protocol' },
  { id: 'by-path', title: 'Bytes of events by top-level path', metric: 'vigla_event_bytes_total', label: 'path', unit: 'B' },
  { id: 'by-user', title: 'Bytes sent by user', metric: 'vigla_user_sent_bytes_total', label: 'user', unit: 'B' },
  { id: 'refused-at', title: 'Refusals by place of the rules', metric: 'vigla_rule_refusals_total', label: 'place' },
  { id: 'sign-in-outcomes', title: 'Sign-ins by outcome', metric: 'vigla_sign_ins_total', label: 'outcome' },
  { id: 'files', title: 'Data folder', metric: 'vigla_data_file_bytes', label: 'file', unit: 'B' },
];

// ---- a small live chart: a title, the current figure, and lines of the last minutes. Drawn as SVG by these few lines.

const space = 'http://www.w3.org/2000/svg';
const width = 240, height = 52;

function shape(name, attributes) {
  const made = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export class Chart {
  #lines;
  #figures;
  #top;
  #svg;

  /** title; unit: such as "B/s"; series: [{ name, read(readings) → [{ at, value }] }]; hint: its explanation. */
  constructor({ id, title, unit = '', series, hint }) {
    this.title = title;
    this.unit = unit;
    this.series = series;
    this.#lines = series.map((_, i) => shape('polyline', { class: `chart-line line-${i}`, fill: 'none', 'vector-effect': 'non-scaling-stroke' }));
    this.#svg = shape('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img' });
    this.#svg.append(shape('path', { class: 'chart-grid', d: `M0 .5H${width}M0 ${height / 2}H${width}M0 ${height - 0.5}H${width}`, 'vector-effect': 'non-scaling-stroke' }), ...this.#lines);
    this.#figures = series.map(({ name }, i) => element('span', { class: 'chart-figure' }, element('b', {}, '–'), name ? element('span', { class: `chart-name name-${i}` }, name) : null));
    this.#top = element('span', { class: 'chart-top quiet' });
    this.element = element('figure', { class: 'chart', id: `chart-${id}`, title: hint, hidden: true },
      element('figcaption', {}, title), element('p', { class: 'chart-figures' }, ...this.#figures), element('div', { class: 'chart-box' }, this.#svg, this.#top));
  }

  /** The current figure of the first line; null if the hub does not provide it. */
  value = null;

  /** Draws the readings; the chart is hidden while the hub provides none of its figures. */
  draw(readings, from, until) {
    const found = this.series.map(({ read }) => read(readings));
    this.element.hidden = found.every((series) => series.length === 0);
    if (this.element.hidden) return;
    const top = niceTop(found.flat().map(({ value }) => value));
    const said = [];
    found.forEach((series, i) => {
      this.#lines[i].setAttribute('points', linePoints(series, width, height - 2, top, from, until));
      this.#lines[i].setAttribute('transform', 'translate(0 1)');
      const last = series.at(-1)?.value ?? null;
      if (i === 0) this.value = last;
      setText(this.#figures[i].firstChild, figure(last, this.unit));
      said.push(`${this.series[i].name ? `${this.series[i].name} ` : ''}${figure(last, this.unit)} now, at most ${figure(Math.max(0, ...series.map(({ value }) => value)), this.unit)} in the last minutes`);
    });
    setText(this.#top, figure(top, this.unit));
    this.#svg.setAttribute('aria-label', `${this.title}: ${said.join('; ')}`);
  }
}
