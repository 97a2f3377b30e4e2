// An observed circle: the Queries tab adds it to the hub's circles (hub.circles), the map of Follow draws and moves it.

const betweenMs = 100; // minimum time between two moves of one circle

export class Circle {
  /** The number of children within; null if the hub does not send it. */
  size = null;
  #move;
  #settled;
  #keys = new Set();
  #known; // the centre that was last sent to the hub
  #isMoving = false;

  /**
   * near: { lat, lng, radius? }; text: the observed query; events: the requested ones. move(centre) asks the hub and resolves when it has moved;
   * settled(circle, error) is called when the last of several moves is done.
   */
  constructor(near, text, events, move, settled) {
    Object.assign(this, { near, text, events });
    this.#known = near;
    this.#move = move;
    this.#settled = settled;
  }

  /** Handles an event of the observer. */
  hear({ event, key, count }) {
    if (event === 'count') this.size = count;
    if (event === 'added') this.#keys.add(key);
    if (event === 'removed') this.#keys.delete(key);
    if (event === 'reset') this.#keys.clear();
    if (!this.events.includes('count') && this.events.includes('added') && this.events.includes('removed')) this.size = this.#keys.size;
  }

  /** Moves the centre: here at once, at the hub when the previous move is done. */
  async moveTo(lat, lng) {
    this.near = { ...this.near, lat, lng };
    if (this.#isMoving) return;
    this.#isMoving = true;
    let error;
    try {
      while (this.near !== this.#known) {
        const wanted = this.near;
        await this.#move({ lat: wanted.lat, lng: wanted.lng });
        this.#known = wanted;
        await new Promise((done) => setTimeout(done, betweenMs));
      }
    } catch (refusal) {
      error = refusal;
      this.near = this.#known;
    }
    this.#isMoving = false;
    this.#settled(this, error);
  }
}

/** Removes a circle that is no longer observed. */
export function removeCircle(circles, circle) {
  circles.list = circles.list.filter((other) => other !== circle);
  for (const name of ['chosen', 'asked']) if (circles[name] === circle) circles[name] = null;
}
