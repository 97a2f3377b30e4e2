// Follow: the map of moving positions below a place, and next to it the entries of a timeline.

import { joinPath, splitPath } from '../client/paths.js';
import { PlaceSource } from '../client/place-source.js';
import { Change } from '../client/tree-node.js';
import { element, isValidPath, pathInput, plural, setText } from '../page/dom.js';
import { SignInOffer } from '../page/offers.js';
import { findPoints } from './find-points.js';
import { MapView } from './map-view.js';
import { TimelineView } from './timeline-view.js';

const icon = (path) => {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('aria-hidden', 'true');
  const drawn = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  drawn.setAttribute('d', path);
  svg.append(drawn);
  return svg;
};

export function makeTab(hub) {
  return new FollowTab(hub);
}

class FollowTab {
  #hub;
  #parts = {};
  #map;
  #timeline;
  #place = null;
  #entries = null;
  #search = null;  // aborts the current search
  #places = null;  // that hold positions: [{ path, count }]
  #visible = false;

  constructor(hub) {
    this.#hub = hub;
    this.element = this.#build();
    const p = this.#parts;
    this.#map = new MapView(p, hub.circles, { select: (path) => hub.select(path) });
    this.#timeline = new TimelineView({ list: p.list, blank: p.listBlank, count: p.count }, {
      mark: (node) => this.#map.mark((node && this.#map.entries.points.get(node)) ?? null),
      go: (node) => {
        this.#map.mark(this.#map.entries.points.get(node) ?? null, true);
        hub.select(joinPath([...splitPath(hub.link.events), node.key]));
      },
      serverNow: () => hub.realtime.serverNow,
    });
    hub.on('link', (link, before) => {
      if (!this.#visible) return;
      if (link.points !== before.points) this.#openPoints();
      if (link.events !== before.events) this.#openEntries();
    });
    hub.on('moved', () => { if (this.#visible) { this.#close(); this.#open(); } });
  }

  get state() { return { ...this.#map.state, places: this.#places, timeline: this.#timeline.keys, path: this.#place?.tree.path ?? null, phase: this.#place?.tree.state ?? null }; }

  show() {
    this.#visible = true;
    this.#map.visible = true;
    this.#open();
    this.#map.showAsked();
  }

  hide() {
    this.#visible = false;
    this.#map.visible = false;
    this.#close();
  }

  #open() {
    this.#openPoints();
    this.#openEntries();
  }

  #close() {
    this.#place?.close();
    this.#entries?.close();
    this.#place = this.#entries = null;
    this.#search?.abort();
  }

  #openPoints() {
    const path = this.#hub.link.points;
    this.#place?.close();
    this.#place = null;
    this.#map.reset();
    this.#parts.points.value = path;
    if (path) {
      const watcher = {
        change: (change, tree) => {
          this.#map.fixes.apply(change, tree, performance.now());
          this.#map.draw();
        },
        state: () => this.#paintTexts(),
      };
      this.#place = this.#hub.trees.open(path, watcher);
      if (this.#place.tree.model.known) watcher.change(Change.whole(), this.#place.tree);
    }
    this.#paintTexts();
    if (path) this.#search?.abort(); else this.#find();
  }

  /** Lists the places that hold positions, if none is chosen. */
  async #find() {
    const { blankText, offer, places } = this.#parts;
    this.#search?.abort();
    const { signal } = this.#search = new AbortController();
    this.#places = null;
    offer.element.hidden = true;
    places.replaceChildren();
    setText(blankText, 'Looking for positions.');
    let result;
    try {
      result = await findPoints(new PlaceSource(this.#hub), signal);
    } catch (fault) {
      if (signal.aborted) return;
      const isRefused = fault.code === 'permission_denied';
      setText(blankText, isRefused ? 'The rules do not let you list the places of this database. Type a place above, or sign in.' : fault.message);
      offer.element.hidden = !isRefused;
      if (isRefused) offer.update();
      return;
    }
    if (signal.aborted) return;
    this.#places = result.found;
    setText(blankText, !result.found.length ? 'No positions were found. The map draws every node with a numeric latitude and longitude: type a place above, or load the sample data on the Data tab of an empty database.'
      : result.isWhole ? 'These places hold positions.' : 'These places hold positions. The database is large, so there may be others: type a place above.');
    places.replaceChildren(...result.found.map(({ path, count }) => element('li', {},
      element('button', { class: 'link', type: 'button', onclick: () => this.#hub.go({ points: path }) }, element('span', { class: 'mono' }, path), ` ${plural(count, 'position')}`))));
  }

  #openEntries() {
    const path = this.#hub.link.events;
    this.#entries?.close();
    this.#entries = null;
    this.#map.entries.clear();
    this.#map.mark(null);
    this.#parts.events.value = path;
    if (!path) { this.#timeline.show(null); return; }
    const watcher = {
      change: (change, tree) => {
        this.#timeline.change(change, tree);
        this.#map.entries.apply(change, tree, performance.now());
        this.#map.draw();
      },
      state: () => this.#timeline.state(),
    };
    this.#entries = this.#hub.trees.open(path, watcher);
    this.#timeline.show(this.#entries.tree);
    if (this.#entries.tree.model.known) watcher.change(Change.whole(), this.#entries.tree);
  }

  #paintTexts() {
    const tree = this.#place?.tree;
    this.element.dataset.state = tree?.state ?? '';
    this.#parts.places.hidden = Boolean(tree);
    if (tree) this.#parts.offer.element.hidden = true;
    if (tree) setText(this.#parts.blankText, tree.state === 'refused' ? `The hub does not show ${tree.path} to you: ${tree.refusal.message || tree.refusal.code}`
        : tree.state === 'loading' ? 'Loading.'
          : `No positions below ${tree.path}. The map draws every node that has a numeric latitude and longitude.`);
  }

  #build() {
    const p = this.#parts;
    const path = (label, id, name, attributes) => {
      p[name] = pathInput({ id, ...attributes });
      return element('label', { class: 'path' }, element('span', { class: 'sr' }, label), p[name]);
    };
    const go = (name) => (event) => {
      event.preventDefault();
      p[name].value = p[name].value.trim();
      if (isValidPath(p[name])) this.#hub.go({ [name]: p[name].value });
    };
    const tool = (name, title, drawing, attributes = {}) => (p[name] = element('button', { class: 'icon', type: 'button', title, 'aria-label': title, ...attributes }, icon(drawing)));
    return element('section', { class: 'follow', 'aria-label': 'Follow' },
      element('div', { class: 'follow-map' },
        element('form', { class: 'bar', autocomplete: 'off', onsubmit: go('points') },
          path('Place whose points are drawn', 'points-path', 'points', { placeholder: '/users-follow' }), element('button', { class: 'button' }, 'Show')),
        element('div', { class: 'map-pane' },
          p.canvas = element('canvas', { id: 'map', tabindex: '0', role: 'application', 'aria-label': 'Map', 'aria-roledescription': 'map' }),
          element('div', { class: 'map-tools' },
            tool('zoomIn', 'Zoom in', 'M8 3v10M3 8h10'), tool('zoomOut', 'Zoom out', 'M3 8h10'),
            tool('fit', 'Fit all points', 'M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3', { 'aria-pressed': 'true' }),
            tool('tiles', 'Tiles under the map', 'M2 5l4-2 4 2 4-2v8l-4 2-4-2-4 2zM6 3v8M10 5v8', { id: 'map-tiles' })),
          p.credit = element('p', { class: 'map-credit', hidden: true }),
          p.card = element('div', { class: 'map-card', hidden: true }), p.said = element('p', { class: 'sr', role: 'status' }),
          p.blank = element('div', { class: 'blank map-blank', hidden: true }, p.blankText = element('p', { role: 'status' }), (p.offer = new SignInOffer(this.#hub)).element, p.places = element('ul', { id: 'points-found', 'aria-label': 'Places with positions' })))),
      element('section', { class: 'timeline-pane', 'aria-label': 'Timeline' },
        element('header', { class: 'pane-head' }, element('h2', {}, 'Timeline'), p.count = element('span', { class: 'quiet' })),
        element('form', { class: 'timeline-form', autocomplete: 'off', onsubmit: go('events') },
          path('Place whose children are listed', 'timeline-path', 'events', { placeholder: '/timeline/ana' }), element('button', { class: 'button' }, 'Show')),
        element('div', { class: 'timeline-scroll', tabindex: '0', role: 'region', 'aria-label': 'Timeline entries' },
          p.list = element('ol', { class: 'timeline', id: 'timeline' }),
          p.listBlank = element('div', { class: 'blank' }))));
  }
}
