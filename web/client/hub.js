// The shared state of all tabs: the connection, the identity, and the current link.
//
//   hub.link          the current link: { tab, host, ns, path, points, events, observe, news }; changed by hub.go(…)
//   hub.go(wanted)    changes some of it, as a link would; the address follows
//   hub.identity      null: a visitor; { uid } a user; { admin: true } an administrator; { uid, acting: true } one who acts as a user
//   hub.credentials   the credential of the requests (credentials.js); in memory only
//   hub.fetch(path)   a request to the hub with the credentials: hub.fetch('/.settings/rules.json', { method: 'PUT', body })
//   hub.realtime      the SDKs' protocol: the tree, writes, and all that an administrator does as another user (realtime.js)
//   hub.observe       the observe protocol, by the published client vigla.js: queries (observe-connection.js)
//   hub.trees         the live places that views share (live-trees.js)
//   hub.circles       observed circles (queries/query-observer.js), which the map shows: the list, the chosen one, and the one to show next
//   hub.selected      the place that is selected in any tab; hub.select(path) selects
//   hub.openSignIn(way)  opens the connection sheet on account, guest or token
//   hub.isDev()       whether the hub runs with --dev, which accepts “owner” as a secret
//   hub.say(text, { bad, action: { title, run } })   a short message below, for instance with “Undo”
//   hub.on(name, fn)  "connection" (state, identity), "link" (changed, before), "selected" (path), "signIn" (way), "moved" (another hub
//                     or namespace, or another identity: drop cached data). Returns the function that ends it.

import { Credentials } from './credentials.js';
import { LiveTrees } from './live-trees.js';
import { ObserveConnection } from './observe-connection.js';
import { normalPath, splitPath, writeLink } from './paths.js';
import { Realtime } from './realtime.js';

export class Hub {
  selected = '/';
  circles = { list: [], chosen: null, asked: null };
  #listeners = new Map();

  /** link: the state that the page was opened with; say(text, options) shows a message. */
  constructor(link, say) {
    this.link = link;
    this.say = say;
    this.selected = link.path;
    this.credentials = new Credentials((path) => `${this.base}${path}?key=console&ns=${encodeURIComponent(this.ns)}`);
    this.realtime = new Realtime(() => this.#emit('connection'));
    this.observe = new ObserveConnection(() => this.#emit('connection'));
    this.trees = new LiveTrees(this.realtime);
    this.credentials.changed = () => this.#signIn();
    this.realtime.credentials = this.observe.credentials = this.credentials;
    this.realtime.revoked = () => this.credentials.renew();
    // A user's token expires after an hour: the connections get the next one before that.
    this.credentials.renewed = () => { this.realtime.authenticate(); this.observe.authenticate(); };
    setInterval(() => this.credentials.fresh(), 30000);
  }

  get host() { return this.link.host || location.host; }
  get ns() { return this.link.ns; }
  /** The origin of requests: "http://127.0.0.1:9000". */
  get base() { return `${location.protocol}//${this.host}`; }

  get identity() {
    const { identity } = this.realtime;
    if (!identity) return null;
    const acting = this.credentials.actAs;
    return acting === undefined ? identity : { ...(acting ?? { uid: null }), acting: true };
  }

  /** Whether requests are an administrator's who does not act as a user. */
  get isAdmin() { return Boolean(this.realtime.identity?.admin) && this.credentials.actAs === undefined; }

  on(name, listener) {
    if (!this.#listeners.has(name)) this.#listeners.set(name, new Set());
    this.#listeners.get(name).add(listener);
    return () => this.#listeners.get(name).delete(listener);
  }

  #emit(name, ...facts) { for (const listener of this.#listeners.get(name) ?? []) listener(...facts); }

  select(path) {
    this.selected = normalPath(path);
    this.#emit('selected', this.selected);
  }

  openSignIn(way) { this.#emit('signIn', way); }

  /**
   * A development hub identifies itself to programs, because the SDKs' tools ask an emulator; any other hub redirects to this page, or describes
   * itself.
   */
  async isDev() {
    try {
      const response = await fetch(`${this.base}/`, { headers: { Accept: 'application/json' }, credentials: 'omit', cache: 'no-store' });
      return (await response.json()).authEmulator?.ready === true;
    } catch {
      return false; // not a hub, or a page
    }
  }

  /** Reopens both connections, with the current credentials. */
  connect() {
    const target = { host: this.host, ns: this.ns, secure: location.protocol === 'https:' };
    this.realtime.connect(target);
    this.observe.connect(target);
  }

  disconnect() {
    this.realtime.disconnect();
    this.observe.disconnect();
  }

  /** Changes the link; listeners of "link" also get the previous one. */
  go(wanted, record = true) {
    const before = { ...this.link };
    const link = Object.assign(this.link, wanted);
    link.path = normalPath(link.path);
    for (const name of ['points', 'events', 'news']) link[name] = link[name] ? normalPath(link[name]) : '';
    if (record) this.keepLink(before.path !== link.path || before.tab !== link.tab);
    const moved = before.ns !== link.ns || before.host !== link.host;
    // A credential is meant for the host that it was typed for; a link must not send it to another one.
    if (before.host !== link.host) this.credentials.clear(false);
    if (moved) {
      this.#emit('moved');
      this.connect();
    }
    this.#emit('link', link, before);
    if (before.path !== link.path) this.select(link.path);
  }

  keepLink(step = false) {
    const address = writeLink(this.link);
    if (address !== location.hash) history[step ? 'pushState' : 'replaceState'](null, '', address);
  }

  /**
   * A request to the hub with the current credential. `ns` is added to the address; for a place of the tree also the user whom an
   * administrator acts as. Rejects only when there is no answer.
   */
  async fetch(path, init = {}) {
    const address = new URL(path, this.base);
    if (!address.searchParams.has('ns')) address.searchParams.set('ns', this.ns);
    const isPlace = address.pathname.endsWith('.json') && !address.pathname.startsWith('/.');
    const { actAs } = this.credentials;
    if (isPlace && actAs !== undefined) address.searchParams.set('auth_variable_override', JSON.stringify(actAs));
    const headers = new Headers(init.headers);
    const token = await this.credentials.fresh();
    if (token) headers.set('Authorization', `Bearer ${token}`);
    return fetch(address, { cache: 'no-store', credentials: 'omit', ...init, headers });
  }

  /** The address of a place for `fetch`: placeAddress('/a b', { shallow: true }) → "/a%20b.json?shallow=true". */
  placeAddress(path, parameters = {}) {
    const query = new URLSearchParams(parameters).toString();
    return `/${splitPath(path).map(encodeURIComponent).join('/')}.json${query ? `?${query}` : ''}`;
  }

  #signIn() {
    this.#emit('moved');
    this.connect();
    this.#emit('connection');
  }
}
