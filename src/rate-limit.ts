/** A token bucket: `burst` tokens at once, refilled with `perSecond`. */
export interface RateLimit {
  perSecond: number;
  burst: number;
}

/** Holders of buckets that were left alone for long have a full one and need not be remembered, when there are so many. */
const manyRemembered = 10_000;

/** A bucket of tokens for each id, in the memory of this process: on several nodes an id has as many buckets. */
export class TokenBuckets {
  readonly limit: RateLimit;
  readonly #now: () => number;
  readonly #buckets = new Map<string, { tokens: number; at: number }>();
  #onTake: (id: string) => void = () => undefined;
  /** When it is next worth while to look for those that are full. */
  #forgetAt = manyRemembered;

  /** @param now milliseconds that only grow */
  constructor(limit: RateLimit, now: () => number = () => performance.now()) {
    this.limit = limit;
    this.#now = now;
  }

  /**
   * Takes a token.
   *
   * @returns how many are left, and after how many seconds there is one: 0 when one was taken
   */
  take(id: string): { left: number; waitSeconds: number } {
    const tokens = this.#refill(id);
    const waitSeconds = this.#wait(tokens);
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

  /** Takes as many tokens as were given out elsewhere in this bucket's name: it may owe some afterwards. */
  charge(id: string, tokens: number): void {
    this.#buckets.set(id, { tokens: this.#refill(id) - tokens, at: this.#now() });
  }

  /** After how many seconds there is a token, 0 when there is one now; none is taken. */
  waitSeconds(id: string): number {
    return this.#wait(this.#refill(id));
  }

  #wait(tokens: number): number {
    return tokens < 1 ? Math.max(1, Math.ceil((1 - tokens) / this.limit.perSecond)) : 0;
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
    // Where few were, as with failed logins from a whole network, each new id would look through all of them.
    this.#forgetAt = Math.max(manyRemembered, 2 * this.#buckets.size);
  }
}
