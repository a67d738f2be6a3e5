import { mostInJob, prioritiesOfFirst } from '../../core/emails/mail-lines.ts';
import { ClaimsInDoubt } from '../../core/nodes/claims-in-doubt.ts';
import type { Claim } from '../../core/recipients/recipients.ts';
import * as recipients from '../../core/recipients/recipients.ts';
import type { Database, Sql } from '../../db/client.ts';
import type { Logger } from '../../log.ts';
import { BatchLoop } from '../../pace/batch-loop.ts';
import { DuePriorities } from '../../pace/due-priorities.ts';
import type { DeliverJob, Placed, Queue } from '../../queue.ts';
import { Trouble } from '../../trouble.ts';
import type { ClaimsInHand } from './claims-in-hand.ts';
import type { Lease } from './lease.ts';

/** Claims per batch, roughly: taking few costs as much as taking many. */
const batchSize = 200;

/** With so many claims in the last batch and still in hand, mail keeps coming. */
const manyClaims = 8;
/** Then what is accepted is gathered for this long before it is taken. */
const gatherMs = 15;

/** How often to look for mail of other processes that goes before what waits here. */
const firstEveryMs = 1_000;

interface Tools {
  lease: Lease;
  log: Logger;
}

/** Where claims go. */
interface Dispatching {
  inHand: ClaimsInHand;
  /** How many claims this node may hold. */
  mostHeld: number;
  /** Whether an attempt could begin now. */
  canBegin(): boolean;
  /** The destinations that need no more claims for now. */
  supplied(): string[];
  /** Those that need none of this priority, although it may go before most of what waits for them here. */
  suppliedWith(priority: number): string[];
  /** Takes over new claims; the next batch is taken when this resolves. */
  place(claims: Claim[]): Promise<void>;
}

/**
 * Takes jobs out of the queue and claims their recipients, one batch after the other, for as long as there are jobs and room.
 * Jobs for destinations that are supplied stay in the queue, but not those of accounts with little under way, which go to the
 * front: what waits here for a slow site may take minutes. This process's own are taken at once, and each second all others.
 */
export class Intake {
  readonly #db: Database;
  readonly #queue: Queue;
  readonly #tools: Tools;
  readonly #dispatching: Dispatching;
  readonly #inDoubt: ClaimsInDoubt;
  readonly #loop: BatchLoop;
  readonly #trouble: Trouble;
  #supplied: ReadonlySet<string> = new Set();
  /** There was no room when jobs could last have been taken. */
  #full = false;
  /** How many the last batch had. */
  #lastClaims = 0;
  /** Ends the wait for more of what is accepted. */
  #gathering: NodeJS.Timeout | undefined;
  /** The jobs of accounts with little under way. */
  readonly #first = new DuePriorities(prioritiesOfFirst, firstEveryMs);
  /** As of the last batch that was not empty. */
  #claimsPerJob = mostInJob;

  constructor(db: Database, queue: Queue, tools: Tools, dispatching: Dispatching) {
    this.#db = db;
    this.#queue = queue;
    this.#tools = tools;
    this.#dispatching = dispatching;
    this.#inDoubt = new ClaimsInDoubt(db, 'recipients');
    this.#trouble = new Trouble(tools.log, {
      failing: 'no jobs could be taken; trying again',
      over: 'jobs can be taken again',
    });
    this.#loop = new BatchLoop({
      prepare: () => this.#freeInDoubt(),
      takeBatch: () => this.#takeBatch(),
      onError: (error) => this.#trouble.failed(error),
    });
  }

  /** Destinations whose jobs were last left in the queue, because claims for them wait here. */
  get supplied(): ReadonlySet<string> {
    return this.#supplied;
  }

  start(): void {
    this.#queue.onWake((priority) => this.#takeAccepted(priority));
  }

  /** Resolves when nothing is taken any more. */
  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** Takes what was just accepted, under load a little later: taking and loading few emails costs nearly as much as many. */
  #takeAccepted(priority?: number): void {
    this.#first.came(priority);
    if (this.#lastClaims < manyClaims || this.#dispatching.inHand.size < manyClaims) {
      this.take();
      return;
    }
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      this.take();
    }, gatherMs);
  }

  /** Takes what there is; if a batch is being taken, once more after that. */
  take(): void {
    this.#loop.wake();
  }

  /** If there was no room: takes more once half of the claims have gone. */
  takeIfDrained(): void {
    const { inHand, mostHeld } = this.#dispatching;
    if (this.#full && inHand.size < mostHeld / 2) this.take();
  }

  async #freeInDoubt(): Promise<void> {
    const { log, lease } = this.#tools;
    const freed = await this.#inDoubt.free(lease.nodeId, this.#dispatching.inHand.all);
    if (freed > 0) log.warn({ recipients: freed }, 'a claim was committed without an answer; it is free again');
  }

  /** How many jobs to take now: those of a batch of claims, or as many as this node may still hold the claims of. */
  get #room(): number {
    const { inHand, mostHeld } = this.#dispatching;
    return Math.max(0, Math.ceil(Math.min(batchSize, mostHeld - inHand.size) / this.#claimsPerJob));
  }

  /** @returns whether the batch was full: a short one was all there is, and adding jobs wakes this */
  async #takeBatch(): Promise<boolean> {
    const { lease } = this.#tools;
    this.#full = this.#room === 0 || !this.#dispatching.canBegin() || !lease.valid();
    if (this.#full || lease.onHold) return false;
    await this.#takeFirst();
    const jobs = this.#room;
    this.#full = jobs === 0;
    if (this.#full) return false;
    const { taken, claims } = await this.#takeJobs((tx) => {
      const supplied = this.#dispatching.supplied();
      this.#supplied = new Set(supplied);
      return this.#queue.take(tx, jobs, supplied);
    });
    if (taken > 0) this.#claimsPerJob = Math.max(1, claims / taken);
    this.#lastClaims = claims;
    return taken === jobs;
  }

  /** Takes the jobs of accounts with little under way, also of the destinations whose jobs stay in the queue. */
  async #takeFirst(): Promise<void> {
    if (this.#supplied.size === 0) return;
    for (const priority of this.#first.take()) await this.#takeAllOf(priority);
  }

  /** One batch after the other: most of these jobs are single emails, so that a burst of them is more than one. */
  async #takeAllOf(priority: number): Promise<void> {
    for (let isFull = true; isFull && this.#room > 0; ) {
      const jobs = this.#room;
      const without = () => this.#dispatching.suppliedWith(priority);
      const { taken } = await this.#takeJobs((tx) => this.#queue.take(tx, jobs, without(), priority));
      isFull = taken === jobs;
    }
  }

  /**
   * Takes and claims in one transaction, so that recipients always have a job or a node that holds them.
   *
   * @returns how many jobs were taken, and how many claims they became
   */
  async #takeJobs(take: (tx: Sql) => Promise<Placed<DeliverJob>[]>): Promise<{ taken: number; claims: number }> {
    const { nodeId } = this.#tools.lease;
    const claiming = this.#db.transaction(async (tx) => {
      const jobs = await take(tx);
      if (jobs.length === 0) return { taken: 0, claims: [] };
      return { taken: jobs.length, claims: await recipients.claim(tx, nodeId, jobs) };
    });
    const { taken, claims } = await this.#inDoubt.watch(claiming);
    this.#trouble.worked();
    this.#dispatching.inHand.add(claims);
    await this.#dispatching.place(claims);
    return { taken, claims: claims.length };
  }
}
