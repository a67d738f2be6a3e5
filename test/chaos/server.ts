import { readFileSync, realpathSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startEmbedded } from '../../src/db/embedded.ts';
import { findPostmaster, serves } from '../../src/db/postgres-process.ts';
import { silentLog } from '../../src/log.ts';
import { freePort } from '../support/ports.ts';
import { leaveBehind } from './leftovers.ts';

/** The harness's own PostgreSQL, with everything on that makes commits durable, always on the same port. */
export class Server {
  readonly #dataDir: string;
  readonly #settings: Record<string, string>;
  #forget = () => {};
  #running: { url: string; stop(): Promise<void> } | null = null;

  private constructor(dataDir: string, settings: Record<string, string>) {
    this.#dataDir = dataDir;
    this.#settings = settings;
  }

  static async start(dataDir: string, settings: Record<string, string> = {}): Promise<Server> {
    const server = new Server(dataDir, { port: String(await freePort()), ...settings });
    await server.start();
    return server;
  }

  get url(): string {
    if (!this.#running) throw new Error('the server is stopped');
    return this.#running.url;
  }

  /** Restarts it, as an operator does; it recovers from whatever happened to it. */
  async start(): Promise<void> {
    const options = { dataDir: this.#dataDir, password: 'chaos', log: silentLog, settings: this.#settings };
    this.#running = await startEmbedded(options);
    const { pid } = this.#postmaster();
    this.#forget();
    this.#forget = leaveBehind(() => process.kill(pid, 'SIGQUIT'));
  }

  /** `pg_ctl stop -m immediate`: every process quits at once, and nothing more is written. */
  async stopImmediately(): Promise<void> {
    const { pid } = this.#postmaster();
    process.kill(pid, 'SIGQUIT');
    await this.#gone(pid);
  }

  /** Like the kernel when memory runs out: the first process is killed, and the others react by themselves. */
  async kill(): Promise<void> {
    const { pid } = this.#postmaster();
    process.kill(pid, 'SIGKILL');
    await this.#gone(pid);
    // Its children end by themselves; the next start waits for the last of them.
    await sleep(300);
  }

  /**
   * Freezes all of its processes.
   *
   * @returns a function that resumes them
   */
  async freeze(): Promise<() => void> {
    const { pid } = this.#postmaster();
    process.kill(pid, 'SIGSTOP');
    const frozen = [pid, ...(await childrenOf(pid))];
    for (const each of frozen.slice(1)) signal(each, 'SIGSTOP');
    return () => {
      for (const each of frozen) signal(each, 'SIGCONT');
    };
  }

  async stop(): Promise<void> {
    await this.#running?.stop();
    this.#forget();
    this.#running = null;
  }

  isUp(): boolean {
    return findPostmaster(this.#cluster) !== undefined;
  }

  get #cluster(): string {
    return realpathSync(join(this.#dataDir, 'postgres'));
  }

  #postmaster(): { pid: number } {
    const found = findPostmaster(this.#cluster);
    if (!found) throw new Error('PostgreSQL is not running');
    return found;
  }

  async #gone(pid: number): Promise<void> {
    while (serves(pid, this.#cluster)) await sleep(10);
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function childrenOf(pid: number): Promise<number[]> {
  const all = (await readdir('/proc')).map(Number).filter((each) => each > 0);
  return all.filter((each) => {
    try {
      // The fourth field; the second is the program's name in brackets.
      return Number(readFileSync(`/proc/${each}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1]) === pid;
    } catch {
      return false;
    }
  });
}
