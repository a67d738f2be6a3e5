import { type Clock, PgBoss } from 'pg-boss';
import { keepAlive, plainOptions, type Sql, startTimeoutMs } from './db/client.ts';
import { rowOf, unseen } from './db/prepared.ts';
import type { Logger } from './log.ts';
import { Trouble } from './trouble.ts';

const deliverQueue = 'deliver';
const webhookQueue = 'webhook';
type QueueName = typeof deliverQueue | typeof webhookQueue;

/**
 * A wake-up for the recipients of some emails at one destination. Ids only: the rows are the truth, and a job whose
 * recipients have another `job_id` by now finds nothing to do.
 */
export interface DeliverJob {
  id: string;
  emailIds: [string, ...string[]];
  destination: string;
}

/** A wake-up for one delivery to a webhook endpoint. */
export interface WebhookJob {
  id: string;
  deliveryId: string;
  webhookId: string;
}

/** A job with its place in the queue: higher priority first, then older first. */
export type Placed<Job> = Job & { priority: number };

/** One line of jobs; each belongs to a group that can be left out. */
export interface Line<Job> {
  /** Adds the jobs inside the caller's transaction; call `wake` after the commit. */
  enqueue(tx: Sql, jobs: Placed<Job>[]): Promise<void>;
  /**
   * Takes up to `limit` jobs out of the queue, best priority and oldest first, none of the named groups. The caller claims
   * what they wake in the same transaction: from then on the claim keeps that from being lost.
   *
   * @param priority takes only jobs of this one
   */
  take(tx: Sql, limit: number, withoutGroups: string[], priority?: number): Promise<Placed<Job>[]>;
  /**
   * Tells this process's dispatcher, and soon its siblings, that there is work; other nodes find it by polling.
   *
   * @param priority the best of the new jobs, if that is known
   */
  wake(priority?: number): void;
  onWake(listener: (priority?: number) => void): void;
}

/**
 * The queue of what is to be done now. What is due later waits as rows (`next_attempt_at`) until its time. The queue itself
 * is the line of mail, in groups by destination.
 */
export interface Queue extends Line<DeliverJob> {
  /** Installs or updates the queue's schema; afterwards jobs can be enqueued. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Calls to webhook endpoints, in groups by endpoint. */
  webhooks: Line<WebhookJob>;
}

/** pg-boss runs queries of its own now and then; with its own connections it never waits for one of our transactions. */
export const ownConnections = 2;

/**
 * pg-boss times its maintenance by the time of day: after a clock is set back it would wait for as long, and if that is more
 * than 24 days its timers would end at once, again and again. Nothing that it stores comes from this clock.
 */
const steadyClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  setTimeout: (work, ms) => setTimeout(work, ms),
  clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
  setInterval: (work, ms) => setInterval(work, ms),
  clearInterval: (timer) => clearInterval(timer as NodeJS.Timeout),
};

/** The queue in this database, with connections of its own. Nothing works before `start`. */
export function createQueue(databaseUrl: string, log: Logger): Queue {
  const boss = new PgBoss({
    connectionString: databaseUrl,
    max: ownConnections,
    connectionTimeoutMillis: startTimeoutMs,
    ...keepAlive,
    options: plainOptions,
    schedule: false,
    clock: steadyClock,
  });
  const trouble = new Trouble(log, { failing: 'the queue maintenance failed' });
  boss.on('error', (error) => trouble.failed(error));
  return {
    async start() {
      await boss.start();
      for (const name of [deliverQueue, webhookQueue]) {
        await boss.createQueue(name, {
          // Nodes of the previous release keep the jobs they took. A crash of theirs uses up one of pg-boss's retries, and
          // running out of them must never be what ends an email.
          expireInSeconds: 3_600,
          retryLimit: 10_000,
          retentionSeconds: 14 * 86_400,
          deleteAfterSeconds: 3_600,
        });
      }
    },
    stop: () => boss.stop({ graceful: false }),
    ...createLine<DeliverJob, StoredDeliverJob>(boss, deliverQueue, {
      groupOf: (job) => job.destination,
      encode: ({ emailIds: [emailId, ...others], ...job }) => ({ ...job, emailId, others }),
      decode: ({ emailId, others = [], ...job }) => ({ ...job, emailIds: [emailId, ...others] }),
    }),
    webhooks: createLine<WebhookJob, Placed<WebhookJob>>(boss, webhookQueue, {
      groupOf: (job) => job.webhookId,
      encode: (job) => job,
      decode: (job) => job,
    }),
  };
}

/** A node of the previous release knows only the first email; the sweeper sees that it took the job from the others. */
type StoredDeliverJob = Omit<Placed<DeliverJob>, 'emailIds'> & { emailId: string; others?: string[] };

/** How jobs of a kind are kept. */
interface Form<Job, Stored> {
  groupOf: (job: Job) => string;
  encode: (job: Placed<Job>) => Stored;
  decode: (stored: Stored) => Placed<Job>;
}

function createLine<Job extends { id: string }, Stored extends { id: string; priority: number }>(
  boss: PgBoss,
  name: string,
  { groupOf, encode, decode }: Form<Job, Stored>,
): Line<Job> {
  const listeners = new Set<(priority?: number) => void>();
  return {
    async enqueue(tx, jobs) {
      if (jobs.length === 0) return;
      await boss.insert(
        name,
        jobs.map((job) => {
          const { id, ...data } = encode(job);
          return { id, priority: data.priority, data, group: { id: groupOf(job) } };
        }),
        inside(tx),
      );
    },
    async take(tx, limit, withoutGroups, priority) {
      const jobs = await boss.fetch<Omit<Stored, 'id'>>(name, {
        ...inside(tx),
        batchSize: limit,
        ignoreGroups: withoutGroups,
        ...(priority === undefined ? {} : { minPriority: priority, maxPriority: priority }),
      });
      if (jobs.length > 0)
        await tx.query({ name: `remove-${name}`, text: removalOf(name), values: [jobs.map(({ id }) => id)] });
      // pg-boss takes the right jobs, but returns them in any order.
      return jobs
        .map(({ id, data }) => decode({ ...data, id } as Stored))
        .sort((a, b) => b.priority - a.priority || (a.id < b.id ? -1 : 1));
    },
    wake(priority) {
      for (const listener of listeners) listener(priority);
    },
    onWake(listener) {
      listeners.add(listener);
    },
  };
}

/**
 * Removes jobs by their ids, in $1. Before version 17, PostgreSQL reads the whole queue for `id = ANY`, as pg-boss removes
 * jobs, while its statistics show the queue as empty. A queue without a partition of its own is in `job_common`.
 */
const removalOf = (name: string) =>
  `DELETE FROM pgboss.job_common WHERE ctid = ANY (ARRAY(
     SELECT place FROM unnest(${unseen('$1::uuid[]')}) AS taken (id)
      CROSS JOIN LATERAL ${rowOf('pgboss.job_common', `name = '${name}' AND id = taken.id`, 'ctid AS place')} job))`;

/** Makes pg-boss run its statements inside this transaction. */
const inside = (tx: Sql) => ({
  db: {
    executeSql: async (text: string, values?: unknown[]) => ({
      rows: await tx.query<unknown>({ ...named(text), values: values ?? [] }),
    }),
  },
});

/** The names of pg-boss's statements, by their text; it has a handful. With a name they are prepared, as ours are. */
const names = new Map<string, string>();
const mostNames = 50;

function named(text: string): { name?: string; text: string } {
  // Taking jobs uses one of several indexes: a plan made for an empty queue, and kept, would sort all of a full one.
  if (text.includes('SKIP LOCKED')) return { text };
  const name = names.get(text) ?? (names.size < mostNames ? `queue-${names.size}` : undefined);
  if (name === undefined) return { text };
  names.set(text, name);
  return { name, text };
}

/**
 * SQL that says whether the job whose id is this expression still waits. One that a node of the previous release has taken
 * does not, as that node has claimed what it wants of it. The OFFSET makes PostgreSQL look the job up by its id: otherwise
 * it reads the whole queue first, with all jobs done since it was last cleaned.
 */
export const isWaitingJob = (id: string, queue: QueueName = deliverQueue) =>
  `EXISTS (SELECT FROM pgboss.job j WHERE j.name = '${queue}' AND j.id = ${id} AND j.state < 'active' OFFSET 0)`;

/** Jobs of a kind that are taken back. */
interface TakenBack {
  queue: QueueName;
  /** SQL that lets go of the rows whose jobs are `gone`, a table of their `id` and `data`. */
  freeing: string;
  /** Jobs for each statement. */
  size: number;
}

/**
 * Takes jobs out of the queue that were made at a later time than `after`: once the clock of the database was set back, pg-boss
 * hands them out only when that time has come again. The sweeper finds rows that `freeing` leaves out because they are locked.
 *
 * @param isOver asked before each batch; true ends it early
 */
export async function takeBack(db: Sql, which: TakenBack, after: Date, isOver: () => boolean): Promise<void> {
  const { queue, freeing, size } = which;
  while (!isOver()) {
    const [row] = await db.query<{ gone: number }>({
      text: `WITH gone AS (
               DELETE FROM pgboss.job_common WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM pgboss.job_common
                  WHERE name = '${queue}' AND state < 'active' AND NOT blocked AND start_after > $1
                  LIMIT $2 FOR UPDATE SKIP LOCKED))
               RETURNING id, data),
                  freed AS (${freeing})
             SELECT count(*)::int AS gone FROM gone`,
      values: [after, size],
    });
    if ((row?.gone ?? 0) < size) return;
  }
}

/** SQL: the emails that a job of mail wakes, by its `data`. */
export const emailIdsIn = (data: string) =>
  `jsonb_array_elements_text(jsonb_build_array(${data} -> 'emailId') || coalesce(${data} -> 'others', '[]'))`;

/** SQL: the delivery that a job of webhooks wakes, by its `data`. */
export const deliveryIdIn = (data: string) => `(${data} ->> 'deliveryId')::uuid`;

/** SQL: the values of a row that no job wakes and no node holds any more. */
export const letGo = 'job_id = NULL, claimed_by = NULL, claimed_at = NULL';

/**
 * SQL: `=` between the job that a row names and another one, for rows that are found by their own key. A plain `=` says
 * that the row names a job, and the planner then reads the index of all that do, which its statistics show as empty.
 */
export const isSame = 'IS NOT DISTINCT FROM';

/** Dead rows of done jobs, in the way of whoever takes the next ones; fewer are not worth cleaning up. */
const manyDead = 20_000;
/** The planner takes a queue vacuumed with fewer jobs in it for empty, and would then sort the whole of the next burst. */
const manyWaiting = 1_000;

/**
 * Returns a function that clears away the dead rows of done jobs, if they and the waiting jobs are many: taking the next ones
 * reads past all of them, and PostgreSQL cleans up only once a minute. Several nodes may do it at once.
 */
export function sweeping(db: Sql): () => Promise<void> {
  /** What could not be cleared away last time, for instance because an old open transaction still sees it. */
  let stuck = 0;
  return async () => {
    const dead = await deadJobs(db);
    stuck = Math.min(stuck, dead);
    if (dead < manyDead || dead < 2 * stuck || !(await manyWait(db))) return;
    // Until it is done; and for the next time, if it takes longer than a statement may.
    stuck = dead;
    // Giving pages back to the disk would lock everybody out, for pages that are needed again at once.
    await db.query({ text: 'VACUUM (SKIP_LOCKED, TRUNCATE false) pgboss.job' });
    stuck = await deadJobs(db);
  };
}

async function deadJobs(db: Sql): Promise<number> {
  const [left] = await db.query<{ dead: number }>({
    text: `SELECT coalesce(sum(n_dead_tup), 0)::int AS dead
             FROM pg_partition_tree('pgboss.job') JOIN pg_stat_user_tables USING (relid)`,
  });
  return left?.dead ?? 0;
}

async function manyWait(db: Sql): Promise<boolean> {
  const [queue] = await db.query<{ waiting: number }>({
    text: `SELECT count(*)::int AS waiting
             FROM (SELECT FROM pgboss.job WHERE name IN ('${deliverQueue}', '${webhookQueue}') AND state < 'active' LIMIT ${manyWaiting}) jobs`,
  });
  return (queue?.waiting ?? 0) >= manyWaiting;
}
