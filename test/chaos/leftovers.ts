/**
 * What has to be ended when the harness is, however that comes: processes that would outlive it, and mounts. Undone in
 * reverse, without waiting for anything.
 */
const leftovers: (() => void)[] = [];

/** @returns what takes it off the list again, once it has been done in the ordinary way */
export function leaveBehind(undo: () => void): () => void {
  leftovers.push(undo);
  return () => {
    const at = leftovers.indexOf(undo);
    if (at !== -1) leftovers.splice(at, 1);
  };
}

export function clearOnExit(): void {
  process.on('exit', () => {
    for (const undo of leftovers.toReversed()) {
      try {
        undo();
      } catch {
        // It is gone already.
      }
    }
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(130));
}
