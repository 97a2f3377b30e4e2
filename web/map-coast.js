// Coast lines for orientation, as lines on the unit square of the map's projection. They are some kilometres off at worst, so the map draws
// them from afar only.

import { coast, perDegree } from './coast-data.js';
import { project } from './map-projection.js';

// The alphabet of Scripts/coast: the first letters end a number, the others go on.
const last = 43;
const skipped = '$\\`';
const values = new Map();
for (let code = 35; code < 127; code++) {
  const letter = String.fromCharCode(code);
  if (!skipped.includes(letter)) values.set(letter, values.size);
}
const more = values.size - last;

/** [{ points: Float32Array of x, y, x, y …, west, east, north, south }] with 0…1 from west to east and from north to south. */
export function coastLines(text = coast) {
  let at = 0;
  const number = () => {
    let value = 0, place = 1;
    for (;;) {
      const digit = values.get(text[at++]);
      if (digit === undefined) continue; // an end of line
      value += digit * place;
      if (digit < last) break;
      place *= more;
    }
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  const end = text.trimEnd().length, lines = [];
  for (let x = 0, y = 0; at < end;) {
    const points = new Float32Array(2 * number());
    const line = { points, west: 1, east: 0, north: 1, south: 0 };
    for (let i = 0; i < points.length; i += 2) {
      x += number();
      y += number();
      const on = project(y / perDegree, x / perDegree);
      [points[i], points[i + 1]] = [on.x, on.y];
      line.west = Math.min(line.west, on.x);
      line.east = Math.max(line.east, on.x);
      line.north = Math.min(line.north, on.y);
      line.south = Math.max(line.south, on.y);
    }
    lines.push(line);
  }
  return lines;
}
