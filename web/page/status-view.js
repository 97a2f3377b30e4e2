// The state of the connection, always visible: identity, connection, round trip; and advice when something is wrong.

import { byId, perFrame, setText } from './dom.js';

const words = { offline: 'Not connected', connecting: 'Connecting', greeting: 'Connecting', connected: 'Connected', waiting: 'Reconnecting' };

export class StatusView {
  #hub;
  #signIn;
  #countdown = 0;
  #show = perFrame(() => this.#paint());

  constructor(hub, signIn) {
    this.#hub = hub;
    this.#signIn = signIn;
    hub.on('connection', this.#show);
    byId('status').addEventListener('click', () => signIn.open());
    byId('notice-action').addEventListener('click', () => {
      const { realtime } = hub;
      if (realtime.phase === 'waiting') realtime.retryNow();
      else if (realtime.phase === 'offline') hub.connect();
      else signIn.open();
    });
    this.#show();
  }

  #paint() {
    const { realtime, ns, host } = this.#hub;
    const { phase } = realtime;
    const status = byId('status');
    status.dataset.phase = phase;
    status.toggleAttribute('data-acting', Boolean(this.#hub.identity?.acting));
    const who = this.#signIn.who;
    setText(byId('status-who'), who);
    setText(byId('status-word'), words[phase]);
    clearTimeout(this.#countdown);
    let figures = '', title = '';
    if (phase === 'connected') {
      if (realtime.roundTripMs !== null) figures = ` · ${realtime.roundTripMs < 1 ? '< 1' : Math.round(realtime.roundTripMs)} ms`;
      const offset = Math.round(realtime.clockOffsetMs);
      // The offset includes the greeting's travel time: small values mean nothing.
      if (Math.abs(offset) >= 200) figures += ` · clock ${offset < 0 ? '−' : '+'}${Math.abs(offset) < 10000 ? `${Math.abs(offset)} ms` : `${Math.round(Math.abs(offset) / 1000)} s`}`;
      title = `${host}, namespace ${ns}, ${who}. The hub's clock is ${Math.abs(offset)} ms ${offset < 0 ? 'behind' : 'ahead of'} this computer's.`;
    } else if (phase === 'waiting') {
      const left = Math.max(0, Math.ceil((realtime.retryAt - Date.now()) / 1000));
      figures = left ? ` in ${left} s` : ' now';
      this.#countdown = setTimeout(this.#show, 500);
    }
    setText(byId('status-figures'), figures);
    if (status.title !== title) status.title = title;
    this.#advise(phase);
  }

  #advise(phase) {
    const { realtime, observe, host } = this.#hub;
    let title = '', text = '', action = '';
    if (realtime.shutdown !== null) {
      [title, text, action] = ['The hub asked this page to stay away.', realtime.shutdown, 'Try anyway'];
    } else if (realtime.authFault || observe.authFault) {
      const fault = realtime.authFault ?? observe.authFault;
      [title, text, action] = ['You are not signed in.', `The hub refused what you came with: ${(fault.message || fault.code).replace(/\.$/, '')}. You go on as a visitor.`, 'Sign in'];
    } else if (phase === 'waiting' && realtime.attempt >= 2) {
      const reason = realtime.lastCode === 1009 ? 'The last message was larger than the hub takes.' : realtime.lastReason;
      title = `No answer from ${host}.`;
      text = realtime.session
        ? `${reason ? reason + ' ' : ''}What you see is the last known state; it catches up by itself when the hub is back.`
        : `${reason ? reason + ' ' : ''}Is the hub running there? Start it with “vigla serve”, or correct the host.`;
      action = 'Try now';
    } else if (phase === 'offline' && realtime.lastReason) {
      [title, text, action] = ['Not connected.', realtime.lastReason, 'Connect'];
    }
    const notice = byId('notice');
    if (notice.hidden !== !title) notice.hidden = !title;
    if (!title) return;
    setText(byId('notice-title'), title);
    setText(byId('notice-text'), text);
    setText(byId('notice-action'), action);
  }
}
