import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../clock.ts';
import type { Claim } from '../../core/recipients/recipients.ts';
import * as recipients from '../../core/recipients/recipients.ts';
import type { Database } from '../../db/client.ts';
import type { Logger } from '../../log.ts';
import { Trouble } from '../../trouble.ts';

/** Pause between two tries to release or park claims. */
const againMs = 1_000;

/**
 * The claims that this node holds: those that wait for their site, are under way, or are being released or parked. A claim
 * ends in one of three ways. It is *settled* when the outcome of its attempt is stored. It is *released* if its recipients
 * are due again at once, and *parked* if they are due at a later time, with the reason; neither uses up an attempt.
 */
export class ClaimsInHand {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #onFewer: () => void;
  readonly #trouble: Trouble;
  readonly #claims = new Set<Claim>();
  #stopping = false;
  #onNone: (() => void) | undefined;

  /** @param onFewer called whenever claims were removed */
  constructor(db: Database, { clock, log }: { clock: Clock; log: Logger }, onFewer: () => void) {
    this.#db = db;
    this.#clock = clock;
    this.#onFewer = onFewer;
    this.#trouble = new Trouble(log, { failing: 'claims could not be released or parked; trying again' });
  }

  get size(): number {
    return this.#claims.size;
  }

  get all(): ReadonlySet<Claim> {
    return this.#claims;
  }

  add(claims: Claim[]): void {
    for (const claim of claims) this.#claims.add(claim);
  }

  remove(claims: Claim[]): void {
    for (const claim of claims) this.#claims.delete(claim);
    this.#checkNone();
    this.#onFewer();
  }

  /** Makes them due again at once. */
  release(claims: Claim[]): void {
    void this.removeAfter(claims, () => recipients.release(this.#db, claims));
  }

  /** Makes them due again at `until`. */
  park(claims: Claim[], until: Date, reason: string): void {
    void this.removeAfter(claims, () => recipients.park(this.#db, claims, until, reason));
  }

  /** Makes them due again in `ms`. */
  parkFor(claims: Claim[], ms: number, reason: string): void {
    this.park(claims, new Date(this.#clock.now().getTime() + ms), reason);
  }

  /** Makes them due again when the destination or site of this name is resumed. */
  parkForPause(claims: Claim[], name: string): void {
    void this.removeAfter(claims, () => recipients.parkForPause(this.#db, claims, name));
  }

  /** Removes the claims once `work` has released or parked them; it is retried until it succeeds. */
  async removeAfter(claims: Claim[], work: () => Promise<void>): Promise<void> {
    // Work without claims does not show whether the database takes any.
    if (claims.length === 0) return;
    // If the node stops first, its claims are freed when it retires or is found dead.
    while (!this.#stopping && !(await this.#isDone(work))) await sleep(againMs);
    this.remove(claims);
  }

  async #isDone(work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      this.#trouble.worked();
      return true;
    } catch (error) {
      this.#trouble.failed(error as Error);
      return false;
    }
  }

  /** From now on nothing is released or parked. */
  stop(): void {
    this.#stopping = true;
  }

  /** To be called after `stop`: resolves when no claim is left. */
  none(): Promise<void> {
    return new Promise((resolve) => {
      this.#onNone = resolve;
      this.#checkNone();
    });
  }

  #checkNone(): void {
    if (this.#claims.size === 0) this.#onNone?.();
  }
}
