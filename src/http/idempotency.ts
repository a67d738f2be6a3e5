import { createHash } from 'node:crypto';
import type { Context } from 'koa';
import type { Idempotency } from '../core/accounts/idempotency.ts';
import { limits } from '../core/accounts/send-limits.ts';
import { invalidRequest } from '../errors.ts';
import { Pace } from '../give-way.ts';

/** Characters that are hashed in one go. */
const hashedAtOnce = 64 * 1024;

/**
 * The call's Idempotency-Key with what makes the call the same: method, path and body. Two bodies are the same when they
 * hold the same JSON, in whatever order of keys and with whatever white space. A large one gives way.
 *
 * @returns null when the header is not there
 * @throws ApiError 400 when it is not 1 to 256 characters
 */
export async function readIdempotency(ctx: Context, body: unknown): Promise<Idempotency | null> {
  const key = ctx.req.headers['idempotency-key'];
  if (key === undefined) return null;
  if (typeof key !== 'string' || key.length === 0 || key.length > limits.idempotencyKey) {
    throw invalidRequest(`Idempotency-Key: must have 1 to ${limits.idempotencyKey} characters`);
  }
  const hash = createHash('sha256');
  const pace = new Pace();
  let text = `${ctx.method} ${ctx.path} `;
  for (const piece of canonical(body)) {
    text += piece;
    if (text.length < hashedAtOnce) continue;
    hash.update(text);
    text = '';
    if (pace.isDue) await pace.giveWay();
  }
  return { key, fingerprint: hash.update(text).digest() };
}

/** In one form, whatever the order of its keys. A key is good for a day, over an upgrade too: another form would make its call another. */
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

/** What JSON has between the quotes of a long string, in pieces: of a file it would be as much new memory again as the file takes. */
function* escaped(text: string): Generator<string, void> {
  for (let at = 0; at < text.length; ) {
    let end = at + hashedAtOnce;
    // Half of a surrogate pair would be escaped.
    if (isHighSurrogate(text.charCodeAt(end - 1))) end += 1;
    yield JSON.stringify(text.slice(at, end)).slice(1, -1);
    at = end;
  }
}

const isHighSurrogate = (unit: number) => unit >= 0xd800 && unit < 0xdc00;
