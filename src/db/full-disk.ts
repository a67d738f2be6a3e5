import type { Logger } from '../log.ts';
import { causesOf, codeOf } from './errors.ts';

/** The SQLSTATE when PostgreSQL cannot make a file longer. */
const diskFull = '53100';

/** Longer than a busy node goes without a write, and a short wait once there is room again. */
const holdsMs = 10_000;
const sayEveryMs = 60_000;

/** Whether the disk of the database is full, by the errors of its statements. */
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

  /** The result of the work, whose failure is looked at. */
  async watch<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      const full = [...causesOf(error)].find((cause) => codeOf(cause) === diskFull);
      if (full) this.#note(full);
      throw error;
    }
  }

  #note({ message }: Error): void {
    this.#seenAt = this.#now();
    if (this.#seenAt - this.#saidAt < sayEveryMs) return;
    this.#saidAt = this.#seenAt;
    this.#log.error({ error: message }, 'the disk of the database is full: mail is refused until there is space again');
  }
}
