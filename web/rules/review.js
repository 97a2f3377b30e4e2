// Before a deploy: the difference from the rules in force, line by line and rule by rule. Former rules are restored the same way.

import { request } from '../page/administration.js';
import { button, element, plural } from '../page/dom.js';
import { changedLines, compare, hunks } from './editor.js';

const signs = { same: ' ', gone: '−', new: '+' };
const words = { same: '', gone: 'removed: ', new: 'added: ' };
const kept = {
  stored: 'They hold across restarts.',
  untilFileChanges: 'They hold across restarts, until the hub’s own file of rules is changed.',
  untilStop: 'They hold until the hub stops: it keeps nothing on disk.',
};

export class ReviewView {
  #hub;
  #done;
  #body;
  #title;
  #deploy;
  #text = '';
  #before = '';
  #unsay = () => {};

  /** done(text): these rules are now in force; back(): to the editor. */
  constructor(hub, { done, back }) {
    this.#hub = hub;
    this.#done = done;
    this.#title = element('h2', { tabindex: '-1' });
    this.#body = element('div', { class: 'review-body', tabindex: '0', role: 'region', 'aria-label': 'Difference to the rules in force' });
    this.#deploy = button('Deploy', () => this.#run(), { class: 'button primary', id: 'rules-deploy' });
    this.element = element('div', { class: 'review', hidden: true },
      element('header', { class: 'pane-head' }, this.#title,
        element('div', { class: 'rules-tools' }, button('Back to editing', back, { id: 'rules-back' }), this.#deploy)),
      this.#body);
  }

  /** Shows what would change. `report` is the hub's answer to the check of the text; null when it was not checked. */
  show(before, text, report, title) {
    this.#before = before;
    this.#text = text;
    const lines = compare(before, text);
    const { added, removed } = changedLines(lines);
    const isSame = added + removed === 0;
    this.#title.textContent = title ?? (isSame ? 'Nothing to deploy' : `Deploy: ${plural(added, 'line')} added, ${removed} removed`);
    this.#deploy.disabled = isSame;
    this.#body.replaceChildren(...names(report?.changes), ...(report?.warnings ?? []).map((warning) => element('p', { class: 'warn' }, `${warning.line}:${warning.column} ${warning.message}`)),
      isSame ? element('p', { class: 'blank' }, 'This is the text that is in force.') : diffView(lines));
    this.#title.focus();
  }

  async #run() {
    this.#deploy.disabled = true;
    try {
      const answer = await request(this.#hub, '/.settings/rules.json?details=true', { method: 'PUT', text: this.#text });
      const before = this.#before;
      this.#done(this.#text);
      this.#say(`Deployed. ${kept[answer.kept] ?? ''}`, { action: { title: 'Go back', run: () => this.goBack(before) } });
    } catch (fault) {
      this.#deploy.disabled = false;
      this.#hub.say(`Not deployed: the rules before stay in force. ${fault.message}`, { bad: true });
    }
  }

  /** Shows a message; only the last deploy can be undone from its message. */
  #say(text, options) {
    this.#unsay();
    this.#unsay = this.#hub.say(text, options);
  }

  /** Puts a text in force again at once. */
  async goBack(text) {
    try {
      await request(this.#hub, '/.settings/rules.json?details=true', { method: 'PUT', text });
      this.#done(text);
      this.#say('The former rules are in force again.');
    } catch (fault) {
      this.#hub.say(`The rules stay as they are. ${fault.message}`, { bad: true });
    }
  }
}

function names(changes) {
  if (!changes || changes.same) return [];
  return [['added', 'new', '+'], ['changed', 'changed', '~'], ['removed', 'gone', '−']].filter(([list]) => changes[list].length).map(([list, kind, sign]) =>
    element('p', { class: `rule-names names-${kind}` }, element('strong', {}, `${sign} ${plural(changes[`${list}Count`], 'rule')} ${list}: `), changes[list].slice(0, 12).join(', '), changes[`${list}Count`] > 12 ? ', …' : ''));
}

function diffView(lines) {
  return element('div', { class: 'diff' }, ...hunks(lines).map((line) => line.kind === 'skip'
    ? element('div', { class: 'diff-skip' }, plural(line.count, 'line'))
    : element('div', { class: `diff-${line.kind}` }, element('span', { class: 'diff-number', 'aria-hidden': 'true' }, String(line.now ?? line.old)),
      element('span', { class: 'diff-sign', 'aria-hidden': 'true' }, signs[line.kind]), element('span', { class: 'sr' }, words[line.kind]), element('code', {}, line.text || ' '))));
}
