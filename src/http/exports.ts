import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { rateLimited } from '../errors.ts';
import { Tally } from '../tally.ts';

/** Of one account on a node: each holds the page that its client has not taken, which may have tens of megabytes. */
export const mostExports = 2;
const retrySeconds = 30;

/** The exports that are being read by their clients on this node. */
export class Exports {
  readonly #underWay = new Tally<string>();

  /**
   * @param client is gone when this is closed: of a request that stands behind another one nobody else says so
   * @param begin makes the body, which ends when the client has taken it or is gone
   * @throws ApiError 429 when the account has as many under way as it may, and what `begin` throws
   */
  async open(accountId: string, client: Socket, begin: () => Readable | Promise<Readable>): Promise<Readable> {
    if (this.#underWay.of(accountId) >= mostExports)
      throw rateLimited(retrySeconds, `an account may have ${mostExports} exports under way at a time`);
    this.#underWay.add(accountId, 1);
    try {
      const body = await begin();
      const leave = () => body.destroy();
      body.once('close', () => {
        client.off('close', leave);
        this.#underWay.add(accountId, -1);
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
