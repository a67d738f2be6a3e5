import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { leaveBehind } from '../leftovers.ts';
import { inWorld, type Scenario, startLoad } from '../run.ts';

/** Enough for a new cluster and some mail. */
const size = '240m';

/** QUE-13. Needs permission to mount a file system. */
export const diskFull: Scenario = {
  name: 'disk',
  what: 'the disk of PostgreSQL full, under load; then there is room again',
  quick: 1,
  async run(run) {
    const mount = join(run.folder, 'small-disk');
    mkdirSync(mount, { recursive: true });
    chmodSync(run.folder, 0o755);
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=755`, 'tmpfs', mount], { stdio: 'pipe' });
    const unmount = () => execFileSync('umount', ['-l', mount], { stdio: 'pipe' });
    const forget = leaveBehind(unmount);
    try {
      const settings = { max_wal_size: '64MB', min_wal_size: '32MB' };
      return await inWorld(run, { database: 'own', postgresDir: join(mount, 'pg'), settings }, async (stage) => {
        const { world, figures } = stage;
        const server = world.server();
        const load = startLoad(stage, 15);
        for (let round = 1; round <= run.rounds; round += 1) {
          await sleep(1_500);
          run.say(`full ${round} of ${run.rounds}`);
          world.client.phase = 'disk full';
          const ballast = join(mount, 'ballast');
          // Repeatedly: space that PostgreSQL frees meanwhile is filled too.
          for (const end = Date.now() + run.random.between(6_000, 12_000); Date.now() < end; await sleep(200))
            fill(ballast);
          figures['PostgreSQL went down'] = Number(figures['PostgreSQL went down'] ?? 0) + (server.isUp() ? 0 : 1);
          rmSync(ballast);
          world.client.phase = null;
          if (!server.isUp()) await server.start();
          const began = performance.now();
          const order = world.orders.next();
          while (!(await world.client.ask(order))) await sleep(50);
          figures['longest until a request succeeded again, ms'] = Math.max(
            Math.round(performance.now() - began),
            Number(figures['longest until a request succeeded again, ms'] ?? 0),
          );
        }
        load.stop();
        const during = world.ledger.entries.filter((entry) => entry.is === 'answered' && entry.while === 'disk full');
        const counts = Map.groupBy(during, (entry) => (entry.is === 'answered' ? entry.status : 0));
        figures['answers while it was full'] = [...counts]
          .map(([status, list]) => `${list.length} x ${status}`)
          .join(', ');
      });
    } finally {
      forget();
      unmount();
    }
  },
};

/** Writes until there is no space left. */
function fill(path: string): void {
  const file = openSync(path, 'a');
  try {
    for (let bytes = 1 << 20; bytes >= 4096; bytes >>= 1) {
      try {
        for (;;) writeSync(file, Buffer.alloc(bytes));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      }
    }
  } finally {
    closeSync(file);
  }
}
