import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { findPostmaster, serves } from '../../src/db/postgres-process.ts';

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

/** A node's own database outlives the node when that is killed: this ends it where it stands. @returns whether it has not ended yet */
export function quitEmbedded(dataDir: string): () => boolean {
  const cluster = realpathSync(join(dataDir, 'postgres'));
  const postmaster = findPostmaster(cluster);
  if (!postmaster) return () => false;
  process.kill(postmaster.pid, 'SIGQUIT');
  return () => serves(postmaster.pid, cluster);
}
