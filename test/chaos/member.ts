import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { childrenOf } from '../bench/children.ts';
import { runSendwright, type SendwrightProcess } from '../support/process.ts';
import type { Ledger } from './ledger.ts';
import { leaveBehind } from './leftovers.ts';
import { spawnSendwright } from './spawn.ts';
import type { Wire } from './wire.ts';

/** One node: the same environment in every start. */
export class Member {
  readonly name: string;
  /** The wire to the database; null with an embedded one. */
  readonly wire: Wire | null;
  readonly #env: Record<string, string>;
  readonly #ledger: Ledger;
  #app: SendwrightProcess | null = null;
  #logs: string[] = [];
  #frozen = false;
  #forget = () => {};

  constructor(name: string, { env, wire, ledger }: { env: Record<string, string>; wire: Wire | null; ledger: Ledger }) {
    this.name = name;
    this.wire = wire;
    this.#env = env;
    this.#ledger = ledger;
  }

  /** The running process; null if there is none, or it is frozen. */
  get app(): SendwrightProcess | null {
    return this.#frozen ? null : this.#app;
  }

  /**
   * Starts it, repeatedly if the database is not ready yet.
   *
   * @returns how long it took, in ms
   */
  async start(withinMs = 60_000): Promise<number> {
    const began = performance.now();
    for (;;) {
      const started = await runSendwright(this.#env);
      if (!('exited' in started)) {
        this.#app = started;
        this.#forget = leaveBehind(() => process.kill(started.pid, 'SIGKILL'));
        return performance.now() - began;
      }
      if (performance.now() - began > withinMs) throw new Error(`${this.name} does not start: ${started.stderr}`);
      await sleep(200);
    }
  }

  /** Runs a start that is killed as soon as `when` resolves, or that ends by itself. */
  async startAndKill(when: Promise<unknown>, stage: string): Promise<void> {
    const child = spawnSendwright(this.#env);
    const ended = once(child, 'exit');
    await Promise.race([when, ended]);
    if (child.exitCode === null) {
      this.#ledger.write({ is: 'blow', blow: 'kill', node: this.name, stage });
      child.kill('SIGKILL');
    }
    await ended;
    this.wire?.cut();
  }

  /** `kill -9`, recorded in the ledger first. */
  async kill(stage: string): Promise<void> {
    if (!this.#app) throw new Error(`${this.name} is not running`);
    this.#ledger.write({ is: 'blow', blow: 'kill', node: this.name, stage });
    await this.#end('SIGKILL');
    this.wire?.cut();
  }

  /**
   * `kill -9` for one of its child processes, which it must notice.
   *
   * @returns whether there is one
   */
  killWorker(pick: (pids: number[]) => number): boolean {
    const pids = this.#app ? childrenOf(this.#app.pid).filter(isWorker) : [];
    if (pids.length === 0) return false;
    this.#ledger.write({ is: 'blow', blow: 'kill', node: this.name, stage: 'a worker' });
    process.kill(pick(pids), 'SIGKILL');
    return true;
  }

  /**
   * Asks it to end.
   *
   * @returns its exit code, or the signal that ended it
   */
  signal(signal: 'SIGTERM' | 'SIGINT'): Promise<number | string> {
    return this.#end(signal);
  }

  /** Asks it to end, and does not wait. */
  terminate(): void {
    if (!this.#app) throw new Error(`${this.name} is not running`);
    process.kill(this.#app.pid, 'SIGTERM');
  }

  freeze(stage: string): void {
    if (!this.#app) throw new Error(`${this.name} is not running`);
    this.#ledger.write({ is: 'blow', blow: 'freeze', node: this.name, stage });
    process.kill(this.#app.pid, 'SIGSTOP');
    this.#frozen = true;
  }

  wake(): void {
    if (this.#app) process.kill(this.#app.pid, 'SIGCONT');
    this.#frozen = false;
  }

  /** Ends it in whatever state it is, at the end of a run. */
  async remove(): Promise<void> {
    if (!this.#app) return;
    this.wake();
    const app = this.#app;
    const killer = setTimeout(() => process.kill(app.pid, 'SIGKILL'), 35_000);
    await this.#end('SIGTERM');
    clearTimeout(killer);
  }

  /** Everything that its processes have logged, one JSON object per line. */
  get logs(): string[] {
    return [...this.#logs, ...(this.#app ? [this.#app.stdout()] : [])].flatMap((text) =>
      text.split('\n').filter(Boolean),
    );
  }

  /** Its output for people so far. */
  get said(): string {
    return this.#app?.stderr() ?? '';
  }

  /** Shifts its clock, if it has its own: see `clock.ts`. */
  setClock(offMs: number): void {
    writeFileSync(this.#env.CHAOS_CLOCK ?? '', String(offMs));
  }

  async #end(signal: NodeJS.Signals): Promise<number | string> {
    const app = this.#app;
    if (!app) throw new Error(`${this.name} is not running`);
    const ending = app.end(signal);
    if (signal === 'SIGKILL') this.#app = null;
    const code = await ending;
    this.#app = null;
    this.#forget();
    this.#logs.push(app.stdout());
    return code;
  }
}

/** The embedded database is a child as well. */
const isWorker = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('main.ts');
