import { setTimeout as sleep } from 'node:timers/promises';
import { ClaimsInDoubt } from '../core/nodes/claims-in-doubt.ts';
import * as calls from '../core/webhooks/webhook-calls.ts';
import { priorities } from '../core/webhooks/webhook-lines.ts';
import type { Database } from '../db/client.ts';
import { BatchLoop } from '../pace/batch-loop.ts';
import { DuePriorities } from '../pace/due-priorities.ts';
import { Tally } from '../pace/tally.ts';
import type { Queue } from '../queue.ts';
import { Trouble } from '../trouble.ts';
import { type CallTools, makeCall } from './call.ts';
import type { Answered } from './endpoint-room.ts';
import { KeptSockets } from './kept-sockets.ts';
import { Lines } from './lines.ts';
import { withoutEndpoint } from './outcome.ts';
import { createRecorder, type Recorder } from './record.ts';
import { defaultLimits, type Limits, Slots } from './slots.ts';

const batchSize = 100;
const pollEveryMs = 1_000;

/** How long no call begins once this server could not even make one: each that fails so uses up an attempt. */
const untriedPauseMs = 1_000;

/** How long a shutdown waits, in ms. */
export interface Patience {
  /** For calls under way to end by themselves: longer than a call may take. */
  drainMs: number;
  /** In all, also for their outcomes to be stored. */
  stopMs: number;
}

const usualPatience: Patience = { drainMs: 17_000, stopMs: 20_000 };

/**
 * Takes jobs in batches and starts a call for each as soon as its endpoint has room. Jobs for endpoints that have work
 * waiting here stay in the queue, except for calls that people wait for, which go to the front of the line; the line of an
 * endpoint that turns out to be failing is released, so that it holds nothing up. An account's jobs stay there too once it has
 * more in hand than is left to others, so there is always some room, even if an account has many slow endpoints.
 */
export class WebhookDispatcher {
  readonly #db: Database;
  readonly #queue: Queue;
  readonly #tools: CallTools;
  readonly #recorder: Recorder;
  readonly #limits: Limits;
  readonly #patience: Patience;
  readonly #slots: Slots;
  readonly #kept = new KeptSockets();
  readonly #lines = new Lines();
  readonly #inHand = new Set<calls.Claim>();
  readonly #inHandOf = new Tally<string>();
  /** Endpoints whose jobs were left in the queue because calls to them waited here. */
  readonly #leftOut = new Set<string>();
  readonly #inDoubt: ClaimsInDoubt;
  readonly #intake: BatchLoop;
  readonly #trouble: Trouble;
  readonly #releasing: Trouble;
  readonly #abort = new AbortController();
  /** Claims whose calls begin once they are loaded. */
  #ready: calls.Claim[] = [];
  #loading = false;
  /** There was no room for jobs that may still be in the queue. */
  #full = false;
  #pausedUntil = 0;
  /** Calls that people wait for. */
  readonly #asked = new DuePriorities([priorities.asked], pollEveryMs);
  #stopping = false;
  #timer: NodeJS.Timeout | undefined;
  #idle: (() => void) | undefined;

  constructor(
    db: Database,
    queue: Queue,
    tools: CallTools,
    limits: Limits = defaultLimits,
    patience: Patience = usualPatience,
  ) {
    this.#db = db;
    this.#queue = queue;
    const onUntried = () => (this.#pausedUntil = performance.now() + untriedPauseMs);
    this.#tools = { ...tools, poster: { ...tools.poster, kept: this.#kept, onUntried } };
    this.#recorder = createRecorder(db, queue, tools.log);
    this.#limits = limits;
    this.#patience = patience;
    this.#slots = new Slots(limits, () => this.#beginAll());
    this.#inDoubt = new ClaimsInDoubt(db, 'webhook_deliveries');
    this.#trouble = new Trouble(tools.log, {
      failing: 'no webhook jobs could be taken; trying again',
      over: 'webhook jobs can be taken again',
    });
    this.#releasing = new Trouble(tools.log, {
      failing: 'webhook deliveries could not be released; trying again',
      over: 'webhook deliveries can be released again',
    });
    this.#intake = new BatchLoop({
      prepare: () => this.#freeInDoubt(),
      takeBatch: () => this.#takeBatch(),
      onError: (error) => this.#trouble.failed(error),
    });
  }

  /** How many claims are running or wait for their endpoint. */
  get inHand(): number {
    return this.#inHand.size;
  }

  start(): void {
    this.#queue.webhooks.onWake((priority) => {
      this.#asked.came(priority);
      this.#intake.wake();
    });
    this.#timer = setInterval(() => this.#tick(), pollEveryMs);
    this.#intake.wake();
  }

  /**
   * Takes no new work, releases what has not begun, and waits for what has: at most 20 seconds, even if the database does not
   * answer. What this node still holds then is freed when it retires or is found dead.
   *
   * @param withinMs how long it may take, if that is less
   */
  async stop(withinMs = Number.POSITIVE_INFINITY): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#timer);
    const stopMs = Math.min(this.#patience.stopMs, withinMs);
    const drainMs = Math.max(0, this.#patience.drainMs - this.#patience.stopMs + stopMs);
    const ender = setTimeout(() => this.#abort.abort(), drainMs);
    this.#recorder.giveUpAfter(drainMs);
    const ended = new AbortController();
    const late = sleep(stopMs, undefined, { signal: ended.signal }).catch(() => undefined);
    await Promise.race([this.#releaseAndWait(), late]);
    ended.abort();
    clearTimeout(ender);
    this.#kept.destroy();
  }

  async #releaseAndWait(): Promise<void> {
    // Nothing of a batch that is being taken now begins either.
    await this.#intake.stop();
    await this.#release(this.#emptyLines());
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
      this.#checkIdle();
    });
  }

  #tick(): void {
    // While the service is on hold, operators may decide about what has not begun.
    if (this.#tools.lease.onHold) void this.#release(this.#emptyLines());
    // A pause, or a hold that ended before it was seen here, has left lines that nothing else would serve.
    else this.#beginAll();
    this.#intake.wake();
  }

  #emptyLines(): calls.Claim[] {
    this.#leftOut.clear();
    return this.#lines.empty();
  }

  #checkIdle(): void {
    if (this.#stopping && this.#inHand.size === 0) this.#idle?.();
  }

  async #freeInDoubt(): Promise<void> {
    const { log, lease } = this.#tools;
    const freed = await this.#inDoubt.free(lease.nodeId, this.#inHand);
    if (freed > 0) log.warn({ deliveries: freed }, 'a claim was committed without an answer; it is free again');
  }

  /** @returns whether the batch was full: a short one was all there is, and new jobs wake the intake */
  async #takeBatch(): Promise<boolean> {
    const { lease } = this.#tools;
    // Half of what is left, because a whole batch may belong to one account.
    const room = Math.min(batchSize, Math.ceil(this.#left / 2));
    this.#full = room <= 0;
    if (this.#full || !lease.valid() || lease.onHold) return false;
    // Also those to endpoints whose jobs stay in the queue.
    if (this.#lines.endpoints.length > 0)
      for (const priority of this.#asked.take()) await this.#takeJobs(room, priority);
    return (await this.#takeJobs(room)) === room;
  }

  /** How many more claims may be in hand. */
  get #left(): number {
    return this.#limits.inHand - this.#inHand.size;
  }

  /**
   * Takes and claims in one transaction, so that a delivery always has a job or a node that holds it.
   *
   * @param priority takes only jobs of this one, which go before what waits here
   */
  async #takeJobs(limit: number, priority?: number): Promise<number> {
    const { nodeId } = this.#tools.lease;
    const waiting = priority === undefined ? this.#lines.endpoints : [];
    for (const webhookId of waiting) this.#leftOut.add(webhookId);
    const havingMost = this.#inHandOf.having(this.#left);
    const claiming = this.#db.transaction(async (tx) => {
      const without = [...waiting, ...(await calls.endpointsOf(tx, havingMost))];
      const jobs = await this.#queue.webhooks.take(tx, limit, without, priority);
      if (jobs.length === 0) return { taken: 0, claims: [] };
      return { taken: jobs.length, claims: await calls.claim(tx, nodeId, jobs) };
    });
    const { taken, claims } = await this.#inDoubt.watch(claiming);
    this.#trouble.worked();
    for (const claim of claims) {
      this.#inHand.add(claim);
      this.#inHandOf.add(claim.accountId, 1);
    }
    if (priority === undefined) for (const claim of claims) this.#lines.add(claim);
    else for (const claim of claims.toReversed()) this.#lines.addFirst(claim);
    this.#beginAll();
    return taken;
  }

  /** Begins what there is room for, and nothing in a pause, while the service is on hold, or when it stops. */
  #beginAll(): void {
    if (this.#stopping || this.#tools.lease.onHold || !this.#slots.free || performance.now() < this.#pausedUntil)
      return;
    for (const claim of this.#lines.inTurn((next) => this.#slots.hasRoomFor(next))) {
      this.#slots.take(claim);
      this.#ready.push(claim);
      if (!this.#lines.has(claim)) this.#lookForMore(claim);
      if (!this.#slots.free) break;
    }
    if (this.#ready.length > 0 && !this.#loading) void this.#loadReady();
  }

  /** Loads all calls that became ready together with one statement: late, so that their endpoints are up to date. */
  async #loadReady(): Promise<void> {
    this.#loading = true;
    await new Promise((resume) => setImmediate(resume));
    while (this.#ready.length > 0) {
      const claims = this.#ready.splice(0, batchSize);
      try {
        const loaded = await calls.load(
          this.#db,
          claims.map((claim) => claim.deliveryId),
        );
        for (const claim of claims) void this.#run(claim, loaded.get(claim.deliveryId));
      } catch (error) {
        this.#tools.log.warn({ error: (error as Error).message }, 'webhook calls could not be loaded');
        for (const claim of claims) this.#freeSlot(claim, null);
        void this.#release(claims);
      }
    }
    this.#loading = false;
  }

  async #run(claim: calls.Claim, call: calls.Call | undefined): Promise<void> {
    const outcome = call ? await this.#call(claim, call) : withoutEndpoint(claim);
    if (outcome.made) this.#tools.metrics.called(outcome.status, outcome.made.attempt.durationMs);
    this.#freeSlot(claim, answeredBy(outcome));
    const failing = await this.#recorder.add(outcome);
    this.#remove(claim);
    const line = failing ? this.#lines.cut(claim) : [];
    if (line.length > 0) {
      this.#lookForMore(claim);
      await this.#release(line);
    }
    this.#checkIdle();
    if (this.#full && this.#inHand.size < this.#limits.inHand / 2) this.#intake.wake();
  }

  #remove(claim: calls.Claim): void {
    if (this.#inHand.delete(claim)) this.#inHandOf.add(claim.accountId, -1);
  }

  /** To be called when no call to this endpoint waits here any more: the queue may have more. */
  #lookForMore({ webhookId }: calls.Claim): void {
    if (this.#leftOut.delete(webhookId)) this.#intake.wake();
  }

  #call(claim: calls.Claim, call: calls.Call): Promise<calls.CallOutcome> {
    const others = this.#lines.has(claim) || this.#slots.of(claim.webhookId) > 1;
    return makeCall(this.#tools, claim, call, this.#abort.signal, others ? claim.webhookId : null);
  }

  #freeSlot(claim: calls.Claim, answered: Answered | null): void {
    this.#slots.give(claim, answered);
    this.#beginAll();
  }

  /**
   * Makes the claimed deliveries due again at once. Retries until it succeeds or the node stops: what the node holds then is
   * freed when it retires or is found dead.
   */
  async #release(claims: calls.Claim[]): Promise<void> {
    if (claims.length === 0) return;
    for (;;) {
      const error = await calls.release(this.#db, claims).then(
        () => null,
        (reason: Error) => reason,
      );
      if (!error) {
        this.#releasing.worked();
        break;
      }
      this.#releasing.failed(error);
      if (this.#stopping) break;
      await sleep(pollEveryMs);
    }
    for (const claim of claims) this.#remove(claim);
    this.#checkIdle();
  }
}

const answeredBy = ({ made }: calls.CallOutcome): Answered | null =>
  made && made.endpoint !== 'unknown'
    ? { works: made.endpoint === 'works', durationMs: made.attempt.durationMs, url: made.url }
    : null;
