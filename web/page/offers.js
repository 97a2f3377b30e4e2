// The page's offers when nothing is visible yet: data for an empty database, and a sign-in where the rules refuse a visitor.

import { button, copyText, element, setText } from './dom.js';

/** Explains the administrator's secret and where to find it. */
export const whereSecretsAre = 'The first start of a hub writes an administrator’s secret to the file admin-secret.txt in its data folder. “vigla secret add” creates more.';

/** Sign-in buttons for users who are not administrators. A hub with --dev accepts the word “owner”, so there one click is enough. */
export class SignInOffer {
  #hub;
  #hint = element('p', {});
  #owner;
  #secret = null;

  /** done(): closes the sign-in sheet if the offer is part of it. */
  constructor(hub, { done } = {}) {
    this.#hub = hub;
    const offer = (name, title, run) => button(title, run, { class: 'button primary', 'data-offer': name });
    this.#owner = offer('owner', 'Continue as owner', () => { hub.credentials.paste('owner'); done?.(); });
    this.#owner.hidden = this.#hint.hidden = true;
    if (!done) this.#secret = offer('secret', 'Sign in with a secret', () => hub.openSignIn('token'));
    this.element = element('div', { class: 'offers', 'data-asking': true }, this.#hint, this.#owner, this.#secret);
  }

  /** Asks the hub again whether it is a development hub. */
  async update() {
    const isDev = await this.#hub.isDev();
    this.element.removeAttribute('data-asking'); // not earlier: a button would move away under the pointer
    this.#owner.hidden = !isDev;
    this.#hint.hidden = !isDev && !this.#secret;
    setText(this.#hint, isDev ? 'This hub runs with --dev: every program on its machine may act as its owner.' : whereSecretsAre);
    this.#secret?.classList.toggle('primary', !isDev);
  }
}

/** For an empty database: sample data, a file, or a command to copy. */
export class EmptyOffer {
  #hub;
  #edits;
  #command = element('code', {});

  /** edits: those of the Data tab, so that the sample can be undone; choose(): asks for a file to import. */
  constructor(hub, edits, choose) {
    this.#hub = hub;
    this.#edits = edits;
    const offer = (name, title, run, kind = '') => button(title, run, { class: `button ${kind}`, 'data-offer': name });
    this.element = element('div', { class: 'offers' },
      offer('sample', 'Load sample data', () => this.#load(), 'primary'), offer('import', 'Import a file', choose),
      element('div', { class: 'offer-command' }, element('span', {}, 'Or write from a terminal:'), this.#command,
        offer('command', 'Copy', () => copyText(this.#command.textContent, 'Copied the command.'), 'plain')));
  }

  /** Writes the command for the hub and the signed-in identity. A secret is never part of it. */
  async update() {
    const { base, ns, credentials } = this.#hub;
    const isDev = credentials.token && await this.#hub.isDev();
    const way = !credentials.token ? '' : isDev ? ' --auth owner' : ' --auth-file admin-secret.txt';
    setText(this.#command, `vigla set '${base}/greeting?ns=${encodeURIComponent(ns)}' '"hello"'${way}`);
  }

  async #load() {
    try {
      const response = await fetch('data/sample.json', { cache: 'no-store' });
      if (!response.ok) throw new Error(`The sample could not be read (${response.status}).`);
      await this.#edits.set('/', await response.json(), 'Loaded the sample data.');
    } catch (error) {
      this.#hub.say(error.message, { bad: true });
    }
  }
}
