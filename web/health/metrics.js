// A hub's metrics: Prometheus text into numbers, and numbers into rates per second. Pure.

const sample = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\d+)?$/;
const label = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|$)/g;

/** Prometheus text → Map of name → { help, type, samples: [{ labels, value }] }. Invalid lines are skipped. */
export function parseMetrics(text) {
  const metrics = new Map();
  const of = (name) => {
    if (!metrics.has(name)) metrics.set(name, { help: '', type: 'untyped', samples: [] });
    return metrics.get(name);
  };
  for (const line of text.split('\n')) {
    if (line.startsWith('# HELP ') || line.startsWith('# TYPE ')) {
      const [, what, name, rest] = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line) ?? [];
      if (name) of(name)[what === 'HELP' ? 'help' : 'type'] = rest;
      continue;
    }
    const found = line.startsWith('#') ? null : sample.exec(line.trim());
    const value = found && number(found[3]);
    if (!found || Number.isNaN(value)) continue;
    const labels = {};
    for (const [, name, escaped] of (found[2] ?? '').matchAll(label)) labels[name] = escaped.replace(/\\(.)/g, (_, c) => c === 'n' ? '\n' : c);
    of(found[1]).samples.push({ labels, value });
  }
  return metrics;
}

const number = (text) => text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : Number(text);

/** The sum of a metric's samples, or of those with these labels; null without samples. */
export function total(metrics, name, labels = {}) {
  const found = (metrics.get(name)?.samples ?? []).filter((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value));
  return found.length ? found.reduce((sum, { value }) => sum + value, 0) : null;
}

/** [[label's value, number]] of a metric, summed over its other labels, the largest first, without zeros. */
export function byLabel(metrics, name, key) {
  const sums = new Map();
  for (const { labels, value } of metrics.get(name)?.samples ?? []) {
    if (labels[key] !== undefined) sums.set(labels[key], (sums.get(labels[key]) ?? 0) + value);
  }
  return [...sums].filter(([, value]) => value !== 0).sort((a, b) => b[1] - a[1]);
}

/**
 * The last readings of a hub, for charts: rates of counters, and values of gauges. A counter that has decreased was reset, because
 * its hub was restarted.
 */
export class Readings {
  /** most: number of readings kept. */
  constructor(most = 120) {
    this.most = most;
    this.list = []; // { at, metrics }
  }

  add(at, metrics) {
    this.list.push({ at, metrics });
    if (this.list.length > this.most) this.list.shift();
  }

  get last() { return this.list.at(-1)?.metrics ?? null; }

  /** [{ at, value }] of a gauge. */
  gauge(name, labels) {
    return this.list.map(({ at, metrics }) => ({ at, value: total(metrics, name, labels) })).filter(({ value }) => value !== null);
  }

  /** [{ at, value }] of a counter, as the rate per second since the previous reading. */
  rate(name, labels) {
    return this.#between((before, now, seconds) => {
      const to = total(now, name, labels);
      return to === null ? null : since(total(before, name, labels), to) / seconds;
    });
  }

  /**
   * [{ at, value }] of a histogram: the quantile `part` of the measurements since the previous reading, from its buckets. No entry
   * for intervals without measurements.
   */
  quantile(name, part, labels) {
    return this.#between((before, now) => {
      const bounds = [...new Set((now.get(`${name}_bucket`)?.samples ?? []).map(({ labels: { le } }) => le))].sort((a, b) => number(a) - number(b));
      const ends = bounds.map(number);
      const upTo = (metrics, le) => total(metrics, `${name}_bucket`, { ...labels, le });
      const counts = bounds.map((le) => since(upTo(before, le), upTo(now, le) ?? 0));
      const all = counts.at(-1);
      if (!all) return null;
      const at = counts.findIndex((count) => count >= part * all);
      const [low, below] = at > 0 ? [ends[at - 1], counts[at - 1]] : [0, 0];
      return ends[at] === Infinity ? low : low + (ends[at] - low) * ((part * all - below) / (counts[at] - below));
    });
  }

  #between(read) {
    const result = [];
    for (let i = 1; i < this.list.length; i++) {
      const [before, now] = [this.list[i - 1], this.list[i]];
      const value = now.at > before.at ? read(before.metrics, now.metrics, (now.at - before.at) / 1000) : null;
      if (value !== null) result.push({ at: now.at, value });
    }
    return result;
  }
}

const since = (from, to) => from === null || to < from ? to : to - from;

/** 1234567 → "1.23 M", 1500 "B/s" → "1.5 kB/s", 5 "/s" → "5/s". */
export function figure(value, unit = '') {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  if (unit === 'ms' && Math.abs(value) >= 1000) return figure(value / 1000, 's');
  const steps = ['', 'k', 'M', 'G', 'T'];
  let step = 0, size = Math.abs(value);
  while (size >= 999.5 && step < steps.length - 1) { size /= 1000; step++; }
  const digits = size >= 99.95 || Number.isInteger(size) ? 0 : size >= 9.995 ? 1 : 2;
  const text = `${value < 0 ? '−' : ''}${Number(size.toFixed(digits)).toString()}`;
  const suffix = steps[step] + unit;
  return !suffix ? text : suffix.startsWith('/') ? text + suffix : `${text} ${suffix}`;
}

/** Points of a line in a box, oldest left: "0,20 5,10 …"; the scale begins at 0 and ends at `top`. */
export function linePoints(series, width, height, top, from, until) {
  if (until <= from) return '';
  return series.map(({ at, value }) => {
    const x = ((at - from) / (until - from)) * width;
    const y = height - (top > 0 ? Math.min(1, Math.max(0, value / top)) : 0) * height;
    return `${round(x)},${round(y)}`;
  }).join(' ');
}

const round = (value) => Math.round(value * 10) / 10;

/** The upper end of a scale: 1, 2 or 5 times a power of ten, no less than the largest value. */
export function niceTop(values) {
  const largest = Math.max(0, ...values);
  if (largest === 0) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= largest * 0.999);
}
