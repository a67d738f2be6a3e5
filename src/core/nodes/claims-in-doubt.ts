import type { Database } from '../../db/client.ts';
import { letGo } from '../../queue.ts';

/** Times in ms. */
export interface Doubt {
  /** How long the database may take to commit a claim after the connection was lost. */
  lastsMs: number;
  checkEveryMs: number;
}

const defaults: Doubt = { lastsMs: 120_000, checkEveryMs: 5_000 };

/**
 * Claims that were committed without their node knowing, because the answer to its COMMIT was lost with the connection,
 * as at each failover. The node is alive, so no other node frees them: it has to find them itself.
 */
export class ClaimsInDoubt {
  readonly #db: Database;
  readonly #table: 'recipients' | 'webhook_deliveries';
  readonly #doubt: Doubt;
  /** When a statement last failed; null: no claim is in doubt. */
  #failedAt: number | null = null;
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(db: Database, table: 'recipients' | 'webhook_deliveries', doubt = defaults) {
    this.#db = db;
    this.#table = table;
    this.#doubt = doubt;
  }

  /** Remembers if these claims fail: they may have been committed all the same. */
  async watch<T>(claiming: Promise<T>): Promise<T> {
    try {
      return await claiming;
    } catch (error) {
      this.#failedAt = performance.now();
      throw error;
    }
  }

  /**
   * Frees the rows that the node has claimed without knowing, if a claim has failed in the last `lastsMs`, and afterwards until
   * the database has answered once, however long it is away. Call it only while the node is claiming nothing.
   *
   * @param held all claims that the node knows of
   * @returns how many rows were freed
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
