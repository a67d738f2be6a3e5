import type { Context } from 'koa';
import { rateLimited } from '../errors.ts';

/** A token bucket: `burst` requests at once, refilled with `perSecond`. */
export interface RateLimit {
  perSecond: number;
  burst: number;
}

const policyName = 'key';

/** Keys that have not called for this long have a full bucket and need not be remembered. */
const mostRemembered = 10_000;

/**
 * Counts requests of each key on this node, in memory: with several nodes behind a balancer a key may make as many
 * requests on each. Every counted answer carries `RateLimit` and `RateLimit-Policy`.
 */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #now: () => number;
  readonly #buckets = new Map<string, { tokens: number; at: number }>();

  /** @param now milliseconds that only grow */
  constructor(limit: RateLimit, now: () => number = () => performance.now()) {
    this.#limit = limit;
    this.#now = now;
  }

  /** @throws ApiError 429 with Retry-After when the key's bucket is empty */
  count(ctx: Context, keyId: string): void {
    const { perSecond, burst } = this.#limit;
    const tokens = this.#refill(keyId);
    const left = Math.max(0, tokens - 1);
    const fullIn = Math.ceil((burst - left) / perSecond);
    ctx.set('RateLimit-Policy', `"${policyName}";q=${burst};w=${Math.ceil(burst / perSecond)}`);
    ctx.set('RateLimit', `"${policyName}";r=${Math.floor(left)};t=${fullIn}`);
    if (tokens < 1) {
      const wait = Math.max(1, Math.ceil((1 - tokens) / perSecond));
      throw rateLimited(wait, `an API key may make ${perSecond} requests a second, and ${burst} at once`);
    }
    this.#buckets.set(keyId, { tokens: left, at: this.#now() });
  }

  #refill(keyId: string): number {
    const { perSecond, burst } = this.#limit;
    const bucket = this.#buckets.get(keyId);
    if (!bucket) {
      if (this.#buckets.size >= mostRemembered) this.#forgetFull();
      return burst;
    }
    return Math.min(burst, bucket.tokens + ((this.#now() - bucket.at) / 1000) * perSecond);
  }

  #forgetFull(): void {
    const { perSecond, burst } = this.#limit;
    const fullAfterMs = (burst / perSecond) * 1000;
    for (const [keyId, { at }] of this.#buckets) if (this.#now() - at >= fullAfterMs) this.#buckets.delete(keyId);
  }
}
