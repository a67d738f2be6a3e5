import cluster, { type Worker } from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import { watchMachine } from '../chores/machine.ts';
import type { Config } from '../config.ts';
import * as nodes from '../core/nodes/nodes.ts';
import { isUnavailable } from '../db/errors.ts';
import type { Logger } from '../log.ts';
import { Rounds } from '../pace/rounds.ts';
import { exposition, type Measured } from '../process/metrics.ts';
import { openMetrics } from '../process/metrics-port.ts';
import { StartError, TakenPorts } from '../process/start-error.ts';
import { keep, Lifetime, type Stops } from '../process/stops.ts';
import { Trouble } from '../trouble.ts';
import { prepareAdmin } from './admin.ts';
import { connectionsOf, openDatabase, poolOfFirst } from './database.ts';
import { noteHold } from './hold.ts';
import { recoverJournals } from './journals.ts';
import { machineOf } from './machine.ts';
import type { Foundation, SendwrightNode } from './node.ts';
import type { FromWorker, Ground, ToWorker } from './worker.ts';

/** A worker stops by itself within 30 seconds. */
const stopWithinMs = 31_000;

/** Pauses before a worker that ended is restarted: short at first, and longer and longer while that does not help. */
const firstPauseMs = 100;
const longestPauseMs = 30_000;
const healthyAfterMs = 60_000;

/** Between two attempts to make up for a worker: nodes that were away as well wait 30 s before they take others for dead. */
const longestMakingUpPauseMs = 2_000;

/** Then there is nothing under way, and the first process only has to say goodbye to the database. */
const goodbyeMs = 1_500;

/** A worker that is busy for longer is left out of what Prometheus reads. */
const measureMs = 5_000;

type Ports = Pick<SendwrightNode, 'baseUrl' | 'submission' | 'inbound'>;

/**
 * Starts `WORKERS` processes that each do the work of a node, and does what is done once: the schema, the first admin, a look
 * at the machine now and then, and making up for a process that dies. Incoming connections go to each of them in turn.
 *
 * @param stops the steps that stop it all; it grows during the start
 * @throws StartError; the caller stops what had been started
 */
export async function startWorkers(
  config: Config,
  foundation: Foundation,
  stops: Stops,
): Promise<Ports & Pick<SendwrightNode, 'db' | 'admin'>> {
  const { databaseUrl, jwtSecret, keyring, log } = foundation;
  const connections = { pool: poolOfFirst, needed: connectionsOf(config.workers) };
  const life = new Lifetime(log, goodbyeMs);
  stops.push(() => life.end());
  const opened = await openDatabase({ ...foundation, allowUnsafe: config.allowUnsafeDatabase, connections }, life);
  const { db } = opened;
  const listener = nodes.reportHeld(log, opened.queue);
  const admin = await prepareAdmin(db, config.admin);
  await recoverJournals(config, foundation, opened);
  await noteHold(db, config, log);
  if (foundation.alone) await nodes.removeAll(db, listener);
  life.goOn();
  db.hurry();
  const rounds = new Rounds(log);
  life.stops.push(() => rounds.stop());
  watchMachine(rounds, db, machineOf(config), log);
  const ground: Ground = {
    kind: 'ground',
    databaseUrl: named(databaseUrl),
    jwtSecret,
    encryptionKeys: keyring.all.map(({ key }) => key.toString('base64')),
    taken: [],
  };
  const makeUpFor = async (names: string[]) => {
    await recoverJournals(config, { alone: false, log }, opened);
    for (const name of names) await nodes.removeCrashed(db, name, listener);
  };
  const workers = new Workers({ ground, makeUpFor, log });
  stops.push(() => workers.stop());
  ground.taken = await openMetricsOf(workers, config, stops);
  life.goOn();
  return { ...(await workers.start(config.workers)), db, admin };
}

/**
 * Opens the port for Prometheus, if there is to be one, before any worker sends something.
 *
 * @returns that port if it is taken: the workers name it along with theirs
 */
async function openMetricsOf(workers: Workers, { metrics }: Config, stops: Stops): Promise<TakenPorts['ports']> {
  if (metrics.port === 0) return [];
  try {
    await keep(
      stops,
      openMetrics(metrics, async () => exposition(await workers.measure())),
      (door) => door.close(),
    );
    return [];
  } catch (error) {
    if (error instanceof TakenPorts) return error.ports;
    throw error;
  }
}

/** Sessions of workers are recognized by their name: see `EmbeddedPostgres.left`. */
function named(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  if (!url.searchParams.has('application_name')) url.searchParams.set('application_name', 'sendwright worker');
  return url.href;
}

interface Running {
  worker: Worker;
  startedAt: number;
  /** Its names in the list of nodes, present and past. */
  names: Set<string>;
  /** Rejects if it ends before it is ready. */
  ready: Promise<Ports>;
  /** Questions that it has not answered yet. */
  asked: Map<number, (measured: Measured) => void>;
  /** How it ended, in words. */
  ended: Promise<string>;
}

interface WorkersOptions {
  ground: Ground;
  /** Records what a dead worker knew, and frees its claims under these names. */
  makeUpFor: (names: string[]) => Promise<void>;
  log: Logger;
}

class Workers {
  readonly #options: WorkersOptions;
  readonly #running = new Set<Running>();
  readonly #stopping = new AbortController();
  #makingUp: Promise<void> = Promise.resolve();
  #questions = 0;

  constructor(options: WorkersOptions) {
    this.#options = options;
    cluster.schedulingPolicy = cluster.SCHED_RR;
  }

  /** Starts this many, and keeps them running from then on. */
  async start(count: number): Promise<Ports> {
    const all = Array.from({ length: count }, () => this.#fork());
    const [ports] = await Promise.all(all.map(({ ready }) => ready));
    for (const running of all) void this.#keepRunning(running);
    if (!ports) throw new Error('no worker was requested');
    return ports;
  }

  /** Lets all of them finish what is under way; those that take too long are killed. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    const all = [...this.#running];
    for (const { worker } of all) worker.process.kill('SIGTERM');
    const enough = setTimeout(() => {
      for (const { worker } of this.#running) worker.process.kill('SIGKILL');
    }, stopWithinMs);
    await Promise.all(all.map(({ ended }) => ended));
    clearTimeout(enough);
    await this.#makingUp;
  }

  /**
   * What each worker counts, by the number that its log lines have too; one that does not answer in time is left out.
   *
   * @throws Error if none does, as while they start
   */
  async measure(): Promise<{ name: string; measured: Measured }[]> {
    const answers = [...this.#running].map(async ({ worker, asked }) => {
      const question = ++this.#questions;
      const answer = new Promise<Measured>((resolve) => asked.set(question, resolve));
      tell(worker, { kind: 'measure', question });
      const measured = await Promise.race([answer, sleep(measureMs, null, { ref: false })]);
      asked.delete(question);
      return measured === null ? [] : [{ name: String(worker.id), measured }];
    });
    const measured = (await Promise.all(answers)).flat();
    if (measured.length === 0) throw new Error('no worker answers');
    return measured;
  }

  async #keepRunning(first: Running): Promise<void> {
    const { log } = this.#options;
    const { signal } = this.#stopping;
    let running: Running | null = first;
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      if (running) {
        const how = await running.ended;
        if (signal.aborted) return;
        if (performance.now() - running.startedAt > healthyAfterMs) pauseMs = firstPauseMs;
        log.error({ worker: running.worker.id, ended: how, pauseMs }, 'a worker has ended; starting another one');
        await this.#makeUpFor(running);
      }
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      running = this.#forkAgain();
    }
  }

  /** Null if the system has no room for a process now: the other workers go on meanwhile. */
  #forkAgain(): Running | null {
    const failed = ({ message }: Error) => this.#options.log.error({ error: message }, 'a worker could not be started');
    try {
      const running = this.#fork();
      running.ready.catch(failed);
      return running;
    } catch (error) {
      failed(error as Error);
      return null;
    }
  }

  /** One after the other: what dead processes left in DATA_DIR must not be read twice at once. */
  #makeUpFor({ names }: Running): Promise<void> {
    this.#makingUp = this.#makingUp.then(() => this.#makeUpWithRetries([...names]));
    return this.#makingUp;
  }

  /**
   * While the database is away it is tried again, and no worker takes the place: if the claims were freed before anybody has
   * read the journal, mail that has arrived would be sent again.
   */
  async #makeUpWithRetries(names: string[]): Promise<void> {
    const { makeUpFor, log } = this.#options;
    const { signal } = this.#stopping;
    const waiting = new Trouble(log, { failing: 'the recovery of a dead worker waits for the database' });
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestMakingUpPauseMs)) {
      try {
        return await makeUpFor(names);
      } catch (error) {
        if (!isUnavailable(error)) {
          const fields = { error: (error as Error).message };
          log.warn(fields, 'the claims of a dead worker could not be released; other nodes will release them');
          return;
        }
        waiting.failed(error as Error);
      }
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
    }
  }

  /** @throws Error if there is no process, as when memory or descriptors are used up */
  #fork(): Running {
    const worker = cluster.fork();
    // Node also reports here that a worker that has just died did not get a message; its end is what counts.
    worker.on('error', (error) =>
      this.#options.log.warn({ worker: worker.id, error: error.message }, 'a worker could not be created or reached'),
    );
    if (worker.process.pid === undefined) throw new Error('the system cannot create a process');
    const running = this.#hear(worker);
    this.#running.add(running);
    void running.ended.then(() => this.#running.delete(running));
    watchHandOvers(worker, running.ended);
    tell(worker, this.#options.ground);
    return running;
  }

  /** Listens to a worker until it ends. */
  #hear(worker: Worker): Running {
    const names = new Set<string>();
    const asked: Running['asked'] = new Map();
    const ended = new Promise<string>((resolve) => {
      worker.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
    });
    const ready = new Promise<Ports>((resolve, reject) => {
      worker.on('message', (message: FromWorker) => {
        if (message.kind === 'name') names.add(message.nodeId);
        else if (message.kind === 'news') this.#tellOthers(worker, message);
        else if (message.kind === 'measured') asked.get(message.question)?.(message.measured);
        else if (message.kind === 'ready') resolve(message);
        else reject(failureOf(message));
      });
      void ended.then((how) => reject(new Error(`a worker ended during its start: ${how}`)));
    });
    // If another one could not be made, nobody waits for this one any more.
    ready.catch(() => undefined);
    return { worker, startedAt: performance.now(), names, ready, asked, ended };
  }

  #tellOthers(teller: Worker, message: ToWorker): void {
    for (const { worker } of this.#running) if (worker !== teller) tell(worker, message);
  }
}

function failureOf({ message, expected, taken }: Extract<FromWorker, { kind: 'failed' }>): Error {
  if (taken.length > 0) return new TakenPorts(taken);
  return expected ? new StartError(message) : new Error(message);
}

/** A worker that has just died hears nothing, and its end is dealt with elsewhere. */
function tell(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.process.send?.(message, undefined, undefined, () => undefined);
}

/** A connection, which a port of this process has accepted. */
interface Connection {
  close(): void;
}

/** Node's own message with which a port hands a connection to a worker. */
interface HandOver {
  cmd?: string;
  act?: string;
  /** The key of the port, which hands a worker the next connection only after the answer to the last. */
  key?: string;
  /** What the answer to this message refers to. */
  seq?: number;
}

/** A worker without a free descriptor gets no connection for this time: it would take them all in vain. */
const fullMs = 100;

/**
 * Makes up for what Node does not do, and has no event for, so that its messages are watched.
 *
 * It keeps its own end of a connection open until the worker answers that it has taken it. If the worker dies before that, the
 * client would wait for as long as it likes, and the descriptor would stay open.
 *
 * A worker that has no free descriptor does not get the connection and gives no such answer: the port would wait for it for
 * ever, with each worker to which that has happened, also once they have room again.
 */
function watchHandOvers({ process: child }: Worker, ended: Promise<unknown>): void {
  const lastOfPort = new Map<string | undefined, Connection>();
  /** Handed over in this order, and not known to have arrived. */
  const underWay: HandOver[] = [];
  let isGone = false;
  const send = child.send.bind(child) as (...all: unknown[]) => boolean;
  const sendAndNote = (message: HandOver, connection?: Connection, ...rest: unknown[]) => {
    if (connection) underWay.push(message);
    if (message.act === 'newconn' && connection) lastOfPort.set(message.key, connection);
    return send(message, connection, ...rest);
  };
  child.send = sendAndNote as typeof child.send;
  child.on('internalMessage', ({ cmd }: HandOver) => {
    if (cmd !== 'NODE_HANDLE_ACK' && cmd !== 'NODE_HANDLE_NACK') return;
    const { act, seq } = underWay.shift() ?? {};
    if (cmd === 'NODE_HANDLE_ACK' || act !== 'newconn') return;
    setTimeout(() => {
      // As if the worker had refused the connection: the port gives it to another one, or to this one again.
      if (!isGone) child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: seq, accepted: false });
    }, fullMs);
  });
  void ended.then(() => {
    isGone = true;
    // Most of them were taken, and are closed: closing those again does nothing.
    for (const connection of lastOfPort.values()) connection.close();
  });
}
