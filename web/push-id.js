// Push ids: 20 characters that sort by the time they were made (contract §5).

const alphabet = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz';

/** A maker of push ids. `random(n)` gives n integers 0…63; ids made in the same millisecond keep their order. */
export function pushIds(random = secureRandom) {
  let last = -1;
  let tail = [];
  return function next(nowMs) {
    let time = Math.max(Math.floor(nowMs), 0);
    if (time === last) {
      let i = tail.length - 1;
      while (i >= 0 && tail[i] === 63) tail[i--] = 0;
      if (i >= 0) tail[i] += 1;
    } else {
      last = time;
      tail = random(12);
    }
    let head = '';
    for (let i = 0; i < 8; i++) {
      head = alphabet[time % 64] + head;
      time = Math.floor(time / 64);
    }
    return head + tail.map((n) => alphabet[n]).join('');
  };
}

function secureRandom(count) {
  return Array.from(crypto.getRandomValues(new Uint8Array(count)), (byte) => byte & 63);
}
