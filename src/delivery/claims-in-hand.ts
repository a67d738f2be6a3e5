import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import type { Claim } from '../core/recipients/recipients.ts';
import * as recipients from '../core/recipients/recipients.ts';
import type { Database } from '../db/client.ts';

/** Pause between two tries to put claims back. */
const againMs = 1_000;

/** The claims of this node: those that wait for their site, are under way, or are being put back. */
export class ClaimsInHand {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #onFewer: () => void;
  readonly #claims = new Set<Claim>();
  #stopping = false;
  #onNone: (() => void) | undefined;

  /** @param onFewer called whenever claims have gone */
  constructor(db: Database, clock: Clock, onFewer: () => void) {
    this.#db = db;
    this.#clock = clock;
    this.#onFewer = onFewer;
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

  letGo(claims: Claim[]): void {
    for (const claim of claims) this.#claims.delete(claim);
    this.#checkNone();
    this.#onFewer();
  }

  /** Makes them due again in `ms`. */
  parkFor(ms: number, claims: Claim[], reason: string): void {
    this.park(claims, new Date(this.#clock.now().getTime() + ms), reason);
  }

  park(claims: Claim[], until: Date, reason: string): void {
    if (claims.length > 0) void this.putBack(claims, () => recipients.park(this.#db, claims, until, reason));
  }

  /** Lets go of the claims once `work` has put them back; it is retried until it succeeds. */
  async putBack(claims: Claim[], work: () => Promise<void>): Promise<void> {
    // If the node stops first, its claims are freed when it retires or is found dead.
    const isDone = async () => (await Promise.allSettled([work()]))[0].status === 'fulfilled';
    while (!this.#stopping && !(await isDone())) await sleep(againMs);
    this.letGo(claims);
  }

  /** From now on nothing is put back. */
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
