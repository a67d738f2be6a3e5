import type { DatabaseError } from 'pg';
import type { Logger } from '../log.ts';

/** The SQLSTATE when PostgreSQL cannot make a file longer. */
const diskFull = '53100';

/** Longer than a busy node goes without a write, and a short wait once there is room again. */
const holdsMs = 10_000;
const sayEveryMs = 60_000;

/** Whether the disk of the database is full, by the errors that it answers with. */
export class FullDisk {
  readonly #log: Logger;
  readonly #now: () => number;
  #seenAt = Number.NEGATIVE_INFINITY;
  #saidAt = Number.NEGATIVE_INFINITY;
  /** Runs from the first failure, at `#since`, until none has come for a while. */
  #calm: NodeJS.Timeout | undefined;
  #since = 0;

  /** @param now in milliseconds; never goes back */
  constructor(log: Logger, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  /** Whether a statement failed for that reason within the last seconds. */
  get isFull(): boolean {
    return this.#now() - this.#seenAt < holdsMs;
  }

  /** Takes notice of an error of PostgreSQL. */
  note({ code, message }: Pick<DatabaseError, 'code' | 'message'>): void {
    if (code !== diskFull) return;
    this.#seenAt = this.#now();
    this.#awaitCalm();
    if (this.#seenAt - this.#saidAt < sayEveryMs) return;
    this.#saidAt = this.#seenAt;
    this.#log.error({ error: message }, 'the disk of the database is full: mail is refused until there is space again');
  }

  /** Goes by failures alone, as `isFull` does: nothing is written to find out. */
  #awaitCalm(): void {
    if (!this.#calm) this.#since = this.#seenAt;
    clearTimeout(this.#calm);
    this.#calm = setTimeout(() => {
      this.#calm = undefined;
      this.#saidAt = Number.NEGATIVE_INFINITY;
      const seconds = Math.round((this.#seenAt - this.#since) / 1_000);
      this.#log.info(
        { seconds },
        'no write has failed because of a full disk for ten seconds: there is space again, or nothing was written',
      );
    }, holdsMs).unref();
  }
}
