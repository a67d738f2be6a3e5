import cluster, { type Worker } from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import { isUnavailable } from '../db/errors.ts';
import type { Logger } from '../log.ts';
import { within } from '../pace/within.ts';
import type { Measured } from '../process/metrics.ts';
import { StartError, TakenPorts } from '../process/start-error.ts';
import { Trouble } from '../trouble.ts';
import { watchHandOvers } from './hand-overs.ts';
import type { SendwrightNode } from './node.ts';
import type { FromWorker, Ground, ToWorker } from './worker.ts';

/** A worker stops by itself within 30 seconds. */
const stopWithinMs = 31_000;

/** How long what dead workers left may then take: after that the first process says goodbye to the database. */
const settleMs = 2_000;

/** Pauses before a worker that ended is restarted: short at first, and longer and longer while that does not help. */
const firstPauseMs = 100;
const longestPauseMs = 30_000;
const healthyAfterMs = 60_000;

/** Between two attempts to make up for a worker: nodes that were away as well wait 30 s before they take others for dead. */
const longestMakingUpPauseMs = 2_000;

/** A worker that is busy for longer is left out of what Prometheus reads. */
const measureMs = 5_000;

const exitWith = (code: number) => `exit code ${code}`;

/** How a worker ends that has recorded what it did and freed what it had not begun. */
const inGoodOrder = exitWith(0);

/** Where all of them can be reached. */
export type Ports = Pick<SendwrightNode, 'baseUrl' | 'submission' | 'inbound'>;

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

/** The processes that do the work: started, kept running, asked and told, and stopped. */
export class Workers {
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

  /**
   * Lets all of them finish what is under way; those that take too long are killed. What one that did not end by itself had in
   * hand is recorded and freed here as well: until the next start nobody else reads its journal, and other nodes would send again.
   *
   * @param isUrgent aborted once they are to do without `STOP_DELAY`, as each does when it is told by hand
   */
  async stop(isUrgent?: AbortSignal): Promise<void> {
    const { log } = this.#options;
    this.#stopping.abort();
    const all = [...this.#running];
    const tellAll = (signal: NodeJS.Signals) => {
      for (const { worker } of all) worker.process.kill(signal);
    };
    tellAll(isUrgent?.aborted ? 'SIGINT' : 'SIGTERM');
    isUrgent?.addEventListener('abort', () => tellAll('SIGINT'));
    const enough = setTimeout(() => {
      for (const { worker } of this.#running) {
        log.error({ worker: worker.id }, 'a worker takes too long to stop: it is killed');
        worker.process.kill('SIGKILL');
      }
    }, stopWithinMs);
    const late = sleep(stopWithinMs + settleMs, undefined, { ref: false });
    await Promise.all(all.map((running) => this.#settle(running)));
    clearTimeout(enough);
    await Promise.race([this.#makingUp, late]);
  }

  /** Waits for the end of a worker that was told to stop, and makes up for it unless it has done all that itself. */
  async #settle(running: Running): Promise<void> {
    const how = await running.ended;
    // Its start fails in words of its own, or was stopped before there was anything to stop.
    const wasReady = await running.ready.then(
      () => true,
      () => false,
    );
    if (how === inGoodOrder || !wasReady) return;
    this.#options.log.error({ worker: running.worker.id, ended: how }, 'a worker has ended before it had stopped');
    void this.#makeUpFor(running);
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
      const measured = await within(measureMs, answer, null);
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
        const fields = { worker: running.worker.id, ended: how, pauseMs };
        // It was told to stop, by an operator or by the system, and did.
        if (how === inGoodOrder) log.warn(fields, 'a worker has ended; starting another one');
        else log.error(fields, 'a worker has ended; starting another one');
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
    return running;
  }

  /** Listens to a worker until it ends. */
  #hear(worker: Worker): Running {
    const names = new Set<string>();
    const asked: Running['asked'] = new Map();
    const ended = new Promise<string>((resolve) => {
      worker.once('exit', (code, signal) => resolve(signal ?? exitWith(code)));
    });
    const ready = new Promise<Ports>((resolve, reject) => {
      worker.on('message', (message: FromWorker) => {
        if (message.kind === 'listening') tell(worker, this.#options.ground);
        else if (message.kind === 'name') names.add(message.nodeId);
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
