// The last lines of the hub's log, live.

import { Repeating, ask } from '../page/administration.js';
import { clockTime, element, setText } from '../page/dom.js';

const everyMs = 3000;
const shown = 300;
const tones = { warning: 'warn', error: 'bad', critical: 'bad' };

export class LogLines {
  #hub;
  #list;
  #blank;
  #pause;
  #latest = 0;
  #generation = 0;
  #isPaused = false;
  #repeating;

  constructor(hub) {
    this.#hub = hub;
    this.#list = element('ol', { class: 'health-lines' });
    this.#blank = element('p', { class: 'blank' }, 'Nothing was logged since the hub was started.');
    this.#pause = element('button', { class: 'button plain', id: 'health-log-pause', type: 'button', 'aria-pressed': 'false', onclick: () => this.#toggle() }, 'Pause');
    this.element = element('section', { class: 'health-log', 'aria-label': 'Log' },
      element('header', { class: 'pane-head' }, element('h3', {}, 'Log'), this.#pause),
      this.scroll = element('div', { class: 'health-scroll', tabindex: '0', role: 'region', 'aria-label': 'The last lines of the log' }, this.#list, this.#blank));
    this.#repeating = new Repeating(everyMs, () => this.#read());
  }

  get lines() { return [...this.#list.children].map((line) => line.lastElementChild.textContent); }

  start() { this.#repeating.start(); }
  stop() { this.#repeating.stop(); }

  clear() {
    this.#generation++;
    this.#latest = 0;
    this.#list.replaceChildren();
  }

  #toggle() {
    this.#isPaused = !this.#isPaused;
    this.#pause.setAttribute('aria-pressed', String(this.#isPaused));
    setText(this.#pause, this.#isPaused ? 'Go on' : 'Pause');
  }

  async #read() {
    if (this.#isPaused) return;
    const generation = this.#generation;
    let answer;
    try { answer = await ask(this.#hub, `/.inspect/log.json?after=${this.#latest}`); } catch (fault) {
      if (fault.status === 404 && generation === this.#generation) setText(this.#blank, 'This hub keeps no lines of its log.');
      return;
    }
    if (generation !== this.#generation || this.#isPaused) return;
    // A restarted hub counts from 1 again.
    if (answer.latest < this.#latest) { this.clear(); return; }
    const isAtEnd = this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < 30;
    this.#latest = answer.latest;
    this.#list.append(...answer.lines.map(({ at, level, text }) => element('li', { class: tones[level] }, element('time', {}, clockTime(at)), element('span', { class: 'health-level' }, level), element('span', {}, text))));
    while (this.#list.childElementCount > shown) this.#list.firstElementChild.remove();
    this.#blank.hidden = this.#list.childElementCount > 0;
    if (isAtEnd) this.scroll.scrollTop = this.scroll.scrollHeight;
  }
}
