import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../log.ts';
import { Trouble } from '../trouble.ts';

/** The most items of one write. */
const batchSize = 200;
/** With at least this many items, a write does not wait for more. */
const enoughItems = 120;
/** With fewer, it waits for more until this long after the previous write. */
const gatherMs = 40;
const firstPauseMs = 100;
const longestPauseMs = 5_000;

interface Waiting<Item, Result> {
  item: Item;
  done: (result: Result | undefined) => void;
}

/** What is written, and how. */
export interface Writing<Item, Result> {
  /** Names it, for the log. */
  what: string;
  /** Commits all of the items or none, and returns a function that gives the result of each. */
  write: (items: Item[]) => Promise<(item: Item) => Result>;
  /** Whether an error may be due to what an item holds, or to how much they are together. */
  isItsFault: (error: unknown) => boolean;
  /** Whether an error is there to stay, so that nothing is to be waited for after `giveUpAfter`. */
  isForGood?: (error: unknown) => boolean;
  bound?: Bound<Item>;
}

/** How much one write takes, besides that it is never very many items; an item that is heavier is written by itself. */
export interface Bound<Item> {
  most: number;
  weigh: (item: Item) => number;
  /** Owners take turns: however many items of one wait, and however long they take, those of another go along next. */
  ownerOf: (item: Item) => string;
}

const unbounded = { most: batchSize, weigh: () => 1, ownerOf: () => '' };

/** The waiting items, in a line for each owner. */
class Lines<Item, Result> {
  readonly #bound: Bound<Item>;
  /** The owner whose turn it is comes first. */
  readonly #lines = new Map<string, Waiting<Item, Result>[]>();
  #length = 0;

  constructor(bound: Bound<Item>) {
    this.#bound = bound;
  }

  get length(): number {
    return this.#length;
  }

  push(one: Waiting<Item, Result>): void {
    const owner = this.#bound.ownerOf(one.item);
    const line = this.#lines.get(owner);
    if (line) line.push(one);
    else this.#lines.set(owner, [one]);
    this.#length += 1;
  }

  /** Takes one item of each owner in turn, until nothing is left or that is enough for one write. */
  take(): Waiting<Item, Result>[] {
    const { most, weigh } = this.#bound;
    const taken: Waiting<Item, Result>[] = [];
    let weight = 0;
    // An owner that is put back during the loop comes by again.
    for (const [owner, line] of this.#lines) {
      const [first] = line;
      if (!first || taken.length === batchSize) break;
      weight += weigh(first.item);
      if (taken.length > 0 && weight > most) break;
      taken.push(first);
      line.shift();
      this.#lines.delete(owner);
      if (line.length > 0) this.#lines.set(owner, line);
    }
    this.#length -= taken.length;
    return taken;
  }
}

/**
 * Writes items, those that come in together in one go. The first is written at once; while items keep coming, they wait for
 * up to 40 ms after each write, because one write of many costs far less than many of a few. While that fails, as when the
 * database is away, they wait in memory and are retried for as long as the process lives; an item that fails by itself holds
 * up no other.
 */
export class BatchWriter<Item, Result> {
  readonly #write: (items: Item[]) => Promise<(item: Item) => Result>;
  readonly #log: Logger;
  readonly #away: Trouble;
  readonly #what: string;
  readonly #waiting: Lines<Item, Result>;
  #writing = false;
  #endGathering: (() => void) | null = null;
  /** Items that failed when they were alone. */
  #aside: Waiting<Item, Result>[] = [];
  #tryingAside = false;
  readonly #isItsFault: (error: unknown) => boolean;
  readonly #isForGood: (error: unknown) => boolean;
  #giveUpAt = Number.POSITIVE_INFINITY;

  constructor(
    log: Logger,
    { what, write, isItsFault, isForGood = () => false, bound = unbounded }: Writing<Item, Result>,
  ) {
    this.#log = log;
    this.#away = new Trouble(log, { failing: 'a batch could not be written; trying again' });
    this.#what = what;
    this.#write = write;
    this.#isItsFault = isItsFault;
    this.#isForGood = isForGood;
    this.#waiting = new Lines(bound);
  }

  /** Resolves when the item is committed; with undefined if it was dropped after `giveUpAfter`. */
  add(item: Item): Promise<Result | undefined> {
    return new Promise((done) => {
      this.#waiting.push({ item, done });
      if (!this.#writing) void this.#writeAll();
      else if (this.#waiting.length >= enoughItems) this.#endGathering?.();
    });
  }

  /** Ends the patience with failures: after this many ms, or at once if they are for good, items that cannot be written are dropped. */
  giveUpAfter(ms: number): void {
    this.#giveUpAt = performance.now() + ms;
  }

  async #writeAll(): Promise<void> {
    this.#writing = true;
    // One turn of the event loop lets items that are added in this one join the batch.
    await new Promise((resume) => setImmediate(resume));
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.take();
      // What is left over has waited already.
      const tookAll = this.#waiting.length === 0;
      await this.#persist(batch);
      if (tookAll && this.#waiting.length > 0 && this.#waiting.length < enoughItems) await this.#gather();
    }
    this.#writing = false;
  }

  async #gather(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, gatherMs);
    this.#endGathering = resolve;
    await promise;
    clearTimeout(timer);
    this.#endGathering = null;
  }

  async #persist(batch: Waiting<Item, Result>[]): Promise<void> {
    for (let pause = firstPauseMs; ; pause = longer(pause)) {
      const outcome = await this.#try(batch);
      if (outcome === 'failed') return this.#apart(batch);
      if (outcome !== 'away') return;
      await sleep(pause);
    }
  }

  async #try(batch: Waiting<Item, Result>[]): Promise<'written' | 'let go' | 'failed' | 'away'> {
    try {
      const resultOf = await this.#write(batch.map(({ item }) => item));
      this.#away.worked();
      for (const { item, done } of batch) done(resultOf(item));
      return 'written';
    } catch (error) {
      const { message } = error as Error;
      const fields = { what: this.#what, items: batch.length };
      const isEnding = this.#giveUpAt < Number.POSITIVE_INFINITY;
      if (performance.now() > this.#giveUpAt || (isEnding && this.#isForGood(error))) {
        this.#log.error({ error: message, ...fields }, 'a batch could not be written; giving up');
        for (const { done } of batch) done(undefined);
        return 'let go';
      }
      if (!this.#isItsFault(error)) {
        this.#away.failed(error as Error, fields);
        return 'away';
      }
      this.#log.error({ error: message, ...fields }, 'a batch could not be written; trying again');
      return 'failed';
    }
  }

  /** Halves a failing batch until the item that it fails for is alone, and goes on without that one. */
  async #apart(batch: Waiting<Item, Result>[]): Promise<void> {
    const middle = batch.length >> 1;
    if (middle === 0) {
      this.#aside.push(...batch);
      if (!this.#tryingAside) void this.#tryAside();
      return;
    }
    await this.#persist(batch.slice(0, middle));
    await this.#persist(batch.slice(middle));
  }

  /** Retries items that failed alone, one by one and apart from all else: however many they are, they take one connection. */
  async #tryAside(): Promise<void> {
    this.#tryingAside = true;
    for (let pause = firstPauseMs; this.#aside.length > 0; pause = longer(pause)) {
      await sleep(pause);
      await this.#roundAside();
    }
    this.#tryingAside = false;
  }

  async #roundAside(): Promise<void> {
    const round = this.#aside.splice(0);
    for (const [index, one] of round.entries()) {
      const outcome = await this.#try([one]);
      const rest = round.slice(index + 1);
      if (outcome === 'failed') this.#aside.push(one);
      // Each of the others may take as long to fail.
      if (outcome === 'let go') for (const { done } of rest) done(undefined);
      if (outcome === 'away') this.#aside.push(...rest, one);
      if (outcome === 'let go' || outcome === 'away') return;
    }
  }
}

const longer = (pauseMs: number) => Math.min(pauseMs * 2, longestPauseMs);
