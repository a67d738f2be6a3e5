import { type Config, hasSmtpPort } from '../config.ts';
import * as keys from '../core/accounts/keys.ts';
import { keyringOf } from '../crypto/seal.ts';
import { startEmbedded } from '../db/embedded.ts';
import { embeddedStartFailureOf } from '../db/failure.ts';
import { readProviders } from '../delivery/sites/providers-file.ts';
import { readDashboard } from '../http/dashboard-files.ts';
import { readCertificate } from '../inbound/certificate.ts';
import type { Logger } from '../log.ts';
import { keyringIn, makeDataDir, readSecrets, unusableEmbedded, writeSecrets } from '../process/data-dir.ts';
import type { StopDelay } from '../process/stop-delay.ts';
import type { Stops } from '../process/stops.ts';
import { connectionsOf } from './database.ts';
import { startWorkers } from './first-process.ts';
import { prepareSandbox, showFirstScreen } from './first-screen.ts';
import type { Foundation, SendwrightNode } from './node.ts';

/** The fewest connections of the embedded database, and those kept for others: its superuser, and people who look into it. */
const usualConnections = 200;
const spare = 20;

/** Where a start reports its progress. */
export interface StartOptions {
  log: Logger;
  /** Sentences for the operator: progress, and at the end the first screen. */
  say: (sentence: string) => void;
  /** Called, with a sentence for the operator, when the process cannot go on: the embedded database is lost. */
  onLost?: (reason: string) => void;
  /** Steps that, in reverse order, stop what has been started so far; it grows during the start. */
  stops: Stops;
  /** What the end begins with; none: it begins at once. */
  delay?: StopDelay;
}

/**
 * Starts all that this configuration asks for, on the database that it names or on the embedded one.
 *
 * @throws StartError if the operator has to do something first, or whatever else failed; the caller stops what was started
 */
export async function start(config: Config, options: StartOptions): Promise<void> {
  const { log, say, stops } = options;
  await demandFiles(config);
  const loading = config.workers > 1 ? null : loadNode();
  const { foundation, sandboxKey, explained } = await layGround(config, options);
  if (!loading) {
    const node = await startWorkers(config, foundation, stops).catch(explained);
    await showFirstScreen(config, node, null, say);
    log.info({ ...servedAt(config, node), mode: config.deliveryMode, workers: config.workers }, 'ready');
    return;
  }
  const { startNode } = await loading;
  const node = await startNode(config, { ...foundation, dashboard: await readDashboard() }, stops).catch(explained);
  await showFirstScreen(config, node, await showSandbox(config, node, sandboxKey), say);
  log.info({ ...servedAt(config, node), mode: config.deliveryMode }, 'ready');
}

/** Where the API and the dashboard are, if this process serves them. */
const servedAt = ({ roles }: Config, { baseUrl }: { baseUrl: string }) => (roles.has('api') ? { baseUrl } : {});

/**
 * The code of a node is two thirds of all, and is loaded while PostgreSQL starts. A first process that leaves the work to its
 * workers does without.
 */
function loadNode(): Promise<typeof import('./node.ts')> {
  const loading = import('./node.ts');
  // A start that fails before it needs the code says why.
  loading.catch(() => undefined);
  return loading;
}

/**
 * Files that variables name are checked along with the variables, before anything is begun. What needs them reads them again.
 *
 * @throws StartError
 */
async function demandFiles(config: Config): Promise<void> {
  const { providersFile, smtp, dataDir, mailHostname } = config;
  await readProviders(providersFile);
  if (hasSmtpPort(config) && smtp.tls) await readCertificate({ dataDir, host: mailHostname, files: smtp.tls });
}

interface Ground {
  foundation: Foundation;
  sandboxKey: string | undefined;
  /** Throws the error of a start, with what an operator of this database can do. */
  explained: (error: Error) => never;
}

/** The ground that a node stands on: the named database or the embedded one, and the secrets. */
async function layGround(config: Config, { log, say, onLost, stops, delay }: StartOptions): Promise<Ground> {
  const { databaseUrl, jwtSecret, encryptionKey, nextEncryptionKey, dataDir, roles } = config;
  if (databaseUrl && jwtSecret && encryptionKey) {
    // Only for the journal of deliveries.
    if (roles.has('mta')) await makeDataDir(dataDir);
    const keyring = keyringOf(encryptionKey, nextEncryptionKey);
    const foundation = { databaseUrl, alone: false, jwtSecret, keyring, log, onProgress: say, delay };
    // Nothing here outlives a container: unless the key follows from what does, each start would make another one.
    const explained = (error: Error) => {
      throw error;
    };
    return { foundation, sandboxKey: keys.derived(Buffer.from(jwtSecret)), explained };
  }
  const secrets = await readSecrets(dataDir);
  say('Starting PostgreSQL');
  const settings = { max_connections: String(Math.max(usualConnections, connectionsOf(config.workers) + spare)) };
  const password = secrets.databasePassword;
  const ending = new AbortController();
  const { signal } = ending;
  const starting = startEmbedded({ dataDir, password, log, onProgress: say, onLost, settings, signal }).catch(
    (error: Error) => {
      throw unusableEmbedded(dataDir, error);
    },
  );
  stops.push(() => {
    ending.abort();
    return starting.then(
      (postgres) => postgres.stop(),
      () => undefined,
    );
  });
  const postgres = await starting;
  const foundation = {
    databaseUrl: postgres.url,
    // Workers of a killed process that are still finishing are nodes like any other.
    alone: !postgres.left,
    jwtSecret: jwtSecret ?? secrets.jwtSecret,
    keyring: encryptionKey ? keyringOf(encryptionKey, nextEncryptionKey) : keyringIn(secrets),
    log,
    onProgress: say,
    delay,
  };
  const explained = (error: Error) => {
    throw embeddedStartFailureOf(error, dataDir, postgres.isGone()) ?? error;
  };
  return { foundation, sandboxKey: secrets.sandboxKey, explained };
}

async function showSandbox(config: Config, node: SendwrightNode, known: string | undefined): Promise<string | null> {
  if (config.deliveryMode !== 'sandbox') return null;
  const key = await prepareSandbox(node, known);
  if (key !== known && !config.databaseUrl) {
    await writeSecrets(config.dataDir, { ...(await readSecrets(config.dataDir)), sandboxKey: key });
  }
  return key;
}
