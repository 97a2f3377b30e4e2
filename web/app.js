// The page: one hub (client/hub.js), the tabs, the state of the connection, and the link.
//
//   client/   the hub as the page sees it: connections, credentials, the local copy of the tree
//   page/     what the tabs share: elements, messages, the connection sheet, the notice for those who are not administrators
//   data/ queries/ map/ announcements/ rules/ users/ outbox/ health/   a tab each, with its css file; map/ is Follow
//   vigla.js  the client of the observe protocol, which other pages import as well
//
// client/ imports none of the others, page/ only client/; no two folders import each other.
//
// A tab is a module that is loaded when it is first shown. It exports
//
//   makeTab(hub) → { element, show(), hide(), state? }
//
// `element` fills the page below the header (class "tab"). `show` and `hide` are called when the tab is shown and hidden; a hidden tab keeps
// no listens that only the screen needs. `state` is exposed as `window.vigla[id]`, for tests and for debugging. A tab brings its own css
// file. It gets all other news through hub.on(…).
//
// `window.vigla`: connection { phase, host, ns, session, clockOffsetMs, roundTripMs, pushes, identity, fault }, link, go(…) as if a link
// had been opened, realtime, hub, disconnect(), reconnect(), and the state of every tab that was shown, by its id.

import { Hub } from './client/hub.js';
import { readLink } from './client/paths.js';
import { SignIn } from './page/connection-sheet.js';
import { byId, element, say } from './page/dom.js';
import { StatusView } from './page/status-view.js';

const tabs = [
  { id: 'data', title: 'Data', load: () => import('./data/data-tab.js'), style: 'data/data.css' },
  { id: 'queries', title: 'Queries', load: () => import('./queries/queries-tab.js'), style: 'queries/queries.css' },
  { id: 'follow', title: 'Follow', load: () => import('./map/follow-tab.js'), style: 'map/follow.css' },
  { id: 'news', title: 'Announcements', short: 'News', load: () => import('./announcements/announcements-tab.js'), style: 'announcements/announcements.css' },
  { id: 'rules', title: 'Rules', load: () => import('./rules/rules-tab.js'), style: 'rules/rules.css' },
  { id: 'users', title: 'Users', load: () => import('./users/users-tab.js'), style: 'users/users.css' },
  { id: 'outbox', title: 'Outbox', load: () => import('./outbox/outbox-tab.js'), style: 'outbox/outbox.css' },
  { id: 'health', title: 'Health', load: () => import('./health/health-tab.js'), style: 'health/health.css' },
];

const ids = tabs.map((tab) => tab.id);
const hub = new Hub(readLink(location.hash, ids), say);
const loaded = new Map(); // id → promise of the tab
let shown = null;

for (const { id, title, short } of tabs) {
  byId('tabs').append(element('button', { type: 'button', 'data-tab': id, onclick: () => hub.go({ tab: id }) },
    ...(short ? [element('span', { class: 'tab-long' }, title), element('span', { class: 'tab-short' }, short)] : [title])));
}

async function showTab() {
  const { id, load, style, title } = tabs.find((tab) => tab.id === hub.link.tab);
  for (const button of byId('tabs').children) {
    if (button.dataset.tab !== id) { button.removeAttribute('aria-current'); continue; }
    button.setAttribute('aria-current', 'page');
    button.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }
  document.title = `${title} · Vigla console`;
  if (!loaded.has(id)) loaded.set(id, Promise.all([load(), addStyle(style)]).then(([module]) => makeTab(id, module)));
  const tab = await loaded.get(id).catch((fault) => { loaded.delete(id); throw fault; });
  if (hub.link.tab !== id || shown === tab) return;
  if (shown) { shown.hide(); shown.element.hidden = true; }
  shown = tab;
  tab.element.hidden = false;
  tab.show();
}

function makeTab(id, module) {
  const tab = module.makeTab(hub);
  tab.element.classList.add('tab');
  tab.element.dataset.tab = id;
  tab.element.hidden = true;
  byId('stage').append(tab.element);
  Object.defineProperty(vigla, id, { get: () => tab.state, enumerable: true });
  return tab;
}

function addStyle(file) {
  if (!file) return null;
  return new Promise((done, fail) => {
    document.head.append(element('link', { rel: 'stylesheet', href: file, onload: done, onerror: () => fail(new Error(`${file} did not load`)) }));
  });
}

// ---- start

const vigla = {
  get connection() {
    const { phase, session, clockOffsetMs, roundTripMs, pushes, authFault } = hub.realtime;
    return { phase, host: hub.host, ns: hub.ns, session, clockOffsetMs, roundTripMs, pushes, identity: hub.identity, fault: authFault?.message ?? null };
  },
  get link() { return { ...hub.link }; },
  go: (wanted) => hub.go(wanted),
  hub,
  realtime: hub.realtime,
  disconnect: () => hub.disconnect(),
  reconnect: () => hub.connect(),
};
Object.defineProperty(window, 'vigla', { value: vigla });

const signIn = new SignIn(hub);
new StatusView(hub, signIn);

document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault(); // the part behind "#" is the page's state
  byId('stage').focus();
});
hub.on('link', (link, before) => { if (link.tab !== before.tab) showTab(); });
addEventListener('popstate', () => hub.go(readLink(location.hash, ids), false));

hub.keepLink();
hub.connect();
showTab();
