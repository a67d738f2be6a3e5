import { PgBoss } from 'pg-boss';
import type { Sql } from './db/client.ts';
import type { Logger } from './log.ts';

const deliverQueue = 'deliver';

/** SQL that says whether the job whose id is this expression still waits or runs, for statements that look at many rows. */
export const isLiveJob = (id: string) =>
  `EXISTS (SELECT FROM pgboss.job j WHERE j.name = '${deliverQueue}' AND j.id = ${id} AND j.state < 'completed')`;

/**
 * A wake-up for the recipients of one email at one destination. Ids only: the rows are the truth, and a job whose
 * recipients have another `job_id` by now finds nothing to do.
 */
export interface DeliverJob {
  id: string;
  emailId: string;
  destination: string;
}

/** The queue of things to do now. What is due later waits as rows (`recipients.next_attempt_at`) until its time. */
export interface Queue {
  /** Installs or updates the queue's schema; afterwards jobs can be enqueued. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Adds the jobs inside the caller's transaction; call `wake` when that is committed. */
  enqueue(tx: Sql, jobs: (DeliverJob & { priority: number })[]): Promise<void>;
  /** Takes up to `limit` jobs, best priority and oldest first, none of the destinations named, inside the transaction. */
  take(tx: Sql, limit: number, withoutDestinations: string[]): Promise<DeliverJob[]>;
  /** Removes finished jobs inside the transaction. */
  remove(tx: Sql, jobIds: string[]): Promise<void>;
  /** Says to this process's dispatcher that there is work, which other processes find by polling. */
  wake(): void;
  onWake(listener: () => void): () => void;
}

/**
 * How long a taken job may stay active before pg-boss offers it again. It only matters for jobs whose node died between
 * two sweeps: recipients that a living node has claimed are not claimed again.
 */
const expireInSeconds = 3_600;

/** pg-boss looks things up for itself now and then; with connections of its own it never waits for one of our transactions. */
const ownConnections = 2;

export function createQueue(databaseUrl: string, log: Logger): Queue {
  const boss = new PgBoss({ connectionString: databaseUrl, max: ownConnections, schedule: false });
  boss.on('error', (error) => log.warn({ error: error.message }, 'the queue could not do its upkeep'));
  const listeners = new Set<() => void>();
  const inside = (tx: Sql) => ({
    db: {
      executeSql: async (text: string, values?: unknown[]) => ({
        rows: await tx.query<unknown>({ text, values: values ?? [] }),
      }),
    },
  });
  return {
    async start() {
      await boss.start();
      await boss.createQueue(deliverQueue, {
        expireInSeconds,
        // A crash uses up one of pg-boss's retries, and running out of them must never be what ends an email.
        retryLimit: 10_000,
        retentionSeconds: 14 * 86_400,
        deleteAfterSeconds: 3_600,
      });
    },
    stop: () => boss.stop({ graceful: false }),
    async enqueue(tx, jobs) {
      if (jobs.length === 0) return;
      await boss.insert(
        deliverQueue,
        jobs.map(({ id, emailId, destination, priority }) => ({
          id,
          priority,
          data: { emailId, destination },
          group: { id: destination },
        })),
        inside(tx),
      );
    },
    async take(tx, limit, withoutDestinations) {
      const jobs = await boss.fetch<{ emailId: string; destination: string }>(deliverQueue, {
        ...inside(tx),
        batchSize: limit,
        ignoreGroups: withoutDestinations,
      });
      return jobs.map((job) => ({ id: job.id, emailId: job.data.emailId, destination: job.data.destination }));
    },
    async remove(tx, jobIds) {
      if (jobIds.length > 0) await boss.deleteJob(deliverQueue, jobIds, inside(tx));
    },
    wake() {
      for (const listener of listeners) listener();
    },
    onWake(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
