// The page: wires the two protocol clients, the local trees and the views, and keeps the link in step.
//
//   realtime ─► live trees ─► tree view, map, timeline        observe ─► event log        write form ─► realtime
//
// For tests and for the curious, `window.vigla` gives:
//   vigla.connection        { phase, host, ns, session, clockOffsetMs, roundTripMs, pushes, identity, fault }
//   vigla.tree              { path, state, rows, lit, flashed, value() }: number of rows on the page, paths lit now,
//                           the last 200 paths that lit up, the whole value known
//   vigla.events            log entries, oldest first: { at, path, event, key, prev, value, seq, initial }
//   vigla.map               { points: [{ path, label, kind, latitude, longitude, moves }], entries, autoFit, frames, centre }
//   vigla.timeline          keys of the listed entries, newest first
//   vigla.go({ path, view, events, observe, ns, host })   as if a link had been opened
//   vigla.observe(path, kinds), vigla.realtime (set, update, push, remove, get), vigla.disconnect(), vigla.reconnect()

import { byId, perFrame, plural, setText } from './dom.js';
import { EventsView } from './events-view.js';
import { readLink, writeLink } from './link-state.js';
import { LiveTrees } from './live-trees.js';
import { MapView } from './map-view.js';
import { Observe } from './observe.js';
import { joinPath, normalPath, pathFault, splitPath } from './paths.js';
import { Realtime } from './realtime.js';
import { TimelineView } from './timeline-view.js';
import { Change } from './tree-model.js';
import { TreeView } from './tree-view.js';
import { WriteForm } from './write-form.js';

const link = readLink(location.hash);
let token = '';

const showConnection = perFrame(paintConnection);
const showPlace = perFrame(paintPlace);
const realtime = new Realtime(() => { showConnection(); showPlace(); });
const observe = new Observe(showConnection);
const trees = new LiveTrees(realtime);

const treeView = new TreeView(byId('tree'), {
  select: (path) => { writeForm.path = path; },
  enter: (path) => go({ path }),
});
const mapView = new MapView({
  canvas: byId('map'), card: byId('map-card'), blank: byId('map-blank'),
  zoomIn: byId('map-in'), zoomOut: byId('map-out'), fit: byId('map-fit'),
}, { select: (path) => { writeForm.path = path; } });
const timelineView = new TimelineView({ list: byId('timeline'), blank: byId('timeline-blank'), count: byId('timeline-count') }, {
  mark: (node) => mapView.mark((node && mapView.entries.points.get(node)) ?? null),
  go: (node) => {
    mapView.mark(mapView.entries.points.get(node) ?? null, true);
    writeForm.path = joinPath([...splitPath(link.events), node.key]);
  },
  serverNow: () => realtime.serverNow,
});
const eventsView = new EventsView({
  form: byId('attach'), path: byId('attach-path'), kinds: byId('attach-kinds'), chips: byId('observers'),
  list: byId('log'), blank: byId('log-blank'), filter: byId('log-filter'), pause: byId('log-pause'), clear: byId('log-clear'),
}, observe, () => { link.observe = eventsView.paths; keepLink(); });
const writeForm = new WriteForm({
  form: byId('write'), kinds: byId('write-kind'), path: byId('write-path'), json: byId('write-json'), check: byId('write-check'),
  button: byId('write-button'), result: byId('write-result'), load: byId('write-load'), time: byId('write-time'),
}, realtime);

// ---- connection

const host = () => link.host || location.host;

function connect() {
  const target = { host: host(), ns: link.ns, token, secure: location.protocol === 'https:' };
  realtime.connect({ ...target });
  observe.connect({ ...target });
}

byId('connect').addEventListener('submit', (event) => {
  event.preventDefault();
  const typed = byId('host').value.trim().replace(/^\w+:\/\//, '').replace(/\/.*$/, '');
  link.host = typed === location.host ? '' : typed;
  link.ns = byId('ns').value.trim() || 'default';
  token = byId('token').value.trim();
  keepLink();
  showFields();
  openPlace();
  connect();
  document.activeElement?.blur();
  byId('connect').classList.remove('open');
  byId('status').setAttribute('aria-expanded', 'false');
});

byId('status').addEventListener('click', () => {
  const open = byId('connect').classList.toggle('open');
  byId('status').setAttribute('aria-expanded', String(open));
  if (open) byId('token').focus();
});

byId('notice-action').addEventListener('click', () => {
  if (realtime.phase === 'waiting') realtime.retryNow();
  else if (realtime.phase === 'offline') connect();
  else { byId('connect').classList.add('open'); byId('token').focus(); byId('token').select(); }
});

function showFields() {
  byId('host').value = host();
  byId('ns').value = link.ns;
}

const words = { offline: 'Not connected', connecting: 'Connecting', greeting: 'Connecting', connected: 'Connected', waiting: 'Reconnecting' };
let countdown = 0;

function paintConnection() {
  const { phase } = realtime;
  const status = byId('status');
  status.dataset.phase = phase;
  setText(byId('status-word'), words[phase]);
  clearTimeout(countdown);
  if (phase === 'connected') {
    const trip = realtime.roundTripMs === null ? '' : `${realtime.roundTripMs < 1 ? '< 1' : Math.round(realtime.roundTripMs)} ms · `;
    const offset = Math.round(realtime.clockOffsetMs);
    // The greeting's travel time is inside the offset: small values mean nothing.
    const clock = Math.abs(offset) < 200 ? 'clock in step' : `clock ${offset < 0 ? '−' : '+'}${Math.abs(offset) < 10000 ? `${Math.abs(offset)} ms` : `${Math.round(Math.abs(offset) / 1000)} s`}`;
    setText(byId('status-figures'), trip + clock);
    status.title = `${host()}, namespace ${link.ns}, ${who()}. The hub's clock is ${Math.abs(offset)} ms ${offset < 0 ? 'behind' : 'ahead of'} this computer's.`;
  } else if (phase === 'waiting') {
    const left = Math.max(0, Math.ceil((realtime.retryAt - Date.now()) / 1000));
    setText(byId('status-figures'), left ? `in ${left} s` : 'now');
    countdown = setTimeout(showConnection, 500);
    status.title = '';
  } else {
    setText(byId('status-figures'), '\u00a0');
    status.title = '';
  }
  paintNotice(phase);
}

function who() {
  const { identity } = realtime;
  if (!identity) return 'as a visitor';
  return identity.uid ? `as ${identity.uid}` : 'as administrator';
}

function paintNotice(phase) {
  let title = '', text = '', action = '';
  if (realtime.shutdown !== null) {
    [title, text, action] = ['The hub asked this page to stay away.', realtime.shutdown, 'Try anyway'];
  } else if (realtime.authFault || observe.authFault) {
    const fault = realtime.authFault ?? observe.authFault;
    [title, text, action] = ['The token was refused.', `${fault.message || fault.code} You go on as a visitor. Enter a fresh token, or clear the field.`, 'Change token'];
  } else if (phase === 'waiting' && realtime.attempt >= 2) {
    const reason = realtime.lastCode === 1009 ? 'The last message was larger than the hub takes.' : realtime.lastReason;
    title = `No answer from ${host()}.`;
    text = realtime.session
      ? `${reason ? reason + ' ' : ''}What you see is the last known state; it catches up by itself when the hub is back.`
      : `${reason ? reason + ' ' : ''}Is the hub running there? Start it with “vigla serve”, or correct the host above.`;
    action = 'Try now';
  } else if (phase === 'offline' && realtime.lastReason) {
    [title, text, action] = ['Not connected.', realtime.lastReason, 'Connect'];
  }
  const notice = byId('notice');
  if (notice.hidden !== !title) notice.hidden = !title;
  if (!title) return;
  setText(byId('notice-title'), title);
  setText(byId('notice-text'), text);
  setText(byId('notice-action'), action);
}

// ---- the watched place

let place = null;
let entries = null;

function openPlace() {
  place?.close();
  place = null;
  mapView.reset();
  const watcher = {
    change: (change, tree) => {
      treeView.change(change, tree);
      mapView.fixes.apply(change, tree, performance.now());
      mapView.draw();
      showPlace();
    },
    state: showPlace,
  };
  place = trees.open(link.path, watcher);
  treeView.show(place.tree);
  if (place.tree.model.known) watcher.change(Change.whole(), place.tree);
  byId('place-path').value = link.path;
  byId('place-up').disabled = splitPath(link.path).length === 0;
  openEntries();
  showPlace();
}

function openEntries() {
  if (entries && entries.tree.path === link.events) return;
  entries?.close();
  entries = null;
  mapView.entries.clear();
  mapView.mark(null);
  byId('timeline-path').value = link.events;
  if (!link.events) { timelineView.show(null); return; }
  const watcher = {
    change: (change, tree) => {
      timelineView.change(change, tree);
      mapView.entries.apply(change, tree, performance.now());
      mapView.draw();
    },
    state: () => timelineView.state(),
  };
  entries = trees.open(link.events, watcher);
  timelineView.show(entries.tree);
  if (entries.tree.model.known) watcher.change(Change.whole(), entries.tree);
}

function paintPlace() {
  const tree = place?.tree;
  if (!tree) return;
  const { root } = tree.model;
  document.body.dataset.state = tree.state;
  setText(byId('place-figures'), tree.state === 'stale' ? 'last known state' : !tree.model.known ? '' : root.isLeaf ? 'a value' : root.count ? plural(root.count, 'child', 'children') : 'empty');
  const blank = byId('tree-blank');
  let text = '';
  if (tree.state === 'refused') {
    text = tree.refusal.code === 'permission_denied'
      ? `The rules do not let you read ${tree.path}. Watch a path that you may read, or connect with a token that may. If the hub runs with --dev, the token “owner” reads everything.`
      : `The hub refused to show ${tree.path} (${tree.refusal.code}): ${tree.refusal.message}`;
  } else if (tree.state === 'loading') {
    text = realtime.connected ? 'Loading.' : 'Waiting for the hub.';
  } else if (root.isEmpty) {
    text = `Nothing is stored at ${tree.path} yet. Write a value, and it lights up here.`;
  }
  blank.hidden = !text;
  byId('tree').hidden = Boolean(text);
  setText(blank, text);
  setText(byId('map-blank'), tree.state === 'refused' ? text : `No points below ${tree.path}. The map draws every node that has a numeric latitude and longitude.`);
}

byId('place-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const input = byId('place-path');
  const fault = pathFault(input.value);
  input.setCustomValidity(fault ?? '');
  if (fault) { input.reportValidity(); return; }
  go({ path: input.value });
});
byId('place-path').addEventListener('input', (event) => event.target.setCustomValidity(''));
byId('place-up').addEventListener('click', () => go({ path: joinPath(splitPath(link.path).slice(0, -1)) }));
byId('timeline-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const input = byId('timeline-path');
  const fault = pathFault(input.value);
  input.setCustomValidity(fault ?? '');
  if (fault) { input.reportValidity(); return; }
  go({ events: input.value.trim() ? normalPath(input.value) : '' });
});
byId('timeline-path').addEventListener('input', (event) => event.target.setCustomValidity(''));

// ---- views and the link

document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault(); // the part behind "#" is the page's state
  byId('place-path').focus();
});

byId('views').addEventListener('click', (event) => {
  const view = event.target.closest('[data-go]')?.dataset.go;
  if (view) go({ view });
});

function showView() {
  document.body.dataset.view = link.view;
  for (const button of byId('views').querySelectorAll('[data-go]')) {
    const current = button.dataset.go === link.view;
    if (current) button.setAttribute('aria-current', 'page'); else button.removeAttribute('aria-current');
  }
  mapView.visible = link.view === 'map';
}

/** Moves the page; only what differs is opened again. */
function go(wanted, record = true) {
  const before = { ...link };
  Object.assign(link, wanted);
  link.path = normalPath(link.path);
  link.events = link.events ? normalPath(link.events) : '';
  if (record) keepLink(before.path !== link.path || before.view !== link.view);
  const moved = before.ns !== link.ns || before.host !== link.host;
  if (before.host !== link.host) {
    // A token is meant for the host it was typed for; a link must not carry it elsewhere.
    token = '';
    byId('token').value = '';
  }
  if (moved) {
    showFields();
    place?.close(); entries?.close();
    place = entries = null;
  }
  if (before.view !== link.view) showView();
  if (moved || before.path !== link.path) openPlace();
  else if (before.events !== link.events) openEntries();
  if (wanted.observe) eventsView.attachOnly(wanted.observe);
  if (moved) connect();
}

function keepLink(step = false) {
  const address = writeLink(link);
  if (address === location.hash) return;
  history[step ? 'pushState' : 'replaceState'](null, '', address);
}

addEventListener('popstate', () => go(readLink(location.hash), false));

// ---- start

Object.defineProperty(window, 'vigla', {
  value: Object.freeze({
    get connection() {
      const { phase, session, clockOffsetMs, roundTripMs, pushes, identity, authFault } = realtime;
      return { phase, host: host(), ns: link.ns, session, clockOffsetMs, roundTripMs, pushes, identity, fault: authFault?.message ?? null };
    },
    get tree() {
      return { path: place.tree.path, state: place.tree.state, rows: treeView.rowCount, lit: treeView.litPaths, flashed: [...treeView.flashed], value: () => place.tree.model.root.exported() };
    },
    get events() { return eventsView.entries; },
    get map() { return mapView.state; },
    get timeline() { return timelineView.keys; },
    go,
    observe: (path, kinds) => { eventsView.attach(path, kinds); },
    realtime,
    disconnect: () => { realtime.disconnect(); observe.disconnect(); },
    reconnect: connect,
  }),
});

showFields();
showView();
openPlace();
connect();
eventsView.attachOnly(link.observe);
keepLink();
writeForm.path = link.path;
