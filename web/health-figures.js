// What the health of a hub consists of: which of its metrics are drawn, and which are listed by their labels. What a hub does not tell is
// not shown; everything else that it tells is in the table of all metrics.

const gauge = (name, labels) => (readings) => readings.gauge(name, labels);
const rate = (name, labels) => (readings) => readings.rate(name, labels);
/** The first of these that the hub tells. */
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
  { id: 'cpu', title: 'Processor', unit: '%', series: [{ read: percent('vigla_cpu_seconds_total') }], hint: 'Of one core' },
];

/** Lists: of which metric, by which label. */
export const lists = [
  { id: 'close-reasons', title: 'Why connections ended', metric: /^vigla_connections_closed_total$/, label: 'reason' },
  { id: 'turned-away', title: 'Connections turned away', metric: /^vigla_connections_refused_total$/, label: 'reason' },
  { id: 'sessions', title: 'Sessions open', metric: /^vigla_sessions$/, label: 'protocol' },
  { id: 'by-path', title: 'Bytes of events by top-level path', metric: /^vigla_event_bytes_total$/, label: 'path', unit: 'B' },
  { id: 'by-user', title: 'Bytes by user', metric: /^vigla_\w*bytes\w*$/, label: 'user', unit: 'B' },
  { id: 'refused-at', title: 'Refusals by place of the rules', metric: /^vigla_rule_refusals_total$/, label: 'place' },
  { id: 'sign-in-outcomes', title: 'Sign-ins by outcome', metric: /^vigla_sign_ins_total$/, label: 'outcome' },
  { id: 'files', title: 'Data folder', metric: /^vigla_data_file_bytes$/, label: 'file', unit: 'B' },
];
