// What the health of a hub consists of: which of its metrics are drawn, and which are listed by their labels. What a hub does not tell is
// not shown; everything else that it tells is in the table of all metrics.

const gauge = (name, labels) => (readings) => readings.gauge(name, labels);
const rate = (name, labels) => (readings) => readings.rate(name, labels);
/** The first of these that the hub tells. */
const either = (...reads) => (readings) => reads.map((read) => read(readings)).find((series) => series.length) ?? [];

export const charts = [
  { id: 'connections', title: 'Connections', series: [{ read: gauge('vigla_connections') }], hint: 'Open now' },
  { id: 'operations', title: 'Operations', unit: '/s', series: [{ name: 'requests', read: rate('vigla_requests_total') }, { name: 'commits', read: rate('vigla_commits_total') }], hint: 'Requests handled and commits in a second' },
  { id: 'events', title: 'Events', unit: '/s', series: [{ read: either(rate('vigla_events_total'), rate('vigla_deliveries_total'), rate('vigla_events_sent_total')) }], hint: 'Events told to observers in a second' },
  { id: 'bytes', title: 'Traffic', unit: 'B/s', series: [{ name: 'in', read: rate('vigla_received_bytes_total') }, { name: 'out', read: rate('vigla_sent_bytes_total') }], hint: 'Bytes in a second' },
  { id: 'observers', title: 'Observers', series: [{ read: gauge('vigla_observers') }], hint: 'Listens, subscriptions and event streams' },
  { id: 'queues', title: 'Queues', series: [{ name: 'databases', read: gauge('vigla_database_inbox') }, { name: 'net loops', read: gauge('vigla_loop_inbox') }], hint: 'Work that waits: near 0 unless the hub is at its limit' },
  { id: 'journal', title: 'Waiting for the journal', unit: 'B', series: [{ read: either(gauge('vigla_journal_waiting_bytes'), gauge('vigla_database_waiting_bytes')) }], hint: 'Requests not yet carried out and durable' },
  { id: 'slow', title: 'Slow readers', series: [{ name: 'suspended', read: gauge('vigla_suspended_clients') }], hint: 'Clients that are told less because they read too slowly' },
  { id: 'backlog', title: 'Waiting for readers', unit: 'B', series: [{ read: gauge('vigla_backlog_bytes') }], hint: 'Bytes that wait for clients to read them' },
  { id: 'sign-ins', title: 'Sign-ins', unit: '/s', series: [{ read: either(rate('vigla_sign_ins_total'), rate('vigla_signins_total'), rate('vigla_account_sign_ins_total')) }], hint: 'Accounts that signed in, in a second' },
  { id: 'refusals', title: 'Refused by the rules', unit: '/s', series: [{ read: either(rate('vigla_rule_refusals_total'), rate('page_refusals')) }], hint: 'Requests that the rules refused, in a second' },
  { id: 'memory', title: 'Memory for requests', unit: 'B', series: [{ read: gauge('vigla_memory_held_bytes') }], hint: 'Held for requests and answers under way' },
];

/** Lists: of which metric, by which label. */
export const lists = [
  { id: 'close-reasons', title: 'Why connections ended', metric: /^vigla_connections_closed_total$/, label: 'reason' },
  { id: 'turned-away', title: 'Connections turned away', metric: /^vigla_connections_refused_total$/, label: 'reason' },
  { id: 'sessions', title: 'Sessions open', metric: /^vigla_sessions$/, label: 'protocol' },
  { id: 'by-path', title: 'Bytes by top-level path', metric: /^vigla_\w*bytes\w*$/, label: 'path', unit: 'B' },
  { id: 'by-user', title: 'Bytes by user', metric: /^vigla_\w*bytes\w*$/, label: 'user', unit: 'B' },
];
