import type { Database } from '../../db/client.ts';
import { letGo } from '../../queue.ts';

/** In ms. */
export interface Doubt {
  /** A server that lost sight of us may take so long to commit what it was told to. */
  lastsMs: number;
  checkEveryMs: number;
}

const usual: Doubt = { lastsMs: 120_000, checkEveryMs: 5_000 };

/**
 * Claims that were committed and whose node does not know of it, because the answer to its COMMIT was lost with the
 * connection, as at each failover. The node lives, so nobody else frees them: it has to find them itself.
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

  /** Remembers that this claiming failed, if it does: it may have succeeded all the same. */
  async watch<T>(claiming: Promise<T>): Promise<T> {
    try {
      return await claiming;
    } catch (error) {
      this.#failedAt = performance.now();
      throw error;
    }
  }

  /**
   * Frees what the node has claimed and does not hold, after a claiming failed: for a while, and until the database has been
   * asked once after that, however long it is away. To be called while it is claiming nothing.
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
