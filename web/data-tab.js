// Data: the tree of one place, live.

import { element } from './dom.js';
import { TreeView } from './tree-view.js';
import { Change } from './tree-model.js';

export function makeTab(hub) {
  const list = element('ul', { class: 'tree', role: 'tree', 'aria-label': 'Live tree' });
  const root = element('section', { 'aria-label': 'Data' }, element('div', { class: 'tree-scroll' }, list));
  const view = new TreeView(list, { select: (path) => hub.select(path), enter: (path) => hub.go({ path }) });
  let place = null;
  const open = () => {
    place?.close();
    place = hub.trees.open(hub.link.path, { change: (change, tree) => view.change(change, tree) });
    view.show(place.tree);
    if (place.tree.model.known) view.change(Change.whole(), place.tree);
  };
  hub.on('link', (link, before) => { if (place && link.path !== before.path) open(); });
  return { element: root, show: open, hide() { place?.close(); place = null; }, get state() { return place && { path: place.tree.path, state: place.tree.state }; } };
}
