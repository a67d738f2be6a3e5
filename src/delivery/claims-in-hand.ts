import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import type { Claim } from '../core/recipients.ts';
import * as recipients from '../core/recipients.ts';
import type { Database } from '../db/client.ts';

/** Between two tries to put claims back. */
const againMs = 1_000;

/** The claims of this node: those that wait for their site, that are under way, and that are on their way back. */
export class ClaimsInHand {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #onFewer: () => void;
  readonly #claims = new Set<Claim>();
  #stopping = false;
  #onNone: (() => void) | undefined;

  /** @param onFewer called each time that some have gone */
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

  /** Has them come again in so many ms. */
  parkFor(ms: number, claims: Claim[], reason: string): void {
    this.park(claims, new Date(this.#clock.now().getTime() + ms), reason);
  }

  park(claims: Claim[], until: Date, reason: string): void {
    if (claims.length > 0) void this.putBack(claims, () => recipients.park(this.#db, claims, until, reason));
  }

  /** Lets go of them once `work` has put them back, which is tried until it is done. */
  async putBack(claims: Claim[], work: () => Promise<void>): Promise<void> {
    // A node that stops with claims in its name loses them all when it retires or is found dead.
    const isDone = async () => (await Promise.allSettled([work()]))[0].status === 'fulfilled';
    while (!this.#stopping && !(await isDone())) await sleep(againMs);
    this.letGo(claims);
  }

  /** From now on nothing is put back. */
  stop(): void {
    this.#stopping = true;
  }

  /** Once it has stopped: resolves when all have gone. */
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
