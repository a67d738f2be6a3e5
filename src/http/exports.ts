import type { Readable } from 'node:stream';
import { rateLimited } from '../errors.ts';

/** Of one account on a node: each holds the page that its client has not taken, which may have tens of megabytes. */
export const mostExports = 2;
const retrySeconds = 30;

/** The exports that are being read by their clients on this node. */
export class Exports {
  readonly #underWay = new Map<string, number>();

  /**
   * @param begin makes the body, which ends when the client has taken it or is gone
   * @throws ApiError 429 when the account has as many under way as it may, and what `begin` throws
   */
  async open(accountId: string, begin: () => Readable | Promise<Readable>): Promise<Readable> {
    const others = this.#underWay.get(accountId) ?? 0;
    if (others >= mostExports)
      throw rateLimited(retrySeconds, `an account may have ${mostExports} exports under way at a time`);
    this.#underWay.set(accountId, others + 1);
    try {
      return (await begin()).once('close', () => this.#end(accountId));
    } catch (error) {
      this.#end(accountId);
      throw error;
    }
  }

  #end(accountId: string): void {
    const left = (this.#underWay.get(accountId) ?? 1) - 1;
    if (left > 0) this.#underWay.set(accountId, left);
    else this.#underWay.delete(accountId);
  }
}
