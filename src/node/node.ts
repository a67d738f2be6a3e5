import { addChores } from '../chores/chores.ts';
import { watchMachine } from '../chores/machine.ts';
import type { Config } from '../config.ts';
import type { Surroundings } from '../core/domains/record-checks.ts';
import { FreshBodies } from '../core/emails/fresh-bodies.ts';
import { Statistics } from '../core/log/stats.ts';
import { reportHeld } from '../core/nodes/nodes.ts';
import { watchDepth } from '../core/operations/queue-depth.ts';
import { tokenKeys as readTokenKeys } from '../core/secrets/service-secrets.ts';
import type { Keyring } from '../crypto/seal.ts';
import { watchAnswers } from '../db/answers.ts';
import type { Database } from '../db/client.ts';
import { tellTime } from '../db/clocks.ts';
import { Lease } from '../delivery/claims/lease.ts';
import { siteOf } from '../delivery/sites/providers.ts';
import { readProviders } from '../delivery/sites/providers-file.ts';
import { createApp } from '../http/app.ts';
import type { DashboardFiles } from '../http/dashboard-files.ts';
import { Exports } from '../http/exports.ts';
import { RateLimiter } from '../http/rate-limit.ts';
import type { Services } from '../http/services.ts';
import { ServedCertificate } from '../inbound/served-certificate.ts';
import type { SubmissionServer } from '../inbound/submission.ts';
import type { Logger } from '../log.ts';
import { AccountTurns, type TurnLimits } from '../pace/account-turns.ts';
import { Rounds } from '../pace/rounds.ts';
import { exposition, Metrics } from '../process/metrics.ts';
import { type MetricsServer, openMetrics } from '../process/metrics-port.ts';
import { openAll, TakenPorts } from '../process/start-error.ts';
import { StopDelay } from '../process/stop-delay.ts';
import { Lifetime, type Stops } from '../process/stops.ts';
import type { Queue } from '../queue.ts';
import { type Admin, prepareAdmin } from './admin.ts';
import { openDatabase } from './database.ts';
import { type DispatcherParts, startDispatchers } from './dispatchers.ts';
import { openHttp, openInbound, openSubmission, submissionAddressOf } from './doors.ts';
import { noteHold } from './hold.ts';
import { findInternet, findTlsPolicies, installationOf, lookUpOf, poolsOf, surroundingsOf } from './internet.ts';
import { recoverJournals } from './journals.ts';
import { machineOf } from './machine.ts';
import { type Siblings, shareBuckets } from './siblings.ts';

/** What a node needs besides the configuration: where its database is, and the secrets that may have been generated. */
export interface Foundation {
  databaseUrl: string;
  /** True when no other node can use this database. */
  alone: boolean;
  jwtSecret: string;
  keyring: Keyring;
  log: Logger;
  onProgress?: (sentence: string) => void;
  /** The pages for browsers; none: a browser at the address of the service is told where to begin. */
  dashboard?: DashboardFiles | null;
  /** The other processes of this node, the first of which makes up for those that die; none: it is the only one. */
  siblings?: Siblings;
  /** Ports that the first process found taken: this one names them along with its own, and does not start. */
  taken?: TakenPorts['ports'];
  /** What an end that a signal asks for begins with; none: any end begins at once. */
  delay?: StopDelay | undefined;
}

export interface SendwrightNode {
  baseUrl: string;
  /** The ports for submitting mail; null: not here. */
  submission: SubmissionServer['ports'];
  /** The port for bounces and complaints; null: not here. */
  inbound: number | null;
  db: Database;
  admin: Admin;
  surroundings: Surroundings;
  /** What this process counts. */
  metrics: Metrics;
  /** Takes no new work, finishes or releases what is under way, and closes everything, within 30 seconds. */
  stop(): Promise<void>;
}

/** For the requests and the messages that are being received. */
const graceMs = 5_000;

/** How often a node without a lease, which would tell it, asks what time it is. */
const clockMs = 60_000;

/** How soon a renewed certificate is shown. */
const certificateMs = 10_000;

/** Leaves a moment of the 30 seconds to those who end what the node stands on. */
const stopWithinMs = 28_000;

/**
 * How many of a process's connections slow work has at once, one for each turn. The rest (apart from those of `resends`, in
 * the routes of sending) are for delivery, and for work that is usually short.
 */
const readLimits: TurnLimits = { most: 7, mostOfAccount: 3, mostWaiting: 200, patienceMs: 10_000 };
const commitLimits: TurnLimits = { most: 6, mostOfAccount: 3, mostWaiting: 200, patienceMs: 10_000 };

/**
 * Brings one node up, from the database to the open port, and leaves nothing behind if that fails half way.
 *
 * @param stopsOfProcess gets the node's `stop` at once: a signal may end the node before it is up
 * @throws StartError; or the error of a database that goes away meanwhile
 */
export async function startNode(
  config: Config,
  foundation: Foundation,
  stopsOfProcess: Stops = [],
): Promise<SendwrightNode> {
  const life = new Lifetime(foundation.log, stopWithinMs);
  const stop = () => life.end();
  stopsOfProcess.push(stop);
  try {
    return { ...(await bringUp(config, foundation, life)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function bringUp(config: Config, foundation: Foundation, life: Lifetime): Promise<Omit<SendwrightNode, 'stop'>> {
  const { stops } = life;
  const opened = await openDatabase(config, foundation, life);
  const admin = await prepareAdmin(opened.db, config.admin);
  const parts = await makeParts(config, foundation, opened, life);
  await joinNodes(parts, stops);
  life.goOn();
  opened.db.hurry();
  const { close, ...ports } = await openDoors(parts, stops);
  life.goOn();
  // After the doors: a node whose ports are taken sends nothing.
  await startDispatchers(parts, life);
  life.goOn();
  // Also closed before the dispatchers stop.
  stops.push(close);
  // Nobody could ask whether this node is ready, if it has no API.
  if (config.roles.has('api')) stops.push(() => parts.delay.pass());
  const { db, surroundings, metrics } = parts;
  return { ...ports, db, surroundings, admin, metrics };
}

/** What the dispatchers and the doors of a node are made of. */
interface Parts extends DispatcherParts {
  foundation: Foundation;
  surroundings: Surroundings;
  /** What the end of this node begins with. */
  delay: StopDelay;
}

async function makeParts(
  config: Config,
  foundation: Foundation,
  { db, queue }: { db: Database; queue: Queue },
  life: Lifetime,
): Promise<Parts> {
  const { stops } = life;
  const { log, keyring, siblings } = foundation;
  const metrics = new Metrics();
  metrics.watch({ isUp: watchAnswers(db), depth: watchDepth(db), connections: () => db.connections() });
  const tokenKeys = await readTokenKeys(db, keyring);
  const returnPath = { key: tokenKeys.returnPath, host: config.mailHostname };
  const internet = await findInternet(config, db, log, returnPath, stops);
  const providers = await readProviders(config.providersFile);
  life.goOn();
  const surroundings = surroundingsOf(config, internet, keyring);
  const heldListener = reportHeld(log, queue);
  const lease = new Lease(db, log, {
    roles: [...config.roles],
    tellName: siblings?.tellName,
    processes: siblings && config.roles.has('mta') ? config.workers : 1,
    heldListener,
  });
  const tlsPolicies = findTlsPolicies(config, internet, { db, log, clock: lease.clock }, stops);
  const rounds = new Rounds(log);
  stops.push(() => rounds.stop());
  addChores(rounds, db, surroundings, { isSandbox: config.deliveryMode === 'sandbox', log });
  // With siblings, the first process does this for all.
  if (!siblings) watchMachine(rounds, db, machineOf(config), log);
  return {
    config,
    foundation,
    db,
    queue,
    metrics,
    tokenKeys,
    returnPath,
    internet,
    surroundings,
    tlsPolicies,
    rounds,
    providers,
    lease,
    fresh: new FreshBodies(config.roles.has('mta') ? {} : { room: 0 }),
    delay: foundation.delay ?? new StopDelay(0),
  };
}

/** Takes a lease, without which nothing may be claimed, once everything that must come before is recorded. */
async function joinNodes({ config, foundation, db, queue, rounds, lease }: Parts, stops: Stops): Promise<void> {
  const { log, alone, siblings } = foundation;
  // With siblings, the first process has done this for all.
  if (!siblings) {
    await recoverJournals(config, foundation, { db, queue });
    await noteHold(db, config, log);
  }
  await tellTime(db, lease.clock);
  if (!config.roles.has('mta') && !config.roles.has('webhooks')) {
    rounds.every(clockMs, 'time', () => tellTime(db, lease.clock));
    return;
  }
  const starting = lease.start(alone);
  // A lease that was not taken to the end may stand on the list all the same.
  stops.push(() => Promise.allSettled([starting]).then(() => lease.stop()));
  await starting;
}

async function openDoors(
  parts: Parts,
  stops: Stops,
): Promise<Pick<SendwrightNode, 'baseUrl' | 'submission' | 'inbound'> & { close(): Promise<void> }> {
  const { config, foundation, db, queue, fresh, tokenKeys, internet, rounds } = parts;
  const { log, siblings } = foundation;
  const limiter = new RateLimiter(config.rateLimit);
  if (siblings) shareBuckets(limiter, siblings);
  const commitTurns = new AccountTurns(commitLimits);
  const doors: { close(graceMs: number): Promise<void> }[] = [];
  let isClosed = false;
  const close = once(async () => {
    isClosed = true;
    await Promise.all(doors.map((door) => door.close(graceMs)));
  });
  stops.push(close);
  const kept = async <Door extends (typeof doors)[number] | null>(opening: Promise<Door>): Promise<Door> => {
    const door = await opening;
    if (door) doors.push(door);
    // The node was ended meanwhile, and nobody would close this door.
    if (isClosed) await door?.close(0);
    return door;
  };

  const source = { dataDir: config.dataDir, host: config.mailHostname, files: config.smtp.tls };
  const certificate = new ServedCertificate(source, log);
  const behind = { config, db, queue, fresh, commitTurns, certificate, log };
  const app = config.roles.has('api') ? createApp(servicesOf(parts, limiter, commitTurns)) : null;
  const [inbound, submission, http] = await openAll([
    () => kept(openInbound(behind, tokenKeys)),
    () => kept(openSubmission(behind, limiter)),
    async () => app && kept(openHttp(app, behind)),
    () => kept(openOwnMetrics(parts)),
  ]);
  rounds.every(certificateMs, 'certificate of the SMTP servers', () => certificate.look());
  if (inbound) internet.sendReturnsTo?.({ host: reachable(config.smtp.host), port: inbound.port });
  const baseUrl = http && config.http.port === 0 ? `http://localhost:${http.port}` : config.baseUrl;
  return { baseUrl, submission: submission.ports, inbound: inbound?.port ?? null, close };
}

/** The port for Prometheus; null if this node has none, or its first process has opened it for all. */
async function openOwnMetrics({ config, foundation, metrics }: Parts): Promise<MetricsServer | null> {
  const { siblings, taken = [] } = foundation;
  if (taken.length > 0) throw new TakenPorts(taken);
  if (config.metrics.port === 0 || siblings) return null;
  metrics.watchProcess();
  return openMetrics(config.metrics, async () => exposition([{ name: 'main', measured: await metrics.measure() }]));
}

/** The address at which this process reaches its own port; null, or an address that stands for all: loopback. */
const reachable = (host: string | null) => (host && !/^(?:0\.0\.0\.0|::)$/.test(host) ? host : '127.0.0.1');

function servicesOf(parts: Parts, limiter: RateLimiter, commitTurns: AccountTurns): Services {
  const { config, foundation, internet, providers } = parts;
  const readTurns = new AccountTurns(readLimits);
  return {
    db: parts.db,
    queue: parts.queue,
    fresh: parts.fresh,
    log: foundation.log,
    metrics: parts.metrics,
    jwtSecret: foundation.jwtSecret,
    keyring: foundation.keyring,
    mailHostname: config.mailHostname,
    baseUrl: config.baseUrl,
    submission: submissionAddressOf(config),
    proxies: config.http.proxies,
    surroundings: parts.surroundings,
    sandbox: config.deliveryMode === 'sandbox',
    installation: installationOf(config, internet),
    allowPrivateNetworks: config.allowPrivateNetworks,
    defaultPlan: config.defaultPlan,
    lookUp: lookUpOf(config, internet),
    statistics: new Statistics(
      parts.db,
      readTurns,
      (destination, mxHost) => siteOf(destination, mxHost, providers).name,
    ),
    tlsPolicies: parts.tlsPolicies,
    clock: parts.lease.clock,
    tokenKeys: parts.tokenKeys,
    retryForMs: config.retryForMs,
    sendingPools: poolsOf(config),
    limiter,
    readTurns,
    commitTurns,
    exports: new Exports(),
    isStopping: () => parts.delay.isStopping,
    dashboard: foundation.dashboard ?? null,
  };
}

function once(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () => {
    running ??= work();
    return running;
  };
}
