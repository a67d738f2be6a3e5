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
    if (this.#seenAt - this.#saidAt < sayEveryMs) return;
    this.#saidAt = this.#seenAt;
    this.#log.error({ error: message }, 'the disk of the database is full: mail is refused until there is space again');
  }
}
