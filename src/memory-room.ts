import { Tally } from './tally.ts';

/** What all that clients are sending may hold together, in bytes. */
const mostInFlight = 256 * 1024 * 1024;

/**
 * The memory of a process for what its clients are sending, of one kind, as far as it has come. An account may have as much as
 * it leaves to the others, so that there is always some left, however slowly it sends.
 */
export class MemoryRoom {
  #taken = 0;
  readonly #of = new Tally<string>();

  /**
   * Takes so many bytes, whether there is room or not; less than nothing gives them back.
   *
   * @param accountId null: nobody has said yet whose they are
   */
  take(accountId: string | null, bytes: number): void {
    this.#taken += bytes;
    if (accountId !== null) this.#of.add(accountId, bytes);
  }

  /** False when more is taken than there is, or than this account may have. */
  isEnoughFor(accountId: string | null): boolean {
    const left = mostInFlight - this.#taken;
    return left >= (accountId === null ? 0 : this.#of.of(accountId));
  }
}
