// The page's identity: a visitor, a user of the hub's accounts, the bearer of a pasted token, or an administrator with a secret. Kept in
// memory only, never in the address or the browser's storage.

const renewBeforeMs = 120000; // a token is renewed this long before it expires

export class Credentials {
  /** visitor | user | guest | token | secret */
  kind = 'visitor';
  name = '';          // the user's address, for display
  uid = null;
  /** undefined: as oneself; null: as a visitor; { uid, token }: as that user (administrators only). */
  actAs = undefined;
  changed = () => {};
  /** Called when the same user has a new token. */
  renewed = () => {};
  #token = '';
  #refresh = '';
  #endsAt = Infinity;
  #renewing = null;
  #renewedAt = -Infinity;
  #address;

  /** address(path): an endpoint of the accounts. */
  constructor(address) { this.#address = address; }

  get token() { return this.#token; }
  /** A signed token has three parts; everything else is an administrator's secret. */
  get isSecret() { return this.#token !== '' && this.#token.split('.').length !== 3; }

  /** Becomes a visitor again. */
  clear(isReported = true) {
    this.#become('visitor', '', { token: '' }, isReported);
  }

  /** Uses a pasted token, or an administrator's secret. */
  paste(token) {
    token = token.trim();
    if (!token) return this.clear();
    const kind = token.split('.').length === 3 ? 'token' : 'secret';
    this.#become(kind, '', { token });
  }

  signIn(email, password) { return this.#enter('user', email, 'signInWithPassword', { email, password }); }
  signUp(email, password) { return this.#enter('user', email, 'signUp', { email, password }); }
  beGuest() { return this.#enter('guest', '', 'signUp'); }

  /** Sets the identity that an administrator's requests act as: undefined, null or { uid, token }. */
  act(who) {
    this.actAs = who;
    this.changed();
  }

  /** The current token, renewed if it is about to expire. */
  async fresh() {
    if (this.#refresh && Date.now() > this.#endsAt - renewBeforeMs) await this.renew();
    return this.#token;
  }

  /** Gets the next token of a user; false when none is available. */
  renew() {
    // A new token that is refused would otherwise be renewed for ever.
    if (!this.#refresh || performance.now() - this.#renewedAt < 10000) return Promise.resolve(false);
    this.#renewing ??= this.#renew().finally(() => { this.#renewing = null; });
    return this.#renewing;
  }

  async #renew() {
    const refresh = this.#refresh;
    try {
      const response = await fetch(this.#address('/securetoken.googleapis.com/v1/token'), {
        method: 'POST', credentials: 'omit', cache: 'no-store',
        headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: refresh }),
      });
      const answer = await response.json();
      if (refresh !== this.#refresh) return true;
      if (!response.ok) {
        if (response.status === 400) this.#refresh = '';
        return false;
      }
      this.#token = answer.id_token;
      this.#refresh = answer.refresh_token ?? refresh;
      this.#endsAt = Date.now() + Number(answer.expires_in) * 1000;
      this.#renewedAt = performance.now();
      this.renewed();
      return true;
    } catch {
      return false; // no answer: the connection's own retries report it
    }
  }

  async #enter(kind, name, action, body = {}) {
    const answer = await this.#ask(action, { ...body, returnSecureToken: true });
    this.#become(kind, name, { token: answer.idToken, refresh: answer.refreshToken, seconds: answer.expiresIn, uid: answer.localId });
  }

  async #ask(action, body) {
    let response;
    try {
      response = await fetch(this.#address(`/identitytoolkit.googleapis.com/v1/accounts:${action}`), {
        method: 'POST', credentials: 'omit', cache: 'no-store', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
      });
    } catch {
      throw new Error('The hub did not answer.');
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(signInFault(answer.error?.message ?? `HTTP ${response.status}`));
    return answer;
  }

  #become(kind, name, { token, refresh = '', seconds = null, uid = null }, isReported = true) {
    this.kind = kind;
    this.name = name;
    this.uid = uid;
    this.actAs = undefined;
    this.#token = token;
    this.#refresh = refresh;
    this.#endsAt = seconds ? Date.now() + Number(seconds) * 1000 : Infinity;
    if (isReported) this.changed();
  }
}

// ---- The errors of the accounts API ("EMAIL_EXISTS : …") as sentences. Pure.

const forUsers = {
  INVALID_LOGIN_CREDENTIALS: 'There is no account with this address and password.',
  EMAIL_NOT_FOUND: 'There is no account with this address.',
  INVALID_PASSWORD: 'The password is wrong.',
  INVALID_EMAIL: 'This is not an e-mail address.',
  MISSING_PASSWORD: 'Type the password.',
  MISSING_EMAIL: 'Type the e-mail address.',
  EMAIL_EXISTS: 'There is an account with this address already: sign in.',
  USER_DISABLED: 'This account is disabled.',
  OPERATION_NOT_ALLOWED: 'This hub does not offer that way to sign in.',
  ADMIN_ONLY_OPERATION: 'On this hub only administrators make accounts.',
  TOO_MANY_ATTEMPTS_TRY_LATER: 'Too many attempts. Try again in some minutes.',
};

const forAdministrators = {
  USER_NOT_FOUND: 'There is no such account.',
  EMAIL_EXISTS: 'Another account has this address.',
  ALIAS_EXISTS: 'Another account has this alias.',
  DUPLICATE_LOCAL_ID: 'Another account has this id.',
  INVALID_EMAIL: 'This is no e-mail address.',
  INVALID_ALIAS: 'An alias has 1 to 64 letters, digits and . _ -, and no @.',
  INVALID_CLAIMS: 'Claims are a JSON object.',
  CLAIMS_TOO_LARGE: 'The claims are too large.',
  FORBIDDEN_CLAIM: 'One of these claims is set by the hub itself.',
  SESSION_NOT_FOUND: 'That session is over already.',
  WEAK_PASSWORD: 'This password is too short or too common.',
  OPERATION_NOT_ALLOWED: 'This hub sends no mail: start it with --smtp-url.',
};

/** For the user who signs in or up. */
export const signInFault = (message) => sentence(forUsers, message);

/** For the administrator of accounts. */
export const accountFault = (message) => sentence(forAdministrators, message);

/** For unknown codes the text after the code, if there is one. */
function sentence(sentences, message) {
  const [code, ...rest] = message.split(' : ');
  return sentences[code] ?? (rest.length ? rest.join(' : ') : message);
}
