import { readdirSync, readFileSync } from 'node:fs';

/** How far a process may run ahead of its share, or save it up, in ms. */
const slackMs = 40;
const lookEveryMs = 2;

/** The run time of all threads of a process, in nanoseconds. */
function ranFor(pid: number): number {
  let sum = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      sum += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ', 1)[0]);
    } catch {
      // The thread has ended.
    }
  }
  return sum;
}

/**
 * Limits each of these processes to a share of a processor: one that has used it up is stopped for some milliseconds.
 * This simulates several slow processors on a machine that has two.
 *
 * ¶ @returns a function that ends the limits
 */
export function ration(pids: number[], share: number): () => void {
  const most = slackMs * 1e6 * share;
  const all = pids.map((pid) => ({ pid, ran: ranFor(pid), credit: most, stopped: false }));
  let last = performance.now();
  const timer = setInterval(() => {
    const earned = (performance.now() - last) * 1e6 * share;
    last += earned / 1e6 / share;
    for (const one of all) {
      const ran = ranFor(one.pid);
      one.credit = Math.min(most, one.credit + earned - (ran - one.ran));
      one.ran = ran;
      const stop = one.stopped ? one.credit < most / 2 : one.credit < 0;
      if (stop !== one.stopped) process.kill(one.pid, stop ? 'SIGSTOP' : 'SIGCONT');
      one.stopped = stop;
    }
  }, lookEveryMs);
  return () => {
    clearInterval(timer);
    for (const { pid } of all) process.kill(pid, 'SIGCONT');
  };
}
