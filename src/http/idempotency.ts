import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { Context } from 'koa';
import type { Idempotency } from '../core/accounts/idempotency.ts';
import { limits } from '../core/accounts/send-limits.ts';
import { invalidRequest } from '../errors.ts';
import { Pace } from '../pace/give-way.ts';

/** How many characters are hashed at a time. */
const hashedAtOnce = 64 * 1024;

/**
 * The call's Idempotency-Key with a fingerprint of method, path and body. Two bodies with the same JSON are the same,
 * regardless of the order of keys and of white space. Hashing a large body gives way.
 *
 * @returns null if the header is missing
 * @throws ApiError 400 if it does not have 1 to 256 characters
 */
export async function readIdempotency(ctx: Context, body: unknown): Promise<Idempotency | null> {
  const key = ctx.req.headers['idempotency-key'];
  if (key === undefined) return null;
  if (typeof key !== 'string' || key === '' || charactersOf(key) > limits.idempotencyKey) {
    throw invalidRequest(`Idempotency-Key: must have 1 to ${limits.idempotencyKey} characters`);
  }
  const hash = createHash('sha256');
  const pace = new Pace();
  // An id in the path may be in capitals; all else in it is in lower case.
  let text = `${ctx.method} ${ctx.path.toLowerCase()} `;
  for (const piece of canonical(body)) {
    text += piece;
    if (text.length < hashedAtOnce) continue;
    hash.update(text);
    text = '';
    if (pace.isDue) await pace.giveWay();
  }
  return { key, fingerprint: hash.update(text).digest() };
}

/**
 * How many characters the client wrote: Node reads each byte of a header as one, and most clients send UTF-8. The key itself
 * stays as Node read it, because keys are valid for a day, across upgrades.
 */
function charactersOf(header: string): number {
  const bytes = Buffer.from(header, 'latin1');
  return isUtf8(bytes) ? [...bytes.toString()].length : header.length;
}

/** A form that does not depend on the order of keys. Never change it: keys are valid for a day, across upgrades. */
function* canonical(value: unknown): Generator<string, void> {
  if (Array.isArray(value)) {
    yield '[';
    for (const item of value) {
      yield* canonical(item);
      yield ',';
    }
    yield ']';
  } else if (typeof value === 'object' && value !== null) {
    yield '{';
    for (const name of Object.keys(value).sort()) {
      yield `${JSON.stringify(name)}:`;
      yield* canonical((value as Record<string, unknown>)[name]);
      yield ',';
    }
    yield '}';
  } else if (typeof value === 'string' && value.length > hashedAtOnce) {
    yield '"';
    yield* escaped(value);
    yield '"';
  } else {
    yield JSON.stringify(value);
  }
}

/** The JSON between the quotes of a long string, in pieces: at once it would take as much new memory again as the file. */
function* escaped(text: string): Generator<string, void> {
  for (let at = 0; at < text.length; ) {
    let end = at + hashedAtOnce;
    // JSON.stringify would escape half of a surrogate pair.
    if (isHighSurrogate(text.charCodeAt(end - 1))) end += 1;
    yield JSON.stringify(text.slice(at, end)).slice(1, -1);
    at = end;
  }
}

const isHighSurrogate = (unit: number) => unit >= 0xd800 && unit < 0xdc00;
