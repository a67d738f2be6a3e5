import * as warmUp from '../../core/sources/warm-up.ts';
import type { Database } from '../../db/client.ts';
import { isUnavailable } from '../../db/errors.ts';

/** A new address, and the most messages that it may send today. */
export interface Budget {
  ip: string;
  cap: number;
}

/**
 * What new addresses may still send on a day. The database counts for all nodes and decides; the copy here is at most some
 * seconds behind, and saves asking for what is used up.
 */
export class WarmUpBudget {
  readonly #db: Database;
  #day = '';
  readonly #sent = new Map<string, number>();
  readonly #unused = new Map<string, warmUp.Unused>();

  constructor(db: Database) {
    this.#db = db;
  }

  get day(): string {
    return this.#day;
  }

  startDay(day: string): void {
    this.#day = day;
    this.#sent.clear();
  }

  /** How many messages this address has had today, as far as is known here. */
  sent(ip: string): number {
    return this.#sent.get(ip) ?? 0;
  }

  /** How many more messages it may have today, as far as is known here. */
  room({ ip, cap }: Budget): number {
    return cap - this.sent(ip);
  }

  /**
   * Reserves messages of this day, each address once, with one statement.
   *
   * @returns for each ask, in their order, how many it got, and the number of the first of them on that day
   */
  async reserve(asks: (Budget & { messages: number })[]): Promise<{ granted: number; first: number }[]> {
    const day = this.#day;
    const grants = await warmUp.reserve(this.#db, day, asks);
    return asks.map((ask) => {
      const { granted, messages } = grants.find(({ ip }) => ip === ask.ip) ?? { granted: 0, messages: ask.cap };
      // If the grant was short there is no more, whatever this node's plan says.
      if (day === this.#day) this.#sent.set(ask.ip, granted < ask.messages ? Math.max(messages, ask.cap) : messages);
      return { granted, first: messages - granted + 1 };
    });
  }

  /** Notes what was reserved and not sent, for the next `giveBack`. */
  noteUnused({ ip, day, messages }: warmUp.Unused): void {
    if (messages <= 0) return;
    const key = `${ip} ${day}`;
    this.#unused.set(key, { ip, day, messages: messages + (this.#unused.get(key)?.messages ?? 0) });
  }

  /** Gives it to other messages, on any node; if the database does not answer, nobody gets it. */
  async giveBack(): Promise<void> {
    const unused = [...this.#unused.values()];
    if (unused.length === 0) return;
    this.#unused.clear();
    try {
      await warmUp.giveBack(this.#db, unused);
    } catch (error) {
      // The statement may have succeeded with its answer lost: giving back twice would let more leave than the cap.
      if (isUnavailable(error)) throw error;
      for (const one of unused) this.noteUnused(one);
      throw error;
    }
    for (const { ip, day, messages } of unused) {
      if (day === this.#day) this.#sent.set(ip, Math.max(0, this.sent(ip) - messages));
    }
  }

  /** Takes over what the database has counted. */
  correct(ip: string, sent: number): void {
    this.#sent.set(ip, sent);
  }
}
