// What hands do on the map: dragging, wheel, two fingers, clicks and keys.

const clickPixels = 3; // moved less, it is a click

/** does: zoomBy(amount, x, y), panBy(dx, dy, atOnce), point(x, y), pointNowhere(), press(); keys: { name of a key: what it does }. */
export function takeHands(canvas, does, keys) {
  const pointers = new Map();
  let dragged = 0;
  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    does.zoomBy(-event.deltaY * (event.deltaMode ? 0.06 : 0.0022), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    dragged = 0;
  });
  canvas.addEventListener('pointermove', (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) { does.point(event.offsetX, event.offsetY); return; }
    const now = { x: event.offsetX, y: event.offsetY };
    dragged += Math.hypot(now.x - last.x, now.y - last.y);
    if (pointers.size === 1) {
      if (dragged > clickPixels) does.panBy(now.x - last.x, now.y - last.y, true);
    } else {
      const other = [...pointers.entries()].find(([id]) => id !== event.pointerId)[1];
      const before = Math.hypot(last.x - other.x, last.y - other.y), after = Math.hypot(now.x - other.x, now.y - other.y);
      if (before > 0 && after > 0) does.zoomBy(Math.log(after / before), (now.x + other.x) / 2, (now.y + other.y) / 2);
    }
    pointers.set(event.pointerId, now);
  });
  const up = (event) => {
    if (!pointers.delete(event.pointerId) || dragged > clickPixels || event.type !== 'pointerup') return;
    does.point(event.offsetX, event.offsetY);
    does.press();
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('pointerleave', () => does.pointNowhere());
  canvas.addEventListener('dblclick', (event) => does.zoomBy(0.9, event.offsetX, event.offsetY));
  canvas.addEventListener('keydown', (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
}
