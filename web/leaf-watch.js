// A place without children: a value, or nothing. Nothing large can be there, so the place itself is listened to until it has children.

/**
 * told: children() once there are some; leaf(value, priority, quiet) for the value now (null: nothing), quiet when it is no change;
 * stale(isStale) as the connection goes and comes; refused(refusal). Returns the function that ends it.
 */
export function watchLeaf(trees, path, told) {
  let isQuiet = true;
  const look = (tree, quiet) => {
    const { root } = tree.model;
    if (root.count) told.children(); else told.leaf(root.isLeaf ? root.value : null, root.priority, quiet);
  };
  const watch = trees.open(path, {
    change: (change, tree) => look(tree, isQuiet || change.initial),
    state: (tree) => { if (tree.state === 'refused') told.refused(tree.refusal); else told.stale(tree.state === 'stale'); },
  });
  if (watch.tree.model.known) look(watch.tree, true);
  isQuiet = false;
  return () => watch.close();
}
