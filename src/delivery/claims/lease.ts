import { hostname } from 'node:os';
import { DatabaseClock } from '../../clock.ts';
import * as nodes from '../../core/nodes/nodes.ts';
import * as hold from '../../core/operations/hold.ts';
import type { Database } from '../../db/client.ts';
import { newId } from '../../ids.ts';
import type { Logger } from '../../log.ts';
import { Trouble } from '../../trouble.ts';

const beatEveryMs = 5_000;

/** Shorter than `nodes.deadAfterMs`: we stop before anybody else may take over. */
const validForMs = 20_000;

/**
 * Decides whether this node may take another for dead because it has not been seen for long. It may not if it was away itself
 * until just now: when the database comes back after a failover, nobody has been seen for long, and all are alive.
 */
export class Sight {
  #last = Number.NEGATIVE_INFINITY;
  #clearFrom = Number.NEGATIVE_INFINITY;

  /** @param now the time of a beat, in ms on a clock that does not jump; the beat counts once `reached` is called with it */
  isClear(now: number): boolean {
    const away = now - this.#last > 3 * beatEveryMs;
    if (away && this.#last !== Number.NEGATIVE_INFINITY) this.#clearFrom = now + nodes.deadAfterMs;
    return now >= this.#clearFrom;
  }

  reached(now: number): void {
    this.#last = now;
  }

  /** The database's clock was set forward, or ours stood still, as on a suspended machine: live nodes look as if long unseen. */
  jumped(now: number): void {
    this.#clearFrom = now + nodes.deadAfterMs;
  }
}

/** Between two beats, two correct clocks differ by less than this, which is the time of an answer under way. */
const jumpMs = 2_000;

const never = { wall: 0, monotonic: 0 };

/** Whose lease it is, and who is told what. */
interface Holder {
  roles: string[];
  /** Told each name before it is used. */
  tellName?: ((nodeId: string) => void) | undefined;
  /** How many processes of this machine deliver mail, this one included: they start at the same time, and would not see each other before their first beats. */
  processes?: number;
  /** Told of what is held because a node was gone. */
  heldListener: nodes.HeldListener;
}

/**
 * This process's right to deliver what it has claimed, renewed every few seconds in the database. A process that was
 * frozen, or cut off from the database, loses it before others take its claims over, and must not write a final dot.
 */
export class Lease {
  readonly #db: Database;
  readonly #log: Logger;
  readonly #roles: string[];
  readonly #tellName: (nodeId: string) => void;
  readonly #heldListener: nodes.HeldListener;
  #nodeId = newId();
  readonly #processes: number;
  #senders = 1;
  #onHold = false;
  #renewed = never;
  /** True while it registers under a new name, which may wait for locks until after the next beat. */
  #renaming = false;
  #timer: NodeJS.Timeout | undefined;
  /** Ends with the last of the beats under way: of a slow database there may be several. */
  #beating: Promise<void> = Promise.resolve();
  readonly #trouble: Trouble;
  readonly #sight = new Sight();
  /** Set with each beat. */
  readonly clock = new DatabaseClock();

  constructor(db: Database, log: Logger, { roles, tellName = () => undefined, processes = 1, heldListener }: Holder) {
    this.#db = db;
    this.#log = log;
    this.#trouble = new Trouble(log, { failing: 'the lease could not be renewed', over: 'the lease is renewed again' });
    this.#roles = roles;
    this.#tellName = tellName;
    this.#processes = processes;
    this.#heldListener = heldListener;
  }

  /** The name under which claims are made now. It changes when a lost lease is taken anew. */
  get nodeId(): string {
    return this.#nodeId;
  }

  /** How many nodes deliver mail, this one included, as of the last beat, or of the start. */
  get senders(): number {
    return Math.max(this.#processes, this.#senders);
  }

  /** True while nothing new may begin, as of the last beat. */
  get onHold(): boolean {
    return this.#onHold;
  }

  /** @param alone see `nodes.register` */
  async start(alone: boolean): Promise<void> {
    await this.#register(alone);
    this.#timer = setInterval(() => {
      // Until the new name is in the database, a beat would find it dead and replace it with yet another one.
      if (this.#renaming) return;
      const earlier = this.#beating;
      this.#beating = this.#beat()
        .then(
          () => this.#trouble.worked(),
          (error: Error) => this.#trouble.failed(error),
        )
        .then(() => earlier);
    }, beatEveryMs);
  }

  /** Both clocks must agree: the one that does not jump may stand still while a machine is suspended. */
  valid(): boolean {
    return (
      Math.abs(Date.now() - this.#renewed.wall) < validForMs && performance.now() - this.#renewed.monotonic < validForMs
    );
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#beating;
    this.#renewed = never;
    await nodes.unregister(this.#db, this.#nodeId, this.#heldListener);
  }

  async #register(alone: boolean): Promise<void> {
    this.#tellName(this.#nodeId);
    const at = { wall: Date.now(), monotonic: performance.now() };
    const node = { id: this.#nodeId, hostname: hostname(), roles: this.#roles };
    // All that waits is begun at once, with a share of what each site takes.
    this.#senders = await nodes.register(this.#db, node, alone, this.#heldListener);
    this.#onHold = (await hold.find(this.#db)) !== null;
    this.#renewed = at;
  }

  async #beat(): Promise<void> {
    // Counted from before the statement: our time in the database was already running while it was under way.
    const at = { wall: Date.now(), monotonic: performance.now() };
    const expected = this.clock.now().getTime();
    const nodeId = this.#nodeId;
    let isClear = this.#sight.isClear(at.monotonic);
    const living = await this.clock.hear(() => nodes.beat(this.#db, nodeId));
    this.#sight.reached(at.monotonic);
    const now = performance.now();
    if (living && living.time.getTime() - expected > now - at.monotonic + jumpMs) {
      this.#log.warn('the clock of the database jumped ahead of ours: no node is taken for dead for half a minute');
      this.#sight.jumped(now);
      isClear = false;
    }
    // Another beat that also waited for the database was answered first: this answer is about a former name.
    if (nodeId !== this.#nodeId) return;
    if (living) {
      // So may one that began later, which knows better whether the service is on hold.
      if (at.monotonic < this.#renewed.monotonic) return;
      this.#renewed = at;
      this.#senders = living.senders;
      this.#onHold = living.onHold;
      if (isClear) await this.#removeDead();
      return;
    }
    this.#log.warn('this node was taken for dead and its claims given to others; it goes on under a new name');
    this.#renewed = never;
    this.#nodeId = newId();
    this.#renaming = true;
    try {
      await this.#register(false);
    } finally {
      this.#renaming = false;
    }
  }

  async #removeDead(): Promise<void> {
    await nodes.removeDead(this.#db, this.#heldListener).catch((error: Error) => {
      this.#log.warn({ error: error.message }, 'nodes that died could not be taken off the list; trying again');
    });
  }
}
