import type { IncomingMessage } from 'node:http';

/** What all large bodies under way together may hold in memory, in bytes. */
const mostInFlight = 256 * 1024 * 1024;
/** No account can keep the others out, however slowly it sends. */
const mostOfAccount = mostInFlight / 2;
/** Bodies of so many bytes find room whatever the large ones take: a login, a single email. They hold little more than their connection does. */
const mostOfSmall = 64 * 1024;

/** The memory for bodies that are being read and answered, shared by all connections of a process. */
export class BodyRoom {
  #taken = 0;
  readonly #takenBy = new Map<string | null, number>();
  readonly #held = new WeakMap<IncomingMessage, { accountId: string | null; bytes: number }>();

  /**
   * Takes room for what has come of a body, until it is released.
   *
   * @param accountId whose request it is; null: nobody has said so
   * @param size of what has come, in bytes
   * @returns whether there is as much
   */
  hold(req: IncomingMessage, accountId: string | null, size: number): boolean {
    if (size <= mostOfSmall) return true;
    this.#take(accountId, size - (this.#held.get(req)?.bytes ?? 0));
    this.#held.set(req, { accountId, bytes: size });
    const own = accountId === null ? 0 : (this.#takenBy.get(accountId) ?? 0);
    return this.#taken <= mostInFlight && own <= mostOfAccount;
  }

  release(req: IncomingMessage): void {
    const held = this.#held.get(req);
    if (held) this.#take(held.accountId, -held.bytes);
    this.#held.delete(req);
  }

  #take(accountId: string | null, bytes: number): void {
    this.#taken += bytes;
    const own = (this.#takenBy.get(accountId) ?? 0) + bytes;
    if (own > 0) this.#takenBy.set(accountId, own);
    else this.#takenBy.delete(accountId);
  }
}
