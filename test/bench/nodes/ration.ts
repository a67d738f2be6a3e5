import { closeSync, openSync, readdirSync, readSync } from 'node:fs';

/** How far a process may run ahead of its share, or save it up, in ms. */
const slackMs = 40;
const lookEveryMs = 2;
/** A process rarely starts another thread. */
const listThreadsEveryMs = 200;

/**
 * The run time of all threads of a process. Their files stay open and are read into one buffer: reading them by name
 * 500 times a second took a third of a processor, which was then missing for what is measured.
 */
class RunTime {
  #pid: number;
  #files = new Map<string, number>();
  #listedAt = Number.NEGATIVE_INFINITY;
  #buffer = Buffer.alloc(64);

  constructor(pid: number) {
    this.#pid = pid;
  }

  /** In nanoseconds, since the threads began that still run. */
  read(): number {
    this.#listThreads();
    let sum = 0;
    for (const [thread, file] of this.#files) {
      try {
        sum += this.#readOne(file);
      } catch {
        closeSync(file);
        this.#files.delete(thread);
      }
    }
    return sum;
  }

  close(): void {
    for (const file of this.#files.values()) closeSync(file);
    this.#files.clear();
  }

  #listThreads(): void {
    const now = performance.now();
    if (now - this.#listedAt < listThreadsEveryMs) return;
    this.#listedAt = now;
    for (const thread of readdirSync(`/proc/${this.#pid}/task`)) {
      if (this.#files.has(thread)) continue;
      try {
        this.#files.set(thread, openSync(`/proc/${this.#pid}/task/${thread}/schedstat`, 'r'));
      } catch {
        // The thread has ended.
      }
    }
  }

  /** The first number of the file. */
  #readOne(file: number): number {
    const length = readSync(file, this.#buffer, 0, this.#buffer.length, 0);
    let value = 0;
    for (let at = 0; at < length; at += 1) {
      const digit = (this.#buffer[at] ?? 0) - 48;
      if (digit < 0) break;
      value = value * 10 + digit;
    }
    return value;
  }
}

/**
 * Limits each of these processes to a share of a processor: one that has used it up is stopped for some milliseconds.
 * This simulates several slow processors on a machine that has two.
 *
 * ¶ @returns a function that ends the limits
 */
export function ration(pids: number[], share: number): () => void {
  const most = slackMs * 1e6 * share;
  const all = pids.map((pid) => {
    const time = new RunTime(pid);
    return { pid, time, ran: time.read(), credit: most, stopped: false };
  });
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    const earned = (now - last) * 1e6 * share;
    last = now;
    for (const one of all) {
      const ran = one.time.read();
      one.credit = Math.min(most, one.credit + earned - (ran - one.ran));
      one.ran = ran;
      const stop = one.stopped ? one.credit < most / 2 : one.credit < 0;
      if (stop !== one.stopped) process.kill(one.pid, stop ? 'SIGSTOP' : 'SIGCONT');
      one.stopped = stop;
    }
  }, lookEveryMs);
  return () => {
    clearInterval(timer);
    for (const { pid, time } of all) {
      time.close();
      process.kill(pid, 'SIGCONT');
    }
  };
}
