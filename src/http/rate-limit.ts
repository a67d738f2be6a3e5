import type { Context } from 'koa';
import { rateLimited } from '../errors.ts';
import { grouped } from '../numbers.ts';
import { TokenBuckets } from '../pace/rate-limit.ts';

const policyName = 'key';

/**
 * Counts the requests of each key in memory, on this node: behind a load balancer, the limit of a key applies to each node
 * separately. The processes of one node share their counts (`shareBuckets`). Every counted answer has the headers `RateLimit`
 * and `RateLimit-Policy`.
 */
export class RateLimiter extends TokenBuckets {
  /** @throws ApiError 429 with Retry-After if the key's bucket is empty */
  count(ctx: Context, keyId: string): void {
    const { perSecond, burst } = this.limit;
    const { left, waitSeconds } = this.take(keyId);
    const fullIn = Math.ceil((burst - left) / perSecond);
    ctx.set('RateLimit-Policy', `"${policyName}";q=${burst};w=${Math.ceil(burst / perSecond)}`);
    ctx.set('RateLimit', `"${policyName}";r=${Math.floor(left)};t=${fullIn}`);
    if (waitSeconds > 0)
      throw rateLimited(
        waitSeconds,
        `an API key may make ${grouped(perSecond)} requests per second, in bursts of up to ${grouped(burst)}: wait and retry; Retry-After says how long`,
      );
  }
}
