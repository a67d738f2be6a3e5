import { createHash, type Hash } from 'node:crypto';
import type { Context } from 'koa';
import type { Idempotency } from '../core/idempotency.ts';
import { limits } from '../core/send-limits.ts';
import { invalidRequest } from '../errors.ts';

/**
 * The call's Idempotency-Key with what makes the call the same: method, path and body. Two bodies are the same when they
 * hold the same JSON, in whatever order of keys and with whatever white space.
 *
 * @returns null when the header is not there
 * @throws ApiError 400 when it is not 1 to 256 characters
 */
export function readIdempotency(ctx: Context, body: unknown): Idempotency | null {
  const key = ctx.req.headers['idempotency-key'];
  if (key === undefined) return null;
  if (typeof key !== 'string' || key.length === 0 || key.length > limits.idempotencyKey) {
    throw invalidRequest(`Idempotency-Key: must have 1 to ${limits.idempotencyKey} characters`);
  }
  const hash = createHash('sha256').update(`${ctx.method} ${ctx.path} `);
  addCanonical(hash, body);
  return { key, fingerprint: hash.digest() };
}

function addCanonical(hash: Hash, value: unknown): void {
  if (Array.isArray(value)) {
    hash.update('[');
    for (const item of value) {
      addCanonical(hash, item);
      hash.update(',');
    }
    hash.update(']');
  } else if (typeof value === 'object' && value !== null) {
    hash.update('{');
    for (const name of Object.keys(value).sort()) {
      hash.update(`${JSON.stringify(name)}:`);
      addCanonical(hash, (value as Record<string, unknown>)[name]);
      hash.update(',');
    }
    hash.update('}');
  } else {
    hash.update(JSON.stringify(value));
  }
}
