/** A token bucket: `burst` tokens at once, refilled with `perSecond`. */
export interface RateLimit {
  perSecond: number;
  burst: number;
}

/** A bucket that was left alone for long is full and need not be remembered, when there are this many. */
const manyRemembered = 10_000;

/** A bucket of tokens for each id, in the memory of this process: on several nodes an id has several buckets. */
export class TokenBuckets {
  readonly limit: RateLimit;
  readonly #now: () => number;
  readonly #buckets = new Map<string, { tokens: number; at: number }>();
  #onTake: (id: string) => void = () => undefined;
  /** The number of buckets at which it is next worth looking for full ones. */
  #forgetAt = manyRemembered;

  /** @param now in milliseconds; never goes back */
  constructor(limit: RateLimit, now: () => number = () => performance.now()) {
    this.limit = limit;
    this.#now = now;
  }

  /**
   * Takes a token.
   *
   * @returns how many are left, and after how many seconds there will be one: 0 if one was taken
   */
  take(id: string): { left: number; waitSeconds: number } {
    const tokens = this.#refill(id);
    const waitSeconds = tokens < 1 ? Math.max(1, Math.ceil((1 - tokens) / this.limit.perSecond)) : 0;
    const left = Math.max(0, tokens - 1);
    if (waitSeconds === 0) {
      this.#buckets.set(id, { tokens: left, at: this.#now() });
      this.#onTake(id);
    }
    return { left, waitSeconds };
  }

  /** @param listener told of each token that is taken here */
  onTake(listener: (id: string) => void): void {
    this.#onTake = listener;
  }

  /** Takes as many tokens as were given out elsewhere on behalf of this bucket: it may owe some afterwards. */
  charge(id: string, tokens: number): void {
    this.#buckets.set(id, { tokens: this.#refill(id) - tokens, at: this.#now() });
  }

  #refill(id: string): number {
    const bucket = this.#buckets.get(id);
    if (bucket) return this.#levelOf(bucket);
    if (this.#buckets.size >= this.#forgetAt) this.#forgetFull();
    return this.limit.burst;
  }

  #levelOf({ tokens, at }: { tokens: number; at: number }): number {
    const { perSecond, burst } = this.limit;
    return Math.min(burst, tokens + ((this.#now() - at) / 1000) * perSecond);
  }

  #forgetFull(): void {
    for (const [id, bucket] of this.#buckets) if (this.#levelOf(bucket) >= this.limit.burst) this.#buckets.delete(id);
    // When few were full, as with failed logins from a whole network, each new id would otherwise search all of them.
    this.#forgetAt = Math.max(manyRemembered, 2 * this.#buckets.size);
  }
}
