import type { Database } from '../../db/client.ts';
import { letGo } from '../../queue.ts';

/** In ms. */
export interface Doubt {
  /** How long a server that lost its connection to us may take to commit what it was told to. */
  lastsMs: number;
  checkEveryMs: number;
}

const usual: Doubt = { lastsMs: 120_000, checkEveryMs: 5_000 };

/**
 * Claims that were committed without their node knowing, because the answer to its COMMIT was lost with the connection,
 * as at each failover. The node is alive, so no other node frees them: it has to find them itself.
 */
export class ClaimsInDoubt {
  readonly #db: Database;
  readonly #table: 'recipients' | 'webhook_deliveries';
  readonly #doubt: Doubt;
  /** When the database last did not answer; null: nothing is in doubt. */
  #failedAt: number | null = null;
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(db: Database, table: 'recipients' | 'webhook_deliveries', doubt = usual) {
    this.#db = db;
    this.#table = table;
    this.#doubt = doubt;
  }

  /** Remembers if this claiming fails: it may have succeeded all the same. */
  async watch<T>(claiming: Promise<T>): Promise<T> {
    try {
      return await claiming;
    } catch (error) {
      this.#failedAt = performance.now();
      throw error;
    }
  }

  /**
   * After a claiming failed, frees what the node has claimed but does not hold: for `lastsMs`, and then until the database
   * has answered once, however long it is away. Call it only while the node is claiming nothing.
   *
   * @returns how many were freed
   */
  async free(nodeId: string, held: Iterable<{ jobId: string }>): Promise<number> {
    const now = performance.now();
    if (this.#failedAt === null || now < this.#checkedAt + this.#doubt.checkEveryMs) return 0;
    this.#checkedAt = now;
    const rows = await this.watch(this.#free(nodeId, held));
    if (now > this.#failedAt + this.#doubt.lastsMs) this.#failedAt = null;
    return rows.length;
  }

  #free(nodeId: string, held: Iterable<{ jobId: string }>): Promise<unknown[]> {
    return this.#db.query({
      text: `UPDATE ${this.#table} SET ${letGo}
              WHERE job_id IS NOT NULL AND claimed_by = $1 AND job_id <> ALL($2::uuid[]) RETURNING 1`,
      values: [nodeId, Array.from(held, ({ jobId }) => jobId)],
    });
  }
}
