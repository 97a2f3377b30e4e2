// Health: the hub's state, read every two seconds while the tab is shown, and the last lines of its log.
//
//   /.metrics ─► readings of the last minutes ─► charts, lists, table        /.health ─► the line on top        /.inspect/log ─► log
//   /.inspect/cluster.json ─► the other hubs of its cluster

import { Gate, LogReader, Repeating, gatedTab, request } from '../page/administration.js';
import { button, clockTime, element, setText } from '../page/dom.js';
import { Chart, charts, lists } from './charts.js';
import { Readings, byLabel, figure, parseMetrics, total } from './metrics.js';

const everyMs = 2000;
const spanMs = 4 * 60 * 1000;
const firstSpanMs = 30 * 1000;

export const makeTab = (hub) => gatedTab(new HealthTab(hub));

class HealthTab {
  #hub;
  #p = {};
  #readings = new Readings(spanMs / everyMs);
  #charts = charts.map((chart) => new Chart(chart));
  #generation = 0;
  #health = null;
  #cluster = null;

  constructor(hub) {
    this.#hub = hub;
    this.log = new LogLines(hub);
    this.repeating = new Repeating(everyMs, () => this.#read());
    this.gate = new Gate(hub, 'Health', this.#build(), {
      begin: () => { this.repeating.start(); this.log.start(); },
      end: () => { this.repeating.stop(); this.log.stop(); },
    });
    hub.on('moved', () => { this.#generation++; this.#readings = new Readings(spanMs / everyMs); this.log.clear(); });
  }

  /** The present figure of each chart that is shown, by its id. */
  get state() {
    const figures = {};
    charts.forEach(({ id }, i) => { if (!this.#charts[i].element.hidden) figures[id] = this.#charts[i].value; });
    return { figures, readings: this.#readings.list.length, health: this.#health, log: this.log.lines };
  }

  #build() {
    const p = this.#p;
    p.word = element('p', { class: 'health-word', role: 'status' }, 'Reading');
    p.since = element('p', { class: 'quiet' });
    p.lists = element('div', { class: 'health-lists' });
    p.search = element('input', { type: 'search', id: 'metrics-search', placeholder: 'Filter', 'aria-label': 'Filter the metrics', spellcheck: 'false', oninput: () => this.#paintAll() });
    p.rows = element('tbody');
    p.all = element('details', { class: 'health-all', ontoggle: () => this.#paintAll() },
      element('summary', {}, 'All metrics'), p.search,
      element('div', { class: 'health-table', tabindex: '0', role: 'region', 'aria-label': 'All metrics' },
        element('table', {}, element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, 'Metric'), element('th', { scope: 'col' }, 'Now'), element('th', { scope: 'col' }, 'What it tells'))), p.rows)));
    return element('div', { class: 'health' },
      element('header', { class: 'pane-head' }, element('h2', {}, 'Health'), p.word, p.since),
      element('div', { class: 'charts' }, ...this.#charts.map((chart) => chart.element)),
      p.lists, this.log.element, p.all);
  }

  async #read() {
    const generation = this.#generation;
    const [text, health, refusals] = await Promise.all([
      request(this.#hub, '/.metrics?by=user').catch((fault) => fault),
      request(this.#hub, '/.health').catch(() => null),
      request(this.#hub, `/.settings/refusals.json?after=${Number.MAX_SAFE_INTEGER}`).catch(() => null),
    ]);
    if (generation !== this.#generation) return;
    this.#health = health;
    this.#cluster = health?.cluster ? await request(this.#hub, '/.inspect/cluster.json').catch(() => null) : null;
    if (generation !== this.#generation) return;
    if (typeof text !== 'string') {
      this.#say('bad', text.status === 404 ? 'This hub shows its metrics to its own machine only, or to nobody (--metrics)' : text.message);
      return;
    }
    const metrics = parseMetrics(text);
    // Hubs count refusals outside their metrics as well.
    if (refusals) metrics.set('page_refusals', { help: '', type: 'counter', samples: [{ labels: {}, value: refusals.latest }] });
    this.#readings.add(performance.now(), metrics);
    this.#paint();
  }

  #say(tone, text) {
    this.#p.word.dataset.tone = tone;
    setText(this.#p.word, text);
  }

  #paint() {
    const metrics = this.#readings.last;
    if (this.#health?.status === 'ok') this.#say('good', 'Serving, and accepting writes');
    else if (this.#health) this.#say('bad', this.#health.text ?? this.#health.status);
    setText(this.#p.since, `${figure(total(metrics, 'vigla_connections_accepted_total'))} connections, ${figure(total(metrics, 'vigla_requests_total'))} requests since the start`);
    const until = performance.now();
    // The first half minute fills the charts, then they grow to their whole span.
    const from = Math.max(until - spanMs, Math.min(this.#readings.list[0].at, until - firstSpanMs));
    for (const chart of this.#charts) chart.draw(this.#readings, from, until);
    this.#p.lists.replaceChildren(...[this.#hubs(), ...lists.map((list) => this.#list(list, byLabel(this.#readings.last, list.metric, list.label)))].filter(Boolean));
    this.#paintAll();
  }

  /** The distribution of the cluster's shards over its hubs. */
  #hubs() {
    if (!this.#cluster) return null;
    const rows = this.#cluster.hubs.map(({ id, address, writes, lag, answers }) => [`${address || id}${answers ? ', this one' : ''}${lag ? `, ${figure(lag)} behind` : ''}`, writes]);
    return this.#list({ id: 'cluster', title: `Cluster ${this.#cluster.name}: shards that each hub writes` }, rows.sort((a, b) => b[1] - a[1]));
  }

  #list({ id, title, unit }, all) {
    const rows = all.slice(0, 12);
    if (!rows.length) return null;
    const top = rows[0][1] || 1;
    return element('section', { class: 'health-list', id: `list-${id}`, 'aria-label': title }, element('h3', {}, title),
      element('ul', {}, ...rows.map(([name, value]) => {
        const row = element('li', {}, element('span', {}, name || 'others'), element('b', {}, figure(value, unit)));
        row.style.setProperty('--part', value / top);
        return row;
      })));
  }

  #paintAll() {
    const p = this.#p;
    if (!p.all.open || !this.#readings.last) return;
    const wanted = p.search.value.trim().toLowerCase();
    const rows = [];
    for (const [name, { help, samples }] of this.#readings.last) {
      if (name === 'page_refusals' || (wanted && !`${name} ${help}`.toLowerCase().includes(wanted))) continue;
      for (const { labels, value } of samples) {
        const labelled = Object.entries(labels).map(([key, text]) => `${key}=${text}`).join(', ');
        rows.push(element('tr', {}, element('td', {}, element('code', {}, name.replace(/^vigla_/, '')), labelled ? element('span', { class: 'quiet' }, ` ${labelled}`) : null),
          element('td', {}, value.toLocaleString('en')), element('td', { class: 'quiet' }, help)));
      }
    }
    p.rows.replaceChildren(...rows.slice(0, 1000));
  }
}

// ---- The last lines of the hub's log, live.

const logEveryMs = 3000;
const shownLines = 300;
const tones = { warning: 'warn', error: 'bad', critical: 'bad' };

export class LogLines {
  #list;
  #blank;
  #pause;
  #isPaused = false;
  #reader;

  constructor(hub) {
    this.#list = element('ol', { class: 'health-lines' });
    this.#blank = element('p', { class: 'blank' }, 'Nothing was logged since the hub was started.');
    this.#pause = button('Pause', () => this.#toggle(), { class: 'button plain', id: 'health-log-pause', 'aria-pressed': 'false' });
    this.element = element('section', { class: 'health-log', 'aria-label': 'Log' },
      element('header', { class: 'pane-head' }, element('h3', {}, 'Log'), this.#pause),
      this.scroll = element('div', { class: 'health-scroll', tabindex: '0', role: 'region', 'aria-label': 'The last lines of the log' }, this.#list, this.#blank));
    this.#reader = new LogReader(hub, '/.inspect/log.json', logEveryMs, {
      isPaused: () => this.#isPaused,
      added: ({ lines }) => this.#add(lines),
      cleared: () => this.#list.replaceChildren(),
      failed: ({ status }) => { if (status === 404) setText(this.#blank, 'This hub keeps no lines of its log.'); },
    });
  }

  get lines() { return [...this.#list.children].map((line) => line.lastElementChild.textContent); }

  start() { this.#reader.start(); }
  stop() { this.#reader.stop(); }
  clear() { this.#reader.clear(); }

  #toggle() {
    this.#isPaused = !this.#isPaused;
    this.#pause.setAttribute('aria-pressed', String(this.#isPaused));
    setText(this.#pause, this.#isPaused ? 'Go on' : 'Pause');
  }

  #add(lines) {
    const isAtEnd = this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < 30;
    this.#list.append(...lines.map(({ at, level, text }) => element('li', { class: tones[level] }, element('time', {}, clockTime(at)), element('span', { class: 'health-level' }, level), element('span', {}, text))));
    while (this.#list.childElementCount > shownLines) this.#list.firstElementChild.remove();
    this.#blank.hidden = this.#list.childElementCount > 0;
    if (isAtEnd) this.scroll.scrollTop = this.scroll.scrollHeight;
  }
}
