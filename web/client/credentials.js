// The page's identity: a visitor, a user of the hub's accounts, the bearer of a pasted token, or an administrator with a secret. Kept in
// memory only: it ends with the page, and is never in the address or the browser's storage.

const renewBeforeMs = 120000; // a token is renewed this long before it expires

/** Explains the administrator's secret and where to find it. */
export const whereSecretsAre = 'The first start of a hub writes an administrator’s secret to the file admin-secret.txt in its data folder. “vigla secret add” creates more.';

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
  #base;

  /** base(): the address of the accounts. */
  constructor(base) { this.#base = base; }

  get token() { return this.#token; }
  /** A signed token has three parts; everything else is an administrator's secret. */
  get isSecret() { return this.#token !== '' && this.#token.split('.').length !== 3; }

  /** Becomes a visitor again. */
  clear(tell = true) {
    this.#become('visitor', '', { token: '' }, tell);
  }

  /** Uses a pasted token, or an administrator's secret. */
  paste(token) {
    token = token.trim();
    if (!token) return this.clear();
    const kind = token.split('.').length === 3 ? 'token' : 'secret';
    this.#become(kind, '', { token });
  }

  async signIn(email, password) {
    const answer = await this.#ask('signInWithPassword', { email, password, returnSecureToken: true });
    this.#become('user', email, { token: answer.idToken, refresh: answer.refreshToken, seconds: answer.expiresIn, uid: answer.localId });
  }

  async signUp(email, password) {
    const answer = await this.#ask('signUp', { email, password, returnSecureToken: true });
    this.#become('user', email, { token: answer.idToken, refresh: answer.refreshToken, seconds: answer.expiresIn, uid: answer.localId });
  }

  async beGuest() {
    const answer = await this.#ask('signUp', { returnSecureToken: true });
    this.#become('guest', '', { token: answer.idToken, refresh: answer.refreshToken, seconds: answer.expiresIn, uid: answer.localId });
  }

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
      const response = await fetch(`${this.#base()}/securetoken.googleapis.com/v1/token?key=console`, {
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

  async #ask(action, body) {
    let response;
    try {
      response = await fetch(`${this.#base()}/identitytoolkit.googleapis.com/v1/accounts:${action}?key=console`, {
        method: 'POST', credentials: 'omit', cache: 'no-store', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
      });
    } catch {
      throw new Error('The hub did not answer.');
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(wording(answer.error?.message ?? `HTTP ${response.status}`));
    return answer;
  }

  #become(kind, name, { token, refresh = '', seconds = null, uid = null }, tell = true) {
    this.kind = kind;
    this.name = name;
    this.uid = uid;
    this.actAs = undefined;
    this.#token = token;
    this.#refresh = refresh;
    this.#endsAt = seconds ? Date.now() + Number(seconds) * 1000 : Infinity;
    if (tell) this.changed();
  }
}

const words = {
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

/** "WEAK_PASSWORD : …" → a sentence. */
function wording(message) {
  const [code, ...rest] = message.split(' : ');
  return words[code] ?? (rest.length ? rest.join(' : ') : message);
}
