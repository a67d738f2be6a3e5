import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { addChores } from './chores/chores.ts';
import type { Config } from './config.ts';
import { ensureAdmin } from './core/accounts.ts';
import type { Surroundings } from './core/verification.ts';
import { refuseDatabase } from './db/check.ts';
import { connect, type Database } from './db/client.ts';
import { migrate } from './db/migrate.ts';
import { Dispatcher } from './delivery/dispatch.ts';
import { Journal } from './delivery/journal.ts';
import { Lease } from './delivery/lease.ts';
import { MessageBuilder } from './delivery/message.ts';
import { createRecorder } from './delivery/record.ts';
import { recover } from './delivery/recovery.ts';
import { addUpkeep } from './delivery/upkeep.ts';
import { createApp } from './http/app.ts';
import { RateLimiter } from './http/rate-limit.ts';
import { type HttpServer, listen } from './http/server.ts';
import type { Logger } from './log.ts';
import { createQueue, type Queue } from './queue.ts';
import { Rounds } from './rounds.ts';
import { startSandbox } from './sandbox/sandbox.ts';
import { deriveKey } from './seal.ts';
import { createTransport } from './smtp/deliver.ts';
import { createResolver, type Resolver } from './smtp/resolver.ts';
import { publicSourceAddresses } from './smtp/source.ts';
import { WebhookDispatcher } from './webhooks/dispatch.ts';
import { addUpkeep as addWebhookUpkeep } from './webhooks/upkeep.ts';

/** What a node needs beside the configuration: where its database is, and the secrets that may have been generated. */
export interface Foundation {
  databaseUrl: string;
  /** True when no other node can use this database. */
  alone: boolean;
  jwtSecret: string;
  encryptionKey: Buffer;
  log: Logger;
  onProgress?: (sentence: string) => void;
}

export interface SendwrightNode {
  baseUrl: string;
  db: Database;
  admin: { accountId: string; email: string /** Null when the admin existed already. */; password: string | null };
  surroundings: Surroundings;
  /** Takes no new work, ends or hands back what is under way, and lets everything go. Within 30 seconds. */
  stop(): Promise<void>;
}

/** A start that cannot go on, in one line for the operator. */
export class StartError extends Error {}

const httpGraceMs = 5_000;

/**
 * Brings one node up, from the database to the open port, and leaves nothing behind when that fails half way.
 *
 * @throws StartError
 */
export async function startNode(config: Config, foundation: Foundation): Promise<SendwrightNode> {
  const stops: (() => Promise<unknown>)[] = [];
  const stop = once(async () => {
    for (const step of stops.toReversed()) {
      await step().catch((error: Error) =>
        foundation.log.warn({ error: error.message }, 'a part did not stop cleanly'),
      );
    }
  });
  try {
    return { ...(await bringUp(config, foundation, stops)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

type Stops = (() => Promise<unknown>)[];

async function bringUp(config: Config, foundation: Foundation, stops: Stops): Promise<Omit<SendwrightNode, 'stop'>> {
  const { log, encryptionKey } = foundation;
  const { db, queue } = await openDatabase(config, foundation, stops);
  const password = config.admin.password ?? randomBytes(12).toString('base64url');
  const admin = await ensureAdmin(db, { email: config.admin.email, password });

  const returnPath = { key: deriveKey(encryptionKey, 'return path'), host: config.mailHostname };
  const internet = await findInternet(config, db, log, returnPath, stops);
  const surroundings: Surroundings = {
    resolve: async (name, type) => (await internet.resolver.resolve(name, type)) as unknown[],
    mailHostname: config.mailHostname,
    sendingIps: internet.knownIps,
    encryptionKey,
  };
  const rounds = new Rounds(log);
  stops.push(() => rounds.stop());
  addChores(rounds, db, surroundings, config.deliveryMode === 'sandbox');
  const makesCalls = config.roles.has('mta') || config.roles.has('webhooks');
  const lease = new Lease(db, log, [...config.roles]);
  const journal = { folder: join(config.dataDir, 'journal'), alone: foundation.alone };
  // While the claims of the process that was killed still stand: afterwards they are anybody's.
  if (config.roles.has('mta')) await recover({ db, queue, policy: retryPolicy(config), log }, journal);
  if (makesCalls) {
    await lease.start(foundation.alone);
    stops.push(() => lease.stop());
  }
  const parts = { config, foundation, db, queue, rounds, internet, returnPath, lease, journal };
  const dispatchers: { stop(): Promise<void> }[] = [];
  if (config.roles.has('mta')) dispatchers.push(startDelivery(parts, stops));
  if (config.roles.has('webhooks')) dispatchers.push(startWebhooks(parts));
  // At the same time: each may need most of the time that there is.
  stops.push(() => Promise.all(dispatchers.map((dispatcher) => dispatcher.stop())));

  let baseUrl = config.baseUrl;
  if (config.roles.has('api')) {
    const services = {
      db,
      queue,
      log,
      jwtSecret: foundation.jwtSecret,
      encryptionKey,
      mailHostname: config.mailHostname,
      baseUrl,
      proxies: config.http.proxies,
      surroundings,
      sandbox: config.deliveryMode === 'sandbox',
      allowPrivateNetworks: config.allowPrivateNetworks,
      defaultPlan: config.defaultPlan,
      lookUp: {
        resolver: internet.resolver,
        ownHosts: [config.mailHostname],
        ownAddresses: internet.knownIps,
        allowPrivate: internet.allowPrivate,
      },
      returnPathKey: returnPath.key,
      retryForMs: config.retryForMs,
      limiter: new RateLimiter(config.rateLimit),
    };
    const server = await openPort(createApp(services), config);
    stops.push(() => server.close(httpGraceMs));
    if (config.http.port === 0) baseUrl = `http://localhost:${server.port}`;
  }
  return { baseUrl, db, surroundings, admin: { ...admin, password: admin.created ? password : null } };
}

async function openDatabase(
  config: Config,
  foundation: Foundation,
  stops: Stops,
): Promise<{ db: Database; queue: Queue }> {
  const { databaseUrl, log, onProgress } = foundation;
  const db = connect(databaseUrl, log);
  stops.push(() => db.close());
  const refusal = await refuseDatabase(db, config.allowUnsafeDatabase).catch((error: Error) => {
    throw new StartError(`the database cannot be reached (${error.message || 'no answer'}): check DATABASE_URL`);
  });
  if (refusal) throw new StartError(refusal);
  onProgress?.('Preparing the schema');
  await migrate(databaseUrl);
  const queue = createQueue(databaseUrl, log);
  stops.push(() => queue.stop());
  await queue.start();
  return { db, queue };
}

/** Where names are looked up and mail goes: the sandbox's own internet, or the real one. */
interface Internet {
  resolver: Resolver;
  mxPort: number;
  allowPrivate: boolean;
  /** Public addresses that mail leaves from, as far as they are known. */
  knownIps: string[];
}

async function findInternet(
  config: Config,
  db: Database,
  log: Logger,
  returnPath: { key: Buffer; host: string },
  stops: Stops,
): Promise<Internet> {
  if (config.deliveryMode === 'direct') {
    return {
      resolver: createResolver(config.dnsServers),
      mxPort: config.mxPort,
      allowPrivate: config.allowPrivateNetworks,
      knownIps: config.sendingIps.length > 0 ? config.sendingIps : await publicSourceAddresses(),
    };
  }
  const sandbox = await startSandbox({ db, log, returnPath, mailHostname: config.mailHostname });
  stops.push(() => sandbox.stop());
  return { resolver: sandbox.resolver, mxPort: sandbox.mxPort, allowPrivate: true, knownIps: [] };
}

interface Parts {
  config: Config;
  foundation: Foundation;
  db: Database;
  queue: Queue;
  rounds: Rounds;
  internet: Internet;
  returnPath: { key: Buffer; host: string };
  lease: Lease;
  journal: { folder: string };
}

const retryPolicy = (config: Config) => ({ scheduleMs: config.retryScheduleMs, forMs: config.retryForMs });

function startDelivery(parts: Parts, stops: Stops): Dispatcher {
  const { config, foundation, db, queue, rounds, internet, returnPath, lease } = parts;
  const { log } = foundation;
  const transport = createTransport({
    resolver: internet.resolver,
    ehloName: config.mailHostname,
    mxPort: internet.mxPort,
    allowPrivate: internet.allowPrivate,
    sendingIps: config.deliveryMode === 'direct' ? config.sendingIps : [],
    ownAddresses: internet.knownIps,
    log,
  });
  stops.push(() => transport.close());
  const journal = new Journal(parts.journal.folder, log);
  stops.push(async () => journal.close());
  const tools = {
    transport,
    messages: new MessageBuilder(foundation.encryptionKey),
    lease,
    journal,
    policy: retryPolicy(config),
    returnPath,
    log,
  };
  const dispatcher = new Dispatcher(db, queue, tools, createRecorder(db, queue, log));
  dispatcher.start();
  addUpkeep(rounds, db, queue, log);
  return dispatcher;
}

function startWebhooks({ config, foundation, db, queue, rounds, lease }: Parts): WebhookDispatcher {
  const { log, encryptionKey } = foundation;
  // The sandbox's DNS knows mail and nothing else; endpoints are where they are in either mode.
  const poster = { resolver: createResolver(config.dnsServers), allowPrivate: config.allowPrivateNetworks };
  const dispatcher = new WebhookDispatcher(db, queue, { poster, encryptionKey, lease, log });
  dispatcher.start();
  addWebhookUpkeep(rounds, db, queue, log);
  return dispatcher;
}

async function openPort(app: ReturnType<typeof createApp>, config: Config): Promise<HttpServer> {
  try {
    return await listen(app, config.http.host, config.http.port);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const { host, port } = config.http;
    if (code === 'EADDRINUSE')
      throw new StartError(`HTTP_PORT ${port} is in use by another program: stop it, or set HTTP_PORT to a free one`);
    if (code === 'EACCES')
      throw new StartError(`HTTP_PORT ${port} needs more rights than this user has: set HTTP_PORT to 1024 or more`);
    throw new StartError(`HTTP_HOST ${host} cannot be listened on (${message})`);
  }
}

function once(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () => {
    running ??= work();
    return running;
  };
}
