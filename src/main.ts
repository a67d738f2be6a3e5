import cluster from 'node:cluster';
import { ConfigError, readConfig } from './config.ts';
import { startErrorOf } from './db/failure.ts';
import { createLog, type Logger } from './log.ts';
import { start } from './start.ts';
import { type Stops, stopAll } from './stops.ts';
import { runWorker } from './worker.ts';

/** Stopping may take this long; what waits for a reply after a final dot is then left, and recorded as uncertain. */
const stopWithinMs = 30_000;

/** And this much longer where it is workers that stop, each within that time. */
const stopWorkersMs = 2_000;

const say = (sentence: string) => process.stderr.write(`${sentence}\n`);

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const { worker } = cluster;
  const log = createLog(config.logLevel, process.stdout, worker ? { worker: worker.id } : null);
  const stops: Stops = [];
  if (worker) {
    onSignal(stops, log, stopWithinMs);
    return runWorker(config, log, stops);
  }
  const stopping = onSignal(stops, log, stopWithinMs + (config.workers > 1 ? stopWorkersMs : 0));
  endWithLauncher();
  await start(config, { log, say, stops }).catch(async (error: Error) => {
    // A signal during the start takes its ground away, and whatever then fails is no error.
    if (stopping()) return;
    await stopAll(stops);
    throw error;
  });
}

/** Stops on the first signal, in the reverse order of the start; further ones change nothing. */
function onSignal(stops: Stops, log: Logger, withinMs: number): () => boolean {
  let stopping = false;
  const stop = async (signal: string) => {
    if (stopping) return;
    stopping = true;
    if (cluster.isPrimary) say(`\n${signal}: finishing what is under way`);
    setTimeout(() => {
      log.error('stopping took too long; what was under way is taken up at the next start');
      process.exit(1);
    }, withinMs).unref();
    await stopAll(stops);
    process.exit(0);
  };
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => {
      stop(signal).catch((error: Error) => {
        log.error({ error: error.stack }, 'stopping failed');
        process.exit(1);
      });
    });
  }
  return () => stopping;
}

const launcherMs = 1_000;

/** Where `npm start` runs this: once its launcher was killed, no Ctrl-C reaches this process, and the next start would find it in the way. */
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
