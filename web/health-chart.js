// A small live chart: a title, the present figure, and lines of the last minutes. Drawn as SVG by these few lines.

import { element, setText } from './dom.js';
import { figure, linePoints, niceTop } from './health-metrics.js';

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

  /** title; unit: such as "B/s"; series: [{ name, read(readings) → [{ at, value }] }]; hint: what it tells. */
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

  /** The present figure of the first line; null when the hub does not tell it. */
  value = null;

  /** Draws the readings; the chart is hidden while the hub tells none of its figures. */
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
