// Web Mercator on the unit square, distances, and round steps for grid and scale. Pure.

const earthCircumferenceMetres = 40075016.686;
const degrees = Math.PI / 180;
export const latitudeLimit = 85.05;

/** Degrees → x, y in 0…1; y grows to the south. */
export function project(latitude, longitude) {
  const limited = Math.max(-latitudeLimit, Math.min(latitudeLimit, latitude));
  const sine = Math.sin(limited * degrees);
  return { x: longitude / 360 + 0.5, y: 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI) };
}

export function unproject(x, y) {
  return { latitude: Math.atan(Math.sinh((0.5 - y) * 2 * Math.PI)) / degrees, longitude: (x - 0.5) * 360 };
}

/** Metres on the ground per unit of x at a latitude. */
export function metresPerUnit(latitude) {
  return earthCircumferenceMetres * Math.cos(latitude * degrees);
}

/** Great-circle distance in metres (mean radius). */
export function distanceMetres(a, b) {
  const dLat = (b.latitude - a.latitude) * degrees, dLng = (b.longitude - a.longitude) * degrees;
  const h = Math.sin(dLat / 2) ** 2 + Math.cos(a.latitude * degrees) * Math.cos(b.latitude * degrees) * Math.sin(dLng / 2) ** 2;
  return 2 * 6371008.8 * Math.asin(Math.min(1, Math.sqrt(h)));
}

/** The smallest of 1, 2, 5 × 10ⁿ that is at least `least`. */
export function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 5]) if (factor * power >= least * 0.999999) return factor * power;
  return 10 * power;
}

/** The largest round length of at most `most` metres, with its words. */
export function scaleLength(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  const metres = (most >= 5 * power ? 5 : most >= 2 * power ? 2 : 1) * power;
  return { metres, text: metres >= 1000 ? `${(metres / 1000).toLocaleString('en')} km` : `${Number(metres.toPrecision(1))} m` };
}

/** Decimals that tell neighbouring grid lines apart. */
export function stepDecimals(step) {
  return Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
}
