import { type Config, ConfigError, readConfig } from './config.ts';
import { makeDataDir, readSecrets, unusableDataDir, writeSecrets } from './data-dir.ts';
import { startEmbedded } from './db/embedded.ts';
import { startErrorOf } from './db/failure.ts';
import { firstPassword, firstScreen, prepareSandbox } from './first-screen.ts';
import { createLog, type Logger } from './log.ts';
import { type Foundation, type SendwrightNode, startNode } from './node.ts';
import { oneLine, StartError } from './start-error.ts';

/** Stopping may take this long; what waits for a reply after a final dot is then left, and recorded as uncertain. */
const stopWithinMs = 30_000;

const say = (sentence: string) => process.stderr.write(`${sentence}\n`);

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const log = createLog(config.logLevel);
  const stops: (() => Promise<void>)[] = [];
  const stopping = onSignal(stops, log);
  endWithLauncher();
  try {
    const { foundation, sandboxKey } = await lay(config, log, stops);
    const node = await startNode(config, foundation);
    stops.push(node.stop);
    const key = await showSandbox(config, node, sandboxKey);
    say(firstScreen(config, node, { sandboxKey: key, password: await firstPassword(node, say) }));
    log.info({ baseUrl: node.baseUrl, mode: config.deliveryMode }, 'ready');
  } catch (error) {
    // A signal during the start takes its ground away, and whatever then fails is no error.
    if (stopping()) return;
    for (const stop of stops.toReversed()) await stop();
    throw error;
  }
}

/** The ground that a node stands on: the database that was named or the embedded one, and the secrets. */
async function lay(
  config: Config,
  log: Logger,
  stops: (() => Promise<void>)[],
): Promise<{ foundation: Foundation; sandboxKey: string | undefined }> {
  const { databaseUrl, jwtSecret, encryptionKey, dataDir, roles } = config;
  if (databaseUrl && jwtSecret && encryptionKey) {
    // For the journal of deliveries alone.
    if (roles.has('mta')) await makeDataDir(dataDir);
    const foundation = { databaseUrl, alone: false, jwtSecret, encryptionKey, log, onProgress: say };
    return { foundation, sandboxKey: undefined };
  }
  const secrets = await readSecrets(dataDir);
  say('Starting PostgreSQL');
  const starting = startEmbedded({ dataDir, password: secrets.databasePassword, log, onProgress: say });
  // Before it is up: a signal in the middle of the start takes the server down again.
  stops.push(async () => (await starting).stop());
  const postgres = await starting.catch((error: NodeJS.ErrnoException) => {
    stops.pop();
    // The other errors that it has are one line for the operator already.
    throw error.syscall === undefined ? new StartError(oneLine(error.message)) : unusableDataDir(dataDir, error);
  });
  const foundation = {
    databaseUrl: postgres.url,
    alone: true,
    jwtSecret: jwtSecret ?? secrets.jwtSecret,
    encryptionKey: encryptionKey ?? Buffer.from(secrets.encryptionKey, 'base64'),
    log,
    onProgress: say,
  };
  return { foundation, sandboxKey: secrets.sandboxKey };
}

async function showSandbox(config: Config, node: SendwrightNode, known: string | undefined): Promise<string | null> {
  if (config.deliveryMode !== 'sandbox') return null;
  const key = await prepareSandbox(node, known);
  if (key !== known && !config.databaseUrl) {
    await writeSecrets(config.dataDir, { ...(await readSecrets(config.dataDir)), sandboxKey: key });
  }
  return key;
}

/** Stops on the first signal, in the reverse order of the start; further ones change nothing. */
function onSignal(stops: (() => Promise<void>)[], log: Logger): () => boolean {
  let stopping = false;
  const stop = async (signal: string) => {
    if (stopping) return;
    stopping = true;
    say(`\n${signal}: finishing what is under way`);
    setTimeout(() => {
      log.error('stopping took too long; what was under way is taken up at the next start');
      process.exit(1);
    }, stopWithinMs).unref();
    for (const step of stops.toReversed()) await step();
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
