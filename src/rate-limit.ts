/** A token bucket: `burst` tokens at once, refilled with `perSecond`. */
export interface RateLimit {
  perSecond: number;
  burst: number;
}

/** Holders of buckets that were left alone for long have a full one and need not be remembered. */
const mostRemembered = 10_000;

/** A bucket of tokens for each id, in the memory of this node: on several nodes an id has as many buckets. */
export class TokenBuckets {
  readonly limit: RateLimit;
  readonly #now: () => number;
  readonly #buckets = new Map<string, { tokens: number; at: number }>();

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
    if (waitSeconds === 0) this.#buckets.set(id, { tokens: left, at: this.#now() });
    return { left, waitSeconds };
  }

  /** After how many seconds there is a token, 0 when there is one now; none is taken. */
  waitSeconds(id: string): number {
    return this.#wait(this.#refill(id));
  }

  #wait(tokens: number): number {
    return tokens < 1 ? Math.max(1, Math.ceil((1 - tokens) / this.limit.perSecond)) : 0;
  }

  #refill(id: string): number {
    const { perSecond, burst } = this.limit;
    const bucket = this.#buckets.get(id);
    if (!bucket) {
      if (this.#buckets.size >= mostRemembered) this.#forgetFull();
      return burst;
    }
    return Math.min(burst, bucket.tokens + ((this.#now() - bucket.at) / 1000) * perSecond);
  }

  #forgetFull(): void {
    const { perSecond, burst } = this.limit;
    const fullAfterMs = (burst / perSecond) * 1000;
    for (const [id, { at }] of this.#buckets) if (this.#now() - at >= fullAfterMs) this.#buckets.delete(id);
  }
}
