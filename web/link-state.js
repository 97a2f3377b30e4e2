// The state of the page as URL fragment, so that a view can be sent as a link. Never with a credential.

// Views of links from before the page had tabs.
const formerViews = { tree: 'data', write: 'data', events: 'queries', map: 'follow' };

/** "#ns=default&tab=follow&points=/a&events=/b" → state with defaults for everything absent. `tabs`: the ids that exist. */
export function readLink(hash, tabs) {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  const former = fields.get('view');
  const tab = fields.get('tab') ?? formerViews[former];
  return {
    host: fields.get('host') ?? '',
    ns: fields.get('ns') || 'default',
    tab: tabs.includes(tab) ? tab : tabs[0],
    path: fields.get('path') || '/',
    points: fields.get('points') ?? (former === 'map' ? fields.get('path') ?? '' : ''),
    events: fields.get('events') ?? '',
    news: fields.get('news') ?? '',
    observe: fields.getAll('observe').filter(Boolean),
  };
}

/** The link of a state; defaults are left out except the namespace, so that a link says where it leads. */
export function writeLink({ host, ns, tab, path, points, events, news, observe }) {
  const fields = [];
  const add = (name, value) => fields.push(`${name}=${encodeURIComponent(value).replaceAll('%2F', '/').replaceAll('%3A', ':')}`);
  if (host) add('host', host);
  add('ns', ns);
  if (tab !== 'data') add('tab', tab);
  add('path', path);
  if (points) add('points', points);
  if (events) add('events', events);
  if (news) add('news', news);
  for (const place of observe) add('observe', place);
  return '#' + fields.join('&');
}
