import type { IncomingMessage } from 'node:http';
import { MemoryRoom } from '../../pace/memory-room.ts';

/** Bodies up to this size (a login, a single email) always get room: they hold little more than their connection does. */
const mostOfSmall = 64 * 1024;

/** The memory for bodies that are being read and answered, shared by all connections of a process. */
export class BodyRoom {
  readonly #memory = new MemoryRoom();
  readonly #held = new WeakMap<IncomingMessage, { accountId: string | null; bytes: number }>();

  /**
   * Takes room for the part of a body that has arrived, until it is released.
   *
   * @param accountId the account that makes the request; null: not authenticated
   * @param size how much of the body has arrived, in bytes
   * @returns whether there is enough room
   */
  hold(req: IncomingMessage, accountId: string | null, size: number): boolean {
    if (size <= mostOfSmall) return true;
    this.#memory.take(accountId, size - (this.#held.get(req)?.bytes ?? 0));
    this.#held.set(req, { accountId, bytes: size });
    return this.#memory.isEnoughFor(accountId);
  }

  release(req: IncomingMessage): void {
    const held = this.#held.get(req);
    if (held) this.#memory.take(held.accountId, -held.bytes);
    this.#held.delete(req);
  }
}
