// Places in the tree: splitting, joining and checking paths and keys, the order of keys, new keys; and links to places.
// Pure; section numbers refer to the realtime contract.

/** "/a//b/" → ["a", "b"]. Any mix of slashes is fine (contract §2.1). */
export function splitPath(text) {
  return String(text ?? '').split('/').filter((part) => part !== '');
}

/** ["a", "b"] → "/a/b"; [] → "/". */
export function joinPath(parts) {
  return '/' + parts.join('/');
}

export function normalPath(text) {
  return joinPath(splitPath(text));
}

const forbidden = /[.$#[\]\/\u0000-\u001f\u007f]/;
const utf8 = new TextEncoder();

/** The fault of a key as a sentence, or null (contract §4.1). */
export function keyFault(key) {
  if (key === '') return 'A key cannot be empty.';
  const bad = key.match(forbidden);
  if (bad) {
    const shown = bad[0] < ' ' || bad[0] === '\u007f' ? 'a control character' : `“${bad[0]}”`;
    return `The key “${elide(key, 40)}” contains ${shown}. Keys cannot contain . $ # [ ] / or control characters.`;
  }
  if (key.length > 192 && utf8.encode(key).length > 768) {
    return `The key “${elide(key, 40)}” is longer than 768 bytes.`;
  }
  return null;
}

/** The fault of a path as a sentence, or null. A trailing ".priority" is legal when `priority` is set. */
export function pathFault(text, { priority = false } = {}) {
  const parts = splitPath(text);
  if (parts.length > 32) return 'A path can be at most 32 levels deep.';
  for (let i = 0; i < parts.length; i++) {
    if (priority && i === parts.length - 1 && parts[i] === '.priority') continue;
    const fault = keyFault(parts[i]);
    if (fault) return fault;
  }
  return null;
}

/** Do the first parts of `path` equal `base`? */
export function startsWith(path, base) {
  if (path.length < base.length) return false;
  for (let i = 0; i < base.length; i++) if (path[i] !== base[i]) return false;
  return true;
}

/** The 32-bit integer that a key represents, or null (contract §3.2). */
export function integerKey(key) {
  // Without a regular expression (/^-?0*[0-9]{1,10}$/), because sorting calls this millions of times.
  const start = key.charCodeAt(0) === 45 ? 1 : 0;
  if (key.length === start) return null;
  for (let i = start; i < key.length; i++) {
    const unit = key.charCodeAt(i);
    if (unit < 48 || unit > 57) return null;
  }
  const number = Number(key);
  return number >= -2147483648 && number <= 2147483647 ? number : null;
}

/** Key order (contract §3.2): 32-bit integers first, by number, then by length; then all others by UTF-16 unit. */
export function compareKeys(a, b) {
  if (a === b) return 0;
  const x = integerKey(a), y = integerKey(b);
  if (x !== null && y !== null) return x - y || a.length - b.length || (a < b ? -1 : 1);
  if (x !== null) return -1;
  if (y !== null) return 1;
  return a < b ? -1 : 1;
}

/** At most `length` characters, with an ellipsis when something was left out. Never cuts a surrogate pair. */
export function elide(text, length) {
  if (text.length <= length) return text;
  let end = length - 1;
  const unit = text.charCodeAt(end - 1);
  if (unit >= 0xd800 && unit <= 0xdbff) end -= 1;
  return text.slice(0, end) + '…';
}

// ---- Push ids: 20 characters that sort by creation time (contract §5).

const alphabet = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz';

/** Creates a generator of push ids. `random(n)` gives n integers 0…63; ids created in the same millisecond keep their order. */
export function pushIds(random = secureRandom) {
  let last = -1;
  let tail = [];
  return function next(nowMs) {
    let time = Math.max(Math.floor(nowMs), 0);
    if (time === last) {
      let i = tail.length - 1;
      while (i >= 0 && tail[i] === 63) tail[i--] = 0;
      if (i >= 0) tail[i] += 1;
    } else {
      last = time;
      tail = random(12);
    }
    let head = '';
    for (let i = 0; i < 8; i++) {
      head = alphabet[time % 64] + head;
      time = Math.floor(time / 64);
    }
    return head + tail.map((n) => alphabet[n]).join('');
  };
}

function secureRandom(count) {
  return Array.from(crypto.getRandomValues(new Uint8Array(count)), (byte) => byte & 63);
}

// ---- The state of the page as URL fragment, so that a view can be sent as a link. It never contains a credential.

// View names in links from before the page had tabs.

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

/** The link of a state; defaults are left out except the namespace, so that a link names its target. */
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
