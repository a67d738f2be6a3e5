import { Tally } from './tally.ts';

/** The most that all data that clients are sending may take, in bytes. */
const mostInFlight = 256 * 1024 * 1024;

/**
 * The memory of a process for data of one kind that its clients are sending, as far as it has arrived. An account may have no
 * more than it leaves to the others, so that there is always some left, however slowly it sends.
 */
export class MemoryRoom {
  #taken = 0;
  readonly #of = new Tally<string>();

  /**
   * Takes this many bytes, whether there is room or not; a negative number gives them back.
   *
   * @param accountId null: it is not known yet whose they are
   */
  take(accountId: string | null, bytes: number): void {
    this.#taken += bytes;
    if (accountId !== null) this.#of.add(accountId, bytes);
  }

  /** False if more is taken than there is, or than this account may have. */
  isEnoughFor(accountId: string | null): boolean {
    const left = mostInFlight - this.#taken;
    return left >= (accountId === null ? 0 : this.#of.of(accountId));
  }
}
