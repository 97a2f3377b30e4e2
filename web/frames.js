// Cutting and joining of realtime v5 messages (contract §1.6): a message longer than 16,384 UTF-16 units travels as
// one frame with the decimal number of segments, then the segments. Pure.

export const segmentLength = 16384;

/** The frames that carry `text`. */
export function cut(text) {
  if (text.length <= segmentLength) return [text];
  const frames = [];
  for (let start = 0; start < text.length;) {
    let end = Math.min(start + segmentLength, text.length);
    // A lone surrogate cannot be encoded: leave the pair to the next segment.
    const unit = text.charCodeAt(end - 1);
    if (end < text.length && unit >= 0xd800 && unit <= 0xdbff) end -= 1;
    frames.push(text.slice(start, end));
    start = end;
  }
  return [String(frames.length), ...frames];
}

/** Joins inbound frames. `receive` returns a whole message, or null while segments are missing. */
export class FrameJoiner {
  #missing = 0;
  #segments = [];

  receive(text) {
    if (this.#missing > 0) {
      this.#segments.push(text);
      this.#missing -= 1;
      if (this.#missing > 0) return null;
      const whole = this.#segments.join('');
      this.#segments = [];
      return whole;
    }
    if (text.length <= 6 && /^[0-9]*$/.test(text)) {
      this.#missing = Number(text); // "0" and "" announce nothing
      return null;
    }
    return text;
  }
}
