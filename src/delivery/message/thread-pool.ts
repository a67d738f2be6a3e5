import { readdir, readFile } from 'node:fs/promises';
import { constants, getPriority, setPriority } from 'node:os';
import type { Logger } from '../../log.ts';

const tasks = '/proc/self/task';

/** libuv's name for its threads. */
const nameOfOurs = 'libuv-worker';

/** Against a thread that is five steps nicer, one gets three quarters of a processor that both want. */
const nicer = 5;

/**
 * Lets the signing threads give way to the main thread, which everything passes through. There are more of them than
 * processors, and they have work whenever there is mail: with equal priority, the main thread waits behind them for a third
 * of its time, and then runs alone while they wait for it. Only on Linux, where priority is per thread; elsewhere this
 * changes nothing.
 */
export async function letPoolGiveWay(log: Logger): Promise<void> {
  try {
    const niceness = Math.min(getPriority() + nicer, constants.priority.PRIORITY_LOW);
    // This read goes through the pool itself, so its threads have started.
    for (const thread of await readdir(tasks)) {
      const name = await readFile(`${tasks}/${thread}/comm`, 'latin1').catch(() => '');
      if (name.trim() === nameOfOurs) setPriority(Number(thread), niceness);
    }
  } catch (error) {
    log.debug({ error: (error as Error).message }, 'the thread pool runs with the same priority as the main thread');
  }
}
