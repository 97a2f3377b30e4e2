// Finds the places of a database that hold positions, for the Follow tab: with a bounded number of small requests, however large the database is.
//
//   names of “/” ─► each place: small? ─► read it, and count its positions
//                               large? ─► some names; its first children are searched in the same way, and so on

const limits = {
  places: 30,     // searched at the top
  names: 20,      // names read of a large place, to see whether it is a position itself
  children: 3,    // children searched of a large place
  levels: 6,
  requests: 150,  // in total; each returns at most 128 KiB
};

/**
 * Resolves with { found: [{ path, count }], isWhole }: places that hold positions, in key order. A large place is found by its first
 * children, as the map listens to all of what it shows. isWhole: nothing was left out. Rejects with a Refusal if “/” may not be read.
 */
export async function findPoints(source, signal) {
  let left = limits.requests, isWhole = true;
  const ask = (work) => {
    if (left > 0) { left -= 1; return work(); }
    isWhole = false;
    return Promise.resolve(undefined);
  };

  async function look(path, level) {
    const isSmall = await ask(() => source.isSmall(path, {}, signal));
    if (isSmall === undefined) return [];
    if (isSmall) {
      const count = countPoints(await ask(() => source.small(path, {}, signal)));
      return count ? [{ path, count }] : [];
    }
    isWhole = false;
    const page = level < limits.levels && await ask(() => source.page(path, { limit: limits.names, signal }));
    if (!page) return [];
    if (page.keys.includes('latitude') && page.keys.includes('longitude')) return [{ path, count: 1 }];
    return into(path, page.keys.slice(0, limits.children), level + 1);
  }

  /** Leaves out places that may not be read. */
  const into = async (path, keys, level) => (await Promise.all(keys.map((key) => look(source.childPath(path, key), level).catch((fault) => {
    if (fault.code !== 'permission_denied') throw fault;
    isWhole = false;
    return [];
  })))).flat();

  const { keys } = await source.page('/', { limit: limits.places, signal });
  if (keys.length === limits.places) isWhole = false;
  return { found: await into('/', keys, 1), isWhole };
}

/** How many nodes of a value are points of the map (points.js). */
export function countPoints(value) {
  if (value === null || typeof value !== 'object') return 0;
  const degrees = (name, most) => { const at = value[name]?.['.value'] ?? value[name]; return typeof at === 'number' && Math.abs(at) <= most; };
  let count = degrees('latitude', 90) && degrees('longitude', 180) ? 1 : 0;
  for (const child of Object.values(value)) count += countPoints(child);
  return count;
}
