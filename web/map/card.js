// The card on the map: what is known of the point under the pointer, or of the chosen circle.

import { joinPath } from '../client/paths.js';
import { age, element, setText } from '../page/dom.js';
import { distanceMetres } from './camera.js';
import { howTo } from './circles.js';

export class MapCard {
  #card;
  #spoken;

  /** card: its element; spoken: the text for screen readers. */
  constructor(card, spoken) {
    this.#card = card;
    this.#spoken = spoken;
  }

  /** point: null for none. circle: the texts of the chosen circle, [title, facts]; null for none. */
  show(point, circle) {
    this.#card.hidden = !point && !circle;
    setText(this.#spoken, circle?.join(' ') ?? '');
    if (point) this.#card.replaceChildren(...pointLines(point));
    else if (circle) this.#card.replaceChildren(element('strong', {}, circle[0]), element('span', {}, circle[1]), element('span', { class: 'quiet' }, howTo));
  }
}

function pointLines(point) {
  const lines = [
    element('strong', {}, point.kind === 'destination' ? `${point.label}: destination` : point.label), element('span', { class: 'mono' }, joinPath(point.path)),
    element('span', { class: 'mono' }, `${point.latitude.toFixed(5)}, ${point.longitude.toFixed(5)}`),
  ];
  const last = point.trail.at(-1);
  if (last && point.intervalMs > 0) {
    const speed = distanceMetres(last, point) / (point.intervalMs / 1000);
    lines.push(element('span', {}, `${speed.toFixed(1)} m/s · ${point.moves} moves · ${age(performance.now() - point.movedAt)}`));
  }
  return lines;
}
