import { getHeapStatistics } from 'node:v8';
import { memoryBytes } from '../memory.ts';
import { Tally } from './tally.ts';

const megabyte = 1024 * 1024;

/**
 * The most that all data that clients are sending may take, in bytes, where heap and memory are large enough. In small ones as
 * much of it would end the process: what was sent is there once more as text and once more as values.
 */
const mostInFlight = 256 * megabyte;
/** An account gets half, and the largest body must fit. */
const leastInFlight = 128 * megabyte;

/** @param heap the limit that V8 has from its options, or from the memory; in bytes, as `memory` */
export const roomIn = (memory: number, heap: number): number =>
  Math.min(mostInFlight, Math.max(leastInFlight, Math.min(heap / 2, memory / 8)));

/**
 * The memory of a process for data of one kind that its clients are sending, as far as it has arrived. An account may have no
 * more than it leaves to the others, so that there is always some left, however slowly it sends.
 */
export class MemoryRoom {
  readonly #most = roomIn(memoryBytes(), getHeapStatistics().heap_size_limit);
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
    const left = this.#most - this.#taken;
    return left >= (accountId === null ? 0 : this.#of.of(accountId));
  }
}
