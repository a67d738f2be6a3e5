import { readdirSync, readFileSync } from 'node:fs';

/** What a process may have run ahead, or saved up, in ms of its share. */
const slackMs = 40;
const lookEveryMs = 2;

/** Nanoseconds that all threads of a process have run. */
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
 * Lets each of these processes have so much of a processor and no more: what has used up its share is stopped for some
 * milliseconds. So several processors can be had, each of them slow, on a machine that has two.
 *
 * @returns a function that lets them run again
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
