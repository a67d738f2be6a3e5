import { Tally } from './tally.ts';

/** What all that clients are sending may hold together, in bytes. */
const mostInFlight = 256 * 1024 * 1024;
/** No account can keep the others out, however slowly it sends. */
const mostOfAccount = mostInFlight / 2;

/** The memory of a process for what its clients are sending, of one kind, as far as it has come. */
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

  /** False when more is taken than there is, or than is this account's. */
  isEnoughFor(accountId: string | null): boolean {
    return this.#taken <= mostInFlight && (accountId === null || this.#of.of(accountId) <= mostOfAccount);
  }
}
