import type { IncomingMessage } from 'node:http';
import { MemoryRoom } from '../memory-room.ts';

/** Bodies of so many bytes find room whatever the large ones take: a login, a single email. They hold little more than their connection does. */
const mostOfSmall = 64 * 1024;

/** The memory for bodies that are being read and answered, shared by all connections of a process. */
export class BodyRoom {
  readonly #memory = new MemoryRoom();
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
