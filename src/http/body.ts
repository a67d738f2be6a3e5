import type { IncomingMessage } from 'node:http';
import type { Context, Middleware } from 'koa';
import { ApiError, invalidRequest, payloadTooLarge, unavailable, unsupportedMediaType } from '../errors.ts';
import { givingWay } from '../give-way.ts';
import { Assembly } from './assembly.ts';
import { accountOf } from './auth.ts';
import { BodyRoom } from './body-room.ts';
import { parsedAtOnce, parseInTurns, parseJson } from './json.ts';
import { readStructure } from './structure.ts';
import { noSuchField } from './validation.ts';

/** A count of values that no honest request reaches: one email has a few hundred. */
const usualValues = 10_000;

/** Bytes in which `\u` is looked for in one go. */
const searchedAtOnce = 1024 * 1024;

const room = new BodyRoom();

/** A body counts for what is in memory until its request is answered: it may wait for the database. */
export const releaseBody: Middleware = async (ctx, next) => {
  try {
    await next();
  } finally {
    room.release(ctx.req);
  }
};

/** A JSON object, and whether it has `\u` in it: without, its strings hold what UTF-8 can say, and no NUL. */
export interface JsonObject {
  value: Record<string, unknown>;
  escapes: boolean;
}

/** What `readJsonObject` reads, for whoever has no use for the rest. */
export async function readJson(
  ctx: Context,
  limit: number,
  mostValues = usualValues,
): Promise<Record<string, unknown>> {
  return (await readJsonObject(ctx, limit, mostValues)).value;
}

/** The same for a call in which nothing has to be said: without a body it says nothing. */
export async function readOptionalJson(ctx: Context, limit: number): Promise<Record<string, unknown>> {
  return hasNoBody(ctx) ? {} : readJson(ctx, limit);
}

function hasNoBody(ctx: Context): boolean {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = ctx.req.headers;
  return Number(length) === 0 && encoding === undefined;
}

/** More than a body has whose fields are worth a name. */
const strayLimit = 16 * 1024;

/**
 * For a call that takes no fields: whoever sends some means something that it does not do. No body and `{}` are good, whatever
 * type they say they are.
 *
 * @throws ApiError 400 that names the first of them, or 503
 */
export async function refuseFields(ctx: Context): Promise<void> {
  if (hasNoBody(ctx)) return;
  const value = await readAll(ctx, strayLimit, (bytes) => parse(bytes, usualValues)).catch((error: unknown) => {
    throw error instanceof ApiError && error.status !== 503 ? noBodyTaken() : error;
  });
  const object = asObject(value);
  if (!object) throw noBodyTaken();
  const [name] = Object.keys(object);
  if (name !== undefined) throw noSuchField(name, 'none');
}

const noBodyTaken = () => invalidRequest('this call takes no body');

/**
 * Reads a JSON object of at most `limit` bytes. Its structure is checked before it is parsed: a few megabytes of brackets
 * would otherwise stop the process for seconds.
 *
 * @param shape how the object has to look, for whoever sends something else
 * @throws ApiError 400, 413, 415, or 503 when too many large bodies are under way, of all accounts or of this one
 */
export async function readJsonObject(
  ctx: Context,
  limit: number,
  mostValues = usualValues,
  shape?: string,
): Promise<JsonObject> {
  if (ctx.request.is('application/json', '+json') === false)
    throw unsupportedMediaType('the body must be application/json');
  const charset = ctx.request.charset.toLowerCase();
  if (charset !== '' && charset !== 'utf-8' && charset !== 'utf8') throw unsupportedMediaType('the body must be UTF-8');
  const encoding = ctx.get('Content-Encoding');
  if (encoding && encoding !== 'identity') throw unsupportedMediaType('the body must not be compressed');
  const { value, escapes } = await readAll(ctx, limit, async (bytes) => ({
    value: await parse(bytes, mostValues),
    escapes: await hasEscapes(bytes),
  }));
  const object = asObject(value);
  if (!object) throw invalidRequest(`the body must be a JSON object${shape === undefined ? '' : `: ${shape}`}`);
  return { value: object, escapes };
}

/** Null for what is none. PHP writes one without members as `[]`. */
function asObject(value: unknown): Record<string, unknown> | null {
  if (Array.isArray(value)) return value.length === 0 ? {} : null;
  return typeof value === 'object' ? (value as Record<string, unknown> | null) : null;
}

/** @param use gets all of it, and has no use for it any more when it is done */
async function readAll<Made>(ctx: Context, limit: number, use: (bytes: Buffer) => Promise<Made>): Promise<Made> {
  const { req } = ctx;
  const accountId = accountOf(ctx);
  const declared = Number(req.headers['content-length'] ?? 0);
  const refuse = () => payloadTooLarge(`the body may have ${limit} bytes at the most`);
  if (declared > limit) throw refuse();
  const body = new Assembly(declared);
  try {
    for await (const chunk of chunksOf(req)) {
      body.add(chunk);
      const hasRoom = room.hold(req, accountId, body.size);
      if (body.size > limit) throw refuse();
      if (!hasRoom) throw unavailable(2);
    }
    return await use(await body.bytes());
  } finally {
    body.release();
  }
}

async function* chunksOf(req: IncomingMessage): AsyncGenerator<Buffer, void> {
  try {
    // The iterator would otherwise destroy the connection of a body that is refused half way, and the answer with it.
    yield* req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
  } catch {
    // A client that hangs up. By the error alone it could as well be the database that did.
    throw invalidRequest('the body ended before all of it was there');
  }
}

/** In pieces, as backslashes that begin something else slow the search down to a third of a second for 50 MB of them. */
async function hasEscapes(bytes: Buffer): Promise<boolean> {
  const pieces = Array.from({ length: Math.ceil(bytes.length / searchedAtOnce) }, (_, at) => at * searchedAtOnce);
  const found = await givingWay(pieces, (at) => bytes.subarray(at, at + searchedAtOnce + 1).includes('\\u'));
  return found.includes(true);
}

async function parse(bytes: Buffer, mostValues: number): Promise<unknown> {
  const structure = readStructure(bytes, mostValues);
  if ('refusal' in structure) throw invalidRequest(structure.refusal);
  return bytes.length > parsedAtOnce ? parseInTurns(bytes, structure.lists) : parseJson(bytes);
}
