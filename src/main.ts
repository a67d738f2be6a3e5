import cluster from 'node:cluster';
import { ConfigError } from './config/environment.ts';
import { readConfig } from './config.ts';
import { isUnavailable } from './db/errors.ts';
import { startErrorOf } from './db/failure.ts';
import { createLog, type Logger } from './log.ts';
import { watchOpenFiles } from './process/open-files.ts';
import { StopDelay } from './process/stop-delay.ts';
import { type Stops, stopAll } from './process/stops.ts';

/** Stopping may take this long; a message that still awaits the reply to its final dot is then left, as uncertain. */
const stopWithinMs = 30_000;

/** The time on top of that for a node of workers: each of them stops within that time or is killed, and what it had in hand is recorded. */
const stopWorkersMs = 5_000;

const remindEveryMs = 1_000;

const say = (sentence: string) => process.stderr.write(`${sentence}\n`);
// Where it goes to may be a file on a full disk.
process.stderr.on('error', () => undefined);

/** What the process is to be for loads its own code, once the configuration and the signals are dealt with. */
async function main(): Promise<void> {
  const config = readConfig(process.env);
  const { worker } = cluster;
  const base = worker ? { worker: worker.id } : null;
  const log = createLog(config.logLevel, process.stdout, { base, journalStream: process.env.JOURNAL_STREAM });
  watchOpenFiles(log);
  const stops: Stops = [];
  const hasWorkers = !worker && config.workers > 1;
  const delay = new StopDelay(config.stopDelayMs);
  const ending = new Ending(stops, delay, log, stopWithinMs + (hasWorkers ? stopWorkersMs : 0));
  onSignal(ending);
  onUnread(ending);
  if (worker) {
    const { runWorker } = await import('./node/worker.ts');
    return runWorker(config, { log, stops, delay, isEnding: () => ending.isBegun });
  }
  endWithLauncher();
  const onLost = (reason: string) => ending.begin('the database is lost', reason);
  const { start } = await import('./node/start.ts');
  await start(config, { log, say, onLost, stops, delay }).catch(async (error: Error) => {
    // An end during the start takes its ground away: whatever fails then is no error.
    if (ending.isBegun) return;
    // Whatever fails then, the operator needs to know why the start did.
    await stopAll(stops).catch((failure: Error) => log.error({ error: failure.stack }, 'stopping failed'));
    throw error;
  });
}

/** Ends the process, once: stops what was started, in the reverse order. */
class Ending {
  readonly #stops: Stops;
  readonly #delay: StopDelay;
  readonly #log: Logger;
  readonly #withinMs: number;
  isBegun = false;
  #endsBy = 0;
  #saidAt = 0;

  constructor(stops: Stops, delay: StopDelay, log: Logger, withinMs: number) {
    this.#stops = stops;
    this.#delay = delay;
    this.#log = log;
    this.#withinMs = withinMs;
  }

  /** @param failure what the operator reads last, if nobody asked for this end: a supervisor is to start the process again */
  begin(why: string, failure?: string): void {
    if (this.isBegun) return;
    this.isBegun = true;
    // Whoever pressed Ctrl-C waits for the end.
    if (why !== 'SIGTERM') this.#delay.cut();
    this.#endsBy = performance.now() + this.#withinMs;
    this.#saidAt = performance.now();
    const first = this.#delay.isAhead ? `the ports close in ${this.#delay.ms / 1_000} s; then ` : '';
    if (cluster.isPrimary) say(`\n${why}: ${first}finishing the work in progress`);
    const exit = (code: number) => {
      if (failure) say(`sendwright: ${failure}`);
      process.exit(failure ? 1 : code);
    };
    setTimeout(() => {
      this.#log.error('stopping took too long; the next start continues the unfinished work');
      exit(1);
    }, this.#withinMs).unref();
    stopAll(this.#stops).then(
      () => exit(0),
      (error: Error) => {
        // Without the database, the steps that say goodbye to it fail.
        if (!failure || !isUnavailable(error)) this.#log.error({ error: error.stack }, 'stopping failed');
        exit(1);
      },
    );
  }

  /** Waits for nobody any more, and says how long the end takes. One signal may come as several, so not at once after `begin`. */
  remind(): void {
    const now = performance.now();
    if (now - this.#saidAt < remindEveryMs) return;
    this.#saidAt = now;
    this.#delay.cut();
    if (!cluster.isPrimary) return;
    say(`\nstill finishing: this ends within ${Math.max(1, Math.ceil((this.#endsBy - now) / 1_000))} s`);
  }
}

/** The first signal ends the process; further ones only ask how long that takes, and end its delay. */
function onSignal(ending: Ending): void {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => {
      if (ending.isBegun) ending.remind();
      else ending.begin(signal);
    });
}

/** As after Ctrl-C, which ends all of `npm start | tee log`, or when a supervisor's part for logs has died. */
function onUnread(ending: Ending): void {
  process.stdout.on('error', () =>
    ending.begin('nobody reads the log', 'what read the log has ended: start it again, and Sendwright'),
  );
}

const launcherMs = 1_000;

/** For `npm start`: once its launcher is killed, no Ctrl-C reaches this process, and it would block the next start. */
function endWithLauncher(): void {
  const launcher = Number(process.env.SENDWRIGHT_LAUNCHER);
  if (process.ppid !== launcher) return;
  setInterval(() => {
    if (process.ppid !== launcher) process.kill(process.pid, 'SIGTERM');
  }, launcherMs).unref();
}

main().catch((error: Error) => {
  const expected = error instanceof ConfigError ? error : startErrorOf(error);
  say(`sendwright: ${expected?.message ?? error.stack}`);
  process.exit(1);
});
