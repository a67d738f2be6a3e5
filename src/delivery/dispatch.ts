import { setTimeout as sleep } from 'node:timers/promises';
import * as outgoing from '../core/outgoing.ts';
import type { Claim } from '../core/recipients.ts';
import * as recipients from '../core/recipients.ts';
import type { Database } from '../db/client.ts';
import type { Queue } from '../queue.ts';
import { type AttemptTools, attempt } from './attempt.ts';
import type { Recorder } from './record.ts';

/** How much a node does at once. */
export interface Limits {
  /** Attempts under way. */
  running: number;
  /** Attempts under way to one destination, each on a connection of its own. */
  perDestination: number;
  /** Claims held in all, running or waiting for their destination; one that waits is ids and addresses only. */
  held: number;
}

export const defaultLimits: Limits = { running: 200, perDestination: 20, held: 10_000 };

const batchSize = 100;
const pollEveryMs = 1_000;

/** Time for attempts under way to end by themselves on shutdown; then they are ended. */
const drainMs = 20_000;

/**
 * Takes jobs in batches and starts an attempt for each as soon as its destination has room. Destinations that have work
 * waiting here already are left in the queue, so a slow one holds neither a batch nor a slot that another could use.
 */
export class Dispatcher {
  readonly #db: Database;
  readonly #queue: Queue;
  readonly #tools: AttemptTools;
  readonly #recorder: Recorder;
  readonly #limits: Limits;
  readonly #running = new Map<string, number>();
  readonly #waiting = new Map<string, Claim[]>();
  readonly #held = new Set<Claim>();
  readonly #abort = new AbortController();
  #runningCount = 0;
  #ready: Claim[] = [];
  #loading = false;
  #pumping = false;
  #pumpAgain = false;
  #stopping = false;
  #timer: NodeJS.Timeout | undefined;
  #unsubscribe: () => void = () => undefined;
  #idle: (() => void) | undefined;

  constructor(db: Database, queue: Queue, tools: AttemptTools, recorder: Recorder, limits: Limits = defaultLimits) {
    this.#db = db;
    this.#queue = queue;
    this.#tools = tools;
    this.#recorder = recorder;
    this.#limits = limits;
  }

  start(): void {
    this.#unsubscribe = this.#queue.onWake(() => this.#pump());
    this.#timer = setInterval(() => this.#pump(), pollEveryMs);
    this.#pump();
  }

  /** Takes no new work, hands back what has not begun, and waits for what has: at most about 25 seconds. */
  async stop(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#timer);
    this.#unsubscribe();
    const untouched = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    for (const claim of untouched) this.#held.delete(claim);
    await recipients.release(this.#db, this.#queue, untouched).catch((error: Error) => {
      this.#tools.log.warn({ error: error.message }, 'claims could not be handed back; others will take them over');
    });
    const ender = setTimeout(() => this.#abort.abort(), drainMs);
    this.#recorder.giveUpAfter(drainMs);
    await this.#untilIdle();
    clearTimeout(ender);
  }

  #untilIdle(): Promise<void> {
    return new Promise((resolve) => {
      this.#idle = resolve;
      this.#checkIdle();
    });
  }

  #checkIdle(): void {
    if (this.#stopping && this.#held.size === 0 && !this.#pumping) this.#idle?.();
  }

  #pump(): void {
    this.#pumpAgain = true;
    if (this.#pumping || this.#stopping) return;
    this.#pumping = true;
    void this.#takeAll()
      .catch((error: Error) => this.#tools.log.warn({ error: error.message }, 'no jobs could be taken; trying again'))
      .finally(() => {
        this.#pumping = false;
        this.#checkIdle();
      });
  }

  async #takeAll(): Promise<void> {
    while (this.#pumpAgain && !this.#stopping) {
      this.#pumpAgain = false;
      const room = Math.min(
        batchSize,
        this.#limits.held - this.#held.size,
        2 * this.#limits.running - this.#runningCount,
      );
      if (room <= 0 || !this.#tools.lease.valid()) return;
      const taken = await this.#take(room);
      if (taken > 0) this.#pumpAgain = true;
    }
  }

  /** Taking and claiming are one transaction: a job is never active without a living node holding its recipients. */
  async #take(limit: number): Promise<number> {
    const nodeId = this.#tools.lease.nodeId;
    const { taken, claims } = await this.#db.transaction(async (tx) => {
      const jobs = await this.#queue.take(tx, limit, [...this.#waiting.keys()]);
      if (jobs.length === 0) return { taken: 0, claims: [] };
      const claims = await recipients.claim(tx, nodeId, jobs);
      const claimed = new Set(claims.map((claim) => claim.jobId));
      await this.#queue.remove(
        tx,
        jobs.map((job) => job.id).filter((id) => !claimed.has(id)),
      );
      return { taken: jobs.length, claims };
    });
    for (const claim of claims) {
      this.#held.add(claim);
      const line = this.#waiting.get(claim.destination);
      if (line) line.push(claim);
      else this.#waiting.set(claim.destination, [claim]);
    }
    for (const destination of new Set(claims.map((claim) => claim.destination))) this.#admit(destination);
    return taken;
  }

  /** Moves claims of this destination from waiting to running while there is room. */
  #admit(destination: string): void {
    const line = this.#waiting.get(destination);
    while (line && line.length > 0 && this.#hasRoom(destination)) {
      const claim = line.shift() as Claim;
      this.#running.set(destination, (this.#running.get(destination) ?? 0) + 1);
      this.#runningCount += 1;
      this.#ready.push(claim);
    }
    if (line?.length === 0) this.#waiting.delete(destination);
    if (this.#ready.length > 0 && !this.#loading) void this.#loadReady();
  }

  #hasRoom(destination: string): boolean {
    return (
      (this.#running.get(destination) ?? 0) < this.#limits.perDestination && this.#runningCount < this.#limits.running
    );
  }

  /** Loads the emails of all claims that became ready together with one statement. */
  async #loadReady(): Promise<void> {
    this.#loading = true;
    await new Promise((resume) => setImmediate(resume));
    while (this.#ready.length > 0) {
      const claims = this.#ready.splice(0, batchSize);
      try {
        const emails = await outgoing.load(this.#db, [...new Set(claims.map((claim) => claim.emailId))]);
        for (const claim of claims) void this.#run(claim, emails.get(claim.emailId));
      } catch (error) {
        this.#tools.log.warn(
          { error: (error as Error).message },
          'emails could not be loaded; their claims are handed back',
        );
        for (const claim of claims) void this.#handBack(claim);
      }
    }
    this.#loading = false;
  }

  async #run(claim: Claim, email: outgoing.OutgoingEmail | undefined): Promise<void> {
    const outcome = await attempt(this.#tools, claim, email, this.#abort.signal);
    this.#freeSlot(claim.destination);
    if (await this.#recorder.add(outcome)) this.#tools.journal.recorded(claim);
    this.#letGo(claim);
  }

  async #handBack(claim: Claim): Promise<void> {
    this.#freeSlot(claim.destination);
    // A node that stops with claims in its name loses them all when it retires or is found dead.
    while (!this.#stopping) {
      const released = await recipients.release(this.#db, this.#queue, [claim]).then(
        () => true,
        () => false,
      );
      if (released) break;
      await sleep(pollEveryMs);
    }
    this.#letGo(claim);
  }

  #freeSlot(destination: string): void {
    const left = (this.#running.get(destination) ?? 1) - 1;
    if (left === 0) this.#running.delete(destination);
    else this.#running.set(destination, left);
    this.#runningCount -= 1;
    this.#admit(destination);
    // A slot of the whole node may be what another destination's line waits for.
    for (const other of this.#waiting.keys()) {
      if (this.#runningCount >= this.#limits.running) break;
      this.#admit(other);
    }
  }

  #letGo(claim: Claim): void {
    this.#held.delete(claim);
    this.#checkIdle();
    if (this.#held.size < this.#limits.held / 2) this.#pump();
  }
}
