// What a place would be to read, asked before it is read: no request has to fail to find it out. And the words of those that do.

/**
 * The bytes that a place has in export form, or what `parameters` choose of it; null when they are more than `atMost`, or than the hub
 * gives out in one answer.
 */
export async function sizeOf(hub, path, atMost, { parameters = {}, signal } = {}) {
  const response = await hub.fetch(hub.placeAddress(path, { ...parameters, format: 'export', sizeUpTo: String(Math.max(1, atMost)) }), { signal });
  if (!response.ok) throw await fault(response);
  return response.json();
}

/** An error with the hub's words, from a refused request. */
export async function fault(response) {
  const { error } = await response.json().catch(() => ({}));
  if (Array.isArray(error)) return new Error(`The rules do not allow it: ${error.join(' ')}`);
  return new Error(response.status === 401 ? 'The rules do not allow it.' : `The hub refused: ${typeof error === 'string' ? error : `HTTP ${response.status}`}`);
}
