import type { Database } from '../db/client.ts';
import { letGo } from '../queue.ts';

const checkEveryMs = 5_000;

/** A server that lost sight of us may take so long to commit what it was told to. */
const doubtMs = 120_000;

/**
 * Claims that were committed and whose node does not know of it, because the answer to its COMMIT was lost with the
 * connection, as at each failover. The node lives, so nobody else frees them: it has to find them itself.
 */
export class ClaimsInDoubt {
  readonly #db: Database;
  readonly #table: 'recipients' | 'webhook_deliveries';
  #until = Number.NEGATIVE_INFINITY;
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(db: Database, table: 'recipients' | 'webhook_deliveries') {
    this.#db = db;
    this.#table = table;
  }

  /** Remembers that this claiming failed, if it does: it may have succeeded all the same. */
  async watch<T>(claiming: Promise<T>): Promise<T> {
    try {
      return await claiming;
    } catch (error) {
      this.#until = performance.now() + doubtMs;
      throw error;
    }
  }

  /**
   * Frees what the node has claimed and does not hold, for a while after a claiming failed. To be called while it is
   * claiming nothing.
   *
   * @returns how many were freed
   */
  async free(nodeId: string, held: Iterable<{ jobId: string }>): Promise<number> {
    const now = performance.now();
    if (now > this.#until || now < this.#checkedAt + checkEveryMs) return 0;
    this.#checkedAt = now;
    const rows = await this.#db.query({
      text: `UPDATE ${this.#table} SET ${letGo}
              WHERE job_id IS NOT NULL AND claimed_by = $1 AND job_id <> ALL($2::uuid[]) RETURNING 1`,
      values: [nodeId, Array.from(held, ({ jobId }) => jobId)],
    });
    return rows.length;
  }
}
