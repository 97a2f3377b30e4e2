// The state of the page as URL fragment, so that a view can be sent as a link. Never with the token.

export const views = ['tree', 'events', 'write', 'map'];

/** "#ns=default&path=/a&view=map&events=/b&observe=/c" → state with defaults for everything absent. */
export function readLink(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  const view = fields.get('view');
  return {
    host: fields.get('host') ?? '',
    ns: fields.get('ns') || 'default',
    path: fields.get('path') || '/',
    view: views.includes(view) ? view : 'tree',
    events: fields.get('events') ?? '',
    observe: fields.getAll('observe').filter(Boolean),
  };
}

/** The link of a state; defaults are left out except the namespace, so that a link says where it leads. */
export function writeLink({ host, ns, path, view, events, observe }) {
  const fields = [];
  const add = (name, value) => fields.push(`${name}=${encodeURIComponent(value).replaceAll('%2F', '/').replaceAll('%3A', ':')}`);
  if (host) add('host', host);
  add('ns', ns);
  add('path', path);
  if (view !== 'tree') add('view', view);
  if (events) add('events', events);
  for (const place of observe) add('observe', place);
  return '#' + fields.join('&');
}
