import { Readable } from 'node:stream';
import type { Context } from 'koa';
import { rateLimited } from '../errors.ts';
import type { Logger } from '../log.ts';
import { Pace } from '../pace/give-way.ts';
import { Tally } from '../pace/tally.ts';
import { cutOff } from './cut-off.ts';

/** How many exports one account may run on a node: each holds the page that its client has not taken yet, up to tens of megabytes. */
export const mostExports = 2;
const retrySeconds = 30;

/** An export of at most so many bytes is held until all of it was read: some 80,000 addresses. */
const wholeUpTo = 8 * 1024 * 1024;

/** A file for a client. */
export interface Export {
  type: string;
  filename: string;
  headers?: Record<string, string>;
  pieces: AsyncGenerator<string>;
}

/** The exports under way on this node. */
export class Exports {
  readonly #underWay = new Tally<string>();

  /**
   * Answers with an export. One that is not large is sent with its length: proxies that speak HTTP/2 to clients may end an answer
   * without one in good order where we break off, and then nobody sees that the rest is missing. If a large one fails half-way, the
   * connection is cut, and the log says why.
   *
   * @throws ApiError 429 if the account has too many under way, and whatever fails before the first byte is sent
   */
  async answer(accountId: string, ctx: Context, begin: () => Promise<Export>): Promise<void> {
    const { req, res, state } = ctx;
    // Only its `close` shows that the client of a pipelined request has gone.
    const client = req.socket;
    if (this.#underWay.of(accountId) >= mostExports)
      throw rateLimited(retrySeconds, `an account may have ${mostExports} exports running at a time`);
    this.#underWay.add(accountId, 1);
    try {
      const { type, filename, headers = {}, pieces } = await begin();
      const { read, bytes, isWhole } = await readAhead(pieces, () => client.destroyed);
      const body = Readable.from(isWhole ? read : followed(read, pieces), { highWaterMark: 1 });
      const leave = () => body.destroy();
      body.once('close', () => {
        client.off('close', leave);
        this.#underWay.add(accountId, -1);
      });
      body.once('error', ({ stack }) => {
        if (client.destroyed) return;
        (state.log as Logger).error({ error: stack }, 'an export broke off');
        cutOff(res);
      });
      client.once('close', leave);
      if (client.destroyed) leave();
      ctx.type = type;
      ctx.set({ 'Content-Disposition': `attachment; filename="${filename}"`, ...headers });
      ctx.body = body;
      if (isWhole) ctx.length = bytes;
    } catch (error) {
      this.#underWay.add(accountId, -1);
      throw error;
    }
  }
}

/** Reads to the end, or until that is more than is held. */
async function readAhead(pieces: AsyncGenerator<string>, isInVain: () => boolean) {
  const read: string[] = [];
  const pace = new Pace();
  let bytes = 0;
  while (bytes <= wholeUpTo && !isInVain()) {
    const { value, done } = await pieces.next();
    if (done) return { read, bytes, isWhole: true };
    read.push(value);
    bytes += Buffer.byteLength(value);
    if (pace.isDue) await pace.giveWay();
  }
  return { read, bytes, isWhole: false };
}

async function* followed(read: string[], pieces: AsyncGenerator<string>): AsyncGenerator<string> {
  // Not held any longer than until they are sent.
  for (let piece = read.shift(); piece !== undefined; piece = read.shift()) yield piece;
  yield* pieces;
}
