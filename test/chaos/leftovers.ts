import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { findPostmaster, serves } from '../../src/db/postgres-process.ts';

/**
 * What must be ended when the harness ends, however that happens: processes that would outlive it, and mounts. Undone
 * in reverse order, without waiting.
 */
const leftovers: (() => void)[] = [];

/** @returns a function that removes it from the list, once it has ended normally */
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
        // It is already gone.
      }
    }
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(130));
}

/**
 * A killed node's own database outlives it: this ends it without grace.
 *
 * @returns whether it has not ended yet
 */
export function quitEmbedded(dataDir: string): () => boolean {
  const cluster = realpathSync(join(dataDir, 'postgres'));
  const postmaster = findPostmaster(cluster);
  if (!postmaster) return () => false;
  process.kill(postmaster.pid, 'SIGQUIT');
  return () => serves(postmaster.pid, cluster);
}
