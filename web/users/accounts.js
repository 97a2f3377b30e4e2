// Accounts as the hub's administration returns them, converted to texts. Pure.

/** An entry of `accounts:batchGet` or `find` → the page's form. */
export function userOf(entry, alias = null) {
  const time = (value) => { const ms = Number(value); return value !== undefined && value !== null && Number.isFinite(ms) && ms > 0 ? ms : null; };
  return {
    id: entry.localId,
    email: entry.email ?? '',
    name: entry.displayName ?? '',
    alias: alias ?? '',
    isVerified: entry.emailVerified === true,
    isDisabled: entry.disabled === true,
    claims: entry.customAttributes ?? '',
    createdAt: time(entry.createdAt),
    lastSignInAt: time(entry.lastLoginAt),
    ways: [...new Set((entry.providerUserInfo ?? []).map(({ providerId }) => providerId))],
    hasPassword: (entry.providerUserInfo ?? []).some(({ providerId }) => providerId === 'password'),
  };
}

/** A user's title in a list. */
export const titleOf = (user) => user.name || user.email || user.alias || (user.ways.length ? user.id : `Guest ${user.id.slice(0, 8)}`);

/** Whether a search text is part of a user's names, address or id. */
export function matches(user, text) {
  const wanted = text.trim().toLowerCase();
  return !wanted || [user.id, user.email, user.name, user.alias].some((part) => part.toLowerCase().includes(wanted));
}

/** The fault of typed claims; null for an object. An empty text means no claims. */
export function claimsFault(text) {
  if (!text.trim()) return null;
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? null : 'Claims are a JSON object, such as {"role": "staff"}.';
  } catch (fault) {
    return `This is not JSON: ${fault.message}`;
  }
}

/** Stored claims, formatted for editing. */
export function shownClaims(text) {
  try { return text ? JSON.stringify(JSON.parse(text), null, 2) : ''; } catch { return text; }
}

/** The rules' `auth` value of an account, as far as its entry determines it. */
export function authOf(entry, provider = null) {
  const user = userOf(entry);
  let claims = {};
  try { claims = user.claims ? JSON.parse(user.claims) : {}; } catch { /* as stored by an import: not JSON */ }
  const way = provider ?? user.ways[0] ?? 'anonymous';
  const token = { sub: user.id, user_id: user.id, ...claims, firebase: { sign_in_provider: way } };
  if (user.email) Object.assign(token, { email: user.email, email_verified: user.isVerified });
  if (user.name) token.name = user.name;
  return { uid: user.id, provider: way, token };
}
