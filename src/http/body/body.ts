import type { IncomingMessage } from 'node:http';
import type { Context, Middleware } from 'koa';
import { ApiError, invalidRequest, payloadTooLarge, unavailable, unsupportedMediaType } from '../../errors.ts';
import { grouped } from '../../numbers.ts';
import { givingWay } from '../../pace/give-way.ts';
import { accountOf } from '../credentials/auth.ts';
import { emptiedArray, noSuchField } from '../input/validation.ts';
import { Assembly } from './assembly.ts';
import { BodyRoom } from './body-room.ts';
import { parsedAtOnce, parseInTurns, parseJson } from './json.ts';
import { readStructure } from './structure.ts';

/** More values than any honest request has: one email has a few hundred. */
const usualValues = 10_000;

/** How many bytes are searched for `\u` without giving way. */
const searchedAtOnce = 1024 * 1024;

const room = new BodyRoom();

/** A body counts as memory until its request is answered, because the request may wait for the database. */
export const releaseBody: Middleware = async (ctx, next) => {
  try {
    await next();
  } finally {
    room.release(ctx.req);
  }
};

/** A JSON object, and whether its text contains `\u`: without it, no string can have a NUL or a lone surrogate. */
export interface JsonObject {
  value: Record<string, unknown>;
  escapes: boolean;
}

/** Like `readJsonObject`, but returns only the object. */
export async function readJson(
  ctx: Context,
  limit: number,
  mostValues = usualValues,
): Promise<Record<string, unknown>> {
  return (await readJsonObject(ctx, limit, mostValues)).value;
}

/** Like `readJson`, for a call whose body is optional: no body counts as `{}`, and so does an empty array. */
export async function readOptionalJson(ctx: Context, limit: number): Promise<Record<string, unknown>> {
  if (hasNoBody(ctx)) return {};
  const refusal = typeRefusal(ctx);
  if (refusal && !hasUnknownLength(ctx)) throw refusal;
  const value = await readAll(ctx, limit, async (bytes) => {
    if (bytes.length === 0) return {};
    if (refusal) throw refusal;
    return parse(bytes, usualValues);
  });
  return demandObject(emptiedArray(value));
}

function hasNoBody(ctx: Context): boolean {
  return Number(ctx.req.headers['content-length'] ?? '0') === 0 && !hasUnknownLength(ctx);
}

/** With HTTP/2 a client may say only after the headers that it sends no body. A proxy announces one then, which turns out to be empty. */
const hasUnknownLength = (ctx: Context) => ctx.req.headers['transfer-encoding'] !== undefined;

/** No longer body is read just to name a field in the refusal. */
const strayLimit = 16 * 1024;

/**
 * For a call that takes no fields: a client that sends some expects something that the call does not do. No body and `{}` are
 * accepted, with any content type.
 *
 * @throws ApiError 400 that names the first field, or 503
 */
export async function refuseFields(ctx: Context): Promise<void> {
  if (hasNoBody(ctx)) return;
  const read = async (bytes: Buffer) => (bytes.length === 0 ? {} : parse(bytes, usualValues));
  const value = await readAll(ctx, strayLimit, read).catch((error: unknown) => {
    throw error instanceof ApiError && error.status !== 503 ? noBodyTaken() : error;
  });
  const object = asObject(emptiedArray(value));
  if (!object) throw noBodyTaken();
  const [name] = Object.keys(object);
  if (name !== undefined) throw noSuchField(name, 'none');
}

const noBodyTaken = () => invalidRequest('this call takes no body');

/**
 * Reads a JSON object of at most `limit` bytes. Its structure is checked before it is parsed: a few megabytes of brackets
 * would otherwise stop the process for seconds.
 *
 * @param shape the expected shape, for the error message
 * @throws ApiError 400, 413, 415, or 503 when too many large bodies are under way, of all accounts or of this one
 */
export async function readJsonObject(
  ctx: Context,
  limit: number,
  mostValues = usualValues,
  shape?: string,
): Promise<JsonObject> {
  const refusal = typeRefusal(ctx);
  if (refusal) throw refusal;
  return readAll(ctx, limit, async (bytes) => ({
    value: demandObject(await parse(bytes, mostValues), shape),
    escapes: await hasEscapes(bytes),
  }));
}

/** Why the body is not read, according to its headers; null if it is. */
function typeRefusal(ctx: Context): ApiError | null {
  if (ctx.request.is('application/json', '+json') === false)
    return unsupportedMediaType('the body must be JSON, with the header Content-Type: application/json');
  const charset = ctx.request.charset.toLowerCase();
  if (charset !== '' && charset !== 'utf-8' && charset !== 'utf8')
    return unsupportedMediaType('the body must be UTF-8');
  const encoding = ctx.get('Content-Encoding').toLowerCase();
  if (encoding !== '' && encoding !== 'identity') return unsupportedMediaType('the body must not be compressed');
  return null;
}

function demandObject(value: unknown, shape?: string): Record<string, unknown> {
  const object = asObject(value);
  if (!object) throw invalidRequest(`the body must be a JSON object${shape === undefined ? '' : `: ${shape}`}`);
  return object;
}

function asObject(value: unknown): Record<string, unknown> | null {
  return typeof value === 'object' && !Array.isArray(value) ? (value as Record<string, unknown> | null) : null;
}

/** @param use gets the whole body, and must not keep its bytes after its promise settles */
async function readAll<Made>(ctx: Context, limit: number, use: (bytes: Buffer) => Promise<Made>): Promise<Made> {
  const { req } = ctx;
  const accountId = accountOf(ctx);
  const declared = Number(req.headers['content-length'] ?? 0);
  const refuse = () => payloadTooLarge(`the body must have at most ${inUnits(limit)} (${grouped(limit)} bytes)`);
  if (declared > limit) throw refuse();
  const body = new Assembly(declared);
  try {
    for await (const chunk of chunksOf(req)) {
      body.add(chunk);
      const hasRoom = room.hold(req, accountId, body.size);
      if (body.size > limit) throw refuse();
      if (!hasRoom) throw unavailable('large bodies under way take the memory for all of them, or for this account', 2);
    }
    return await use(await body.bytes());
  } finally {
    body.release();
  }
}

const inUnits = (bytes: number) => (bytes < 1024 * 1024 ? `${bytes / 1024} KB` : `${bytes / 1024 / 1024} MB`);

async function* chunksOf(req: IncomingMessage): AsyncGenerator<Buffer, void> {
  try {
    // By default the iterator destroys the connection when a body is refused half-way, and the answer would be lost with it.
    yield* req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
  } catch {
    // The client hung up. The error itself looks just like that of a lost database connection.
    throw invalidRequest('the connection ended before the whole body arrived');
  }
}

/** In pieces: 50 MB of other backslashes slow the search down to a third of a second. */
async function hasEscapes(bytes: Buffer): Promise<boolean> {
  const pieces = Array.from({ length: Math.ceil(bytes.length / searchedAtOnce) }, (_, at) => at * searchedAtOnce);
  const found = await givingWay(pieces, (at) => bytes.subarray(at, at + searchedAtOnce + 1).includes('\\u'));
  return found.includes(true);
}

async function parse(bytes: Buffer, mostValues: number): Promise<unknown> {
  if (bytes.length === 0) throw invalidRequest('the body is empty: it must be a JSON object');
  const structure = readStructure(bytes, mostValues);
  if ('refusal' in structure) throw invalidRequest(structure.refusal);
  return bytes.length > parsedAtOnce ? parseInTurns(bytes, structure.lists) : parseJson(bytes);
}
