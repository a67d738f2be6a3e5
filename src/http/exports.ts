import type { Readable } from 'node:stream';
import type { Context } from 'koa';
import { rateLimited } from '../errors.ts';
import type { Logger } from '../log.ts';
import { Tally } from '../pace/tally.ts';
import { cutOff } from './cut-off.ts';

/** How many exports one account may run on a node: each holds the page that its client has not taken yet, up to tens of megabytes. */
export const mostExports = 2;
const retrySeconds = 30;

/** The exports under way on this node. */
export class Exports {
  readonly #underWay = new Tally<string>();

  /**
   * If the body fails half-way, the connection is cut, and the log says why.
   *
   * @param begin makes the body, which closes when the client has taken it or has gone
   * @throws ApiError 429 if the account has too many under way, and whatever `begin` throws
   */
  async open(
    accountId: string,
    { req, res, state }: Context,
    begin: () => Readable | Promise<Readable>,
  ): Promise<Readable> {
    // Only its `close` shows that the client of a pipelined request has gone.
    const client = req.socket;
    if (this.#underWay.of(accountId) >= mostExports)
      throw rateLimited(retrySeconds, `an account may have ${mostExports} exports running at a time`);
    this.#underWay.add(accountId, 1);
    try {
      const body = await begin();
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
      return body;
    } catch (error) {
      this.#underWay.add(accountId, -1);
      throw error;
    }
  }
}
