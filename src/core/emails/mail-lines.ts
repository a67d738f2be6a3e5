import type { Database, Sql, Statement } from '../../db/client.ts';
import { isBuilt } from '../../db/indexes.ts';
import { rowOf, unseen } from '../../db/prepared.ts';
import type { EmailType } from '../../generated/prisma/enums.ts';
import { newId } from '../../ids.ts';
import type { DeliverJob, Placed, Queue } from '../../queue.ts';
import type { Draft, DraftRecipient } from './draft.ts';

/**
 * The lines of recipients that are due, two for each account: transactional mail and marketing, neither of which takes room
 * from the other. The queue holds only the head of each line; the rest waits as rows. So taking work never reads more than a
 * few thousand jobs of an account, however much of its mail waits. Other accounts' mail overtakes what is deep in its lines,
 * and its own transactional mail overtakes its marketing.
 */

/** The most recipients of a line that are in the queue or being delivered. */
const roomInQueue = 2_000;

/** Mail that is sent at once may use this much more, so that it does not wait behind mail that was scheduled for this minute. */
const roomBeyond = 500;

/** Mail that is woken past the head of a line may use even more. */
const roomPast = roomInQueue + roomBeyond + 500;

/** The most recipients that one round wakes. */
const wokenAtOnce = 5_000;

/** How far into a line to look for mail to wake past its head: each row costs about half a microsecond. */
const lookedAt = 50_000;

/** After a search in vain, the rest is this many times as long: so searching takes a hundredth of the time at most. */
const restPerSearch = 100;
/** The longest rest: mail that is accepted meanwhile may have to wait for its end. */
const longestRestMs = 15_000;

/** Transactional mail comes before marketing; within each, accounts with little under way before those with much. */
function priorityOf(type: EmailType, ahead: number): number {
  const level = [1_000, 100, 10].findIndex((many) => ahead >= many);
  return (type === 'marketing' ? 0 : 10) + (level === -1 ? 3 : level);
}

/** The priorities of mail from accounts with little under way, transactional mail first. */
export const prioritiesOfFirst = [priorityOf('transactional', 0), priorityOf('marketing', 0)];

/** The most emails that one job wakes. They share jobs because a job costs the database about as much as a recipient. */
export const mostInJob = 10;

/** Gathers recipients into jobs: those of an email at one destination, and several emails of the same kind, share one. */
class JobGathering {
  readonly jobs: Placed<DeliverJob>[] = [];
  /** By email and destination. */
  readonly #ids = new Map<string, string>();
  /** The last job by account, priority and destination, which may have room. */
  readonly #latest = new Map<string, Placed<DeliverJob>>();

  /** @returns the id of the job that wakes this email's recipients at this destination */
  add(accountId: string, emailId: string, destination: string, priority: number): string {
    const known = this.#ids.get(`${emailId} ${destination}`);
    if (known !== undefined) return known;
    const job = this.#jobFor(emailId, destination, priority, `${accountId} ${priority} ${destination}`);
    this.#ids.set(`${emailId} ${destination}`, job.id);
    return job.id;
  }

  #jobFor(emailId: string, destination: string, priority: number, kind: string): Placed<DeliverJob> {
    const latest = this.#latest.get(kind);
    if (latest && latest.emailIds.length < mostInJob) {
      latest.emailIds.push(emailId);
      return latest;
    }
    const job: Placed<DeliverJob> = { id: newId(), emailIds: [emailId], destination, priority };
    this.jobs.push(job);
    this.#latest.set(kind, job);
    return job;
  }
}

/** The jobs to enqueue for emails that are accepted together. */
export interface LinedUp {
  jobs: Placed<DeliverJob>[];
  /** The job of each recipient of each draft, in order; null: it waits as a row. */
  jobIds: (string | null)[];
}

/**
 * Gives these drafts of one account their places in the queue. Scheduled recipients get none, nor do those that the account's
 * line has no room for: they wait as rows.
 */
export async function lineUp(tx: Sql, accountId: string, drafts: Draft[], now: Date): Promise<LinedUp> {
  const isNow = ({ nextAttemptAt }: DraftRecipient) => nextAttemptAt !== null && nextAttemptAt <= now;
  const gathering = new JobGathering();
  const ahead = new Map<EmailType, number>();
  for (const { email, recipients } of drafts) {
    if (ahead.has(email.type) || !recipients.some(isNow)) continue;
    ahead.set(email.type, await countUnderWay(tx, accountId, email.type));
  }
  const jobIds = drafts.flatMap(({ email, recipients }) => {
    const woken = recipients.filter(isNow).length;
    const before = ahead.get(email.type) ?? 0;
    if (woken === 0 || before + woken > roomInQueue + roomBeyond) return recipients.map(() => null);
    const priority = priorityOf(email.type, before);
    ahead.set(email.type, before + woken);
    return recipients.map(({ destination }) => gathering.add(accountId, email.id, destination, priority));
  });
  return { jobs: gathering.jobs, jobIds };
}

/**
 * SQL: how many of an account's recipients `b` are in the queue or being delivered, counted up to `most`.
 *
 * @param also another condition, with AND before it
 */
const countBusy = (accountId: string, also: string, most: number) =>
  `(SELECT count(*)::int FROM (SELECT FROM recipients b WHERE b.account_id = ${accountId} AND b.job_id IS NOT NULL ${also}
                                LIMIT ${most}) busy)`;

/** The same for one line. Recipients of the other are read as well, but there is not much more room for those. */
async function countUnderWay(tx: Sql, accountId: string, type: EmailType): Promise<number> {
  const [row] = await tx.query<{ busy: number }>({
    name: 'mail-lines-under-way',
    text: `SELECT ${countBusy('$1', `AND b.type = ${unseen('$2::email_type')}`, roomInQueue + roomBeyond)} AS busy`,
    values: [accountId, type],
  });
  return row?.busy ?? 0;
}

interface Due {
  email_id: string;
  position: number;
  destination: string;
  account_id: string;
  /** The line that it waits in; a row of the previous release is in the transactional one, whatever its type. */
  line: EmailType;
  type: EmailType;
  /** How many recipients of its line have a job already. */
  busy: number;
}

/** Whether the index of lines is there in all weeks. */
const isIndexed = (db: Database): Promise<boolean> => isBuilt(db, 'recipients_line_idx');

/**
 * Makes jobs for recipients that are due: of each account as many as its lines have room for, those that have waited longest
 * first. As long as weeks from before this release lack the index of lines, both types share one line.
 *
 * @returns how many recipients were woken, and whether there may be more that could be at once
 */
export async function wakeDue(db: Database, queue: Queue): Promise<{ woken: number; more: boolean }> {
  const search = (await isIndexed(db))
    ? { name: 'mail-lines-due', text: findDue(inTwoLines) }
    : { name: 'mail-lines-due-in-one', text: findDue(inOneLine) };
  const woken = await wake(db, queue, search);
  return { woken, more: woken === wokenAtOnce };
}

/**
 * Makes jobs for recipients further back in lines that have no room left, except for these destinations. The whole head of a
 * line may be for one destination that takes little at a time, and mail to others must not wait for it.
 *
 * @param supplied destinations that get no more for now, because some of their mail is in hand
 * @returns how many recipients were woken
 */
export async function wakePast(db: Database, queue: Queue, supplied: string[]): Promise<number> {
  if (supplied.length === 0 || !(await isIndexed(db))) return 0;
  return wake(db, queue, { name: 'mail-lines-past', text: findPast, values: [supplied] });
}

/** Makes jobs for what this statement finds and locks. @returns how many recipients */
async function wake(db: Database, queue: Queue, search: Statement): Promise<number> {
  const woken = await db.transaction(async (tx) => {
    const due = await tx.query<Due>(search);
    if (due.length > 0) await giveJobs(tx, queue, due);
    return due.length;
  });
  if (woken > 0) queue.wake();
  return woken;
}

/**
 * `wakePast` with rests after a search in vain: if a full line is all for one site, each search reads it to its end. One such
 * line takes 10 to 30 ms and is searched each time; ten of them are not.
 *
 * @param now a clock in ms
 */
export function wakingPast(db: Database, queue: Queue, now = () => performance.now()) {
  let restsUntil = Number.NEGATIVE_INFINITY;
  return async (supplied: string[]): Promise<number> => {
    const began = now();
    if (began < restsUntil) return 0;
    const woken = await wakePast(db, queue, supplied);
    const ended = now();
    if (woken === 0) restsUntil = ended + Math.min((ended - began) * restPerSearch, longestRestMs);
    return woken;
  };
}

/** SQL: how an account's mail is divided into lines. */
interface Arrangement {
  /** An array of the lines. */
  lines: string;
  /** The condition that this row is in this line, with AND before it. */
  isIn: (row: string, line: string) => string;
  /** The condition that `r` has no job. */
  noJob: string;
}

/**
 * Has exactly the conditions of `recipients_line_idx`: with `job_id IS NULL` the planner also considers `recipients_due_idx`,
 * in which mail of the account's other line is in the way, and its choice depends on how old its statistics are.
 */
const inTwoLines: Arrangement = {
  lines: 'enum_range(NULL::email_type)',
  isIn: (row, line) => `AND ${row}.type = ${line}`,
  noJob: 'num_nonnulls(r.job_id) = 0',
};

const inOneLine: Arrangement = {
  lines: `ARRAY['transactional'::email_type]`,
  isIn: () => '',
  noJob: 'r.job_id IS NULL',
};

const isDue = ({ isIn, noJob }: Arrangement, accountId: string, line: string) =>
  `r.account_id = ${accountId} ${isIn('r', line)} AND ${noJob} AND r.next_attempt_at <= now()`;

/**
 * SQL: `lines`, those in which something is due, with how many of each are under way (`busy`), up to `most`. `waiting` steps
 * through the index from account to account, however many recipients each has. `lines` has transactional mail first; it is
 * materialized, or the planner would count again for each recipient.
 */
const linesOf = (arrangement: Arrangement, most: number) => `WITH RECURSIVE waiting AS (
            (SELECT account_id FROM recipients WHERE job_id IS NULL AND next_attempt_at IS NOT NULL
              ORDER BY account_id LIMIT 1)
            UNION ALL
            SELECT (SELECT r.account_id FROM recipients r
                     WHERE r.job_id IS NULL AND r.next_attempt_at IS NOT NULL AND r.account_id > waiting.account_id
                     ORDER BY r.account_id LIMIT 1)
              FROM waiting WHERE waiting.account_id IS NOT NULL),
          lines AS MATERIALIZED (
            SELECT account_id, line, ${countBusy('waiting.account_id', arrangement.isIn('b', 'line'), most)} AS busy
              FROM waiting CROSS JOIN unnest(${arrangement.lines}) line
             WHERE account_id IS NOT NULL
               AND (SELECT true FROM recipients r WHERE ${isDue(arrangement, 'waiting.account_id', 'line')} ORDER BY r.next_attempt_at LIMIT 1)
             ORDER BY line)`;

const findDue = (arrangement: Arrangement) => `${linesOf(arrangement, roomInQueue)}
          SELECT due.*, lines.*, e.type
            FROM lines CROSS JOIN LATERAL (
              SELECT r.email_id, r.position, r.destination FROM recipients r
               WHERE ${isDue(arrangement, 'lines.account_id', 'lines.line')}
               ORDER BY r.next_attempt_at LIMIT ${roomInQueue} - lines.busy
                 FOR UPDATE SKIP LOCKED) due
           CROSS JOIN LATERAL ${rowOf('emails', 'id = due.email_id')} e
           LIMIT ${wokenAtOnce}`;

/** The search locks nothing; the rows that it finds are locked, and checked again. */
const findPast = `${linesOf(inTwoLines, roomPast)}
          SELECT due.*, lines.*, e.type
            FROM lines CROSS JOIN LATERAL (
              SELECT head.email_id, head.position
                FROM (SELECT r.email_id, r.position, r.destination, r.next_attempt_at FROM recipients r
                       WHERE ${isDue(inTwoLines, 'lines.account_id', 'lines.line')}
                       ORDER BY r.next_attempt_at LIMIT ${lookedAt}) head
               WHERE head.destination <> ALL($1)
               ORDER BY head.next_attempt_at LIMIT ${roomPast} - lines.busy) found
           CROSS JOIN LATERAL (
              SELECT r.email_id, r.position, r.destination FROM recipients r
               WHERE r.email_id = found.email_id AND r.position = found.position AND r.job_id IS NULL AND r.next_attempt_at <= now()
                 FOR UPDATE SKIP LOCKED) due
           CROSS JOIN LATERAL ${rowOf('emails', 'id = due.email_id')} e
           WHERE lines.busy >= ${roomInQueue}
           LIMIT ${wokenAtOnce}`;

async function giveJobs(tx: Sql, queue: Queue, due: Due[]): Promise<void> {
  const gathering = new JobGathering();
  const ahead = new Map<string, number>();
  const jobIds = due.map(({ email_id: emailId, destination, type, account_id: accountId, line, busy }) => {
    const before = ahead.get(`${accountId} ${line}`) ?? busy;
    ahead.set(`${accountId} ${line}`, before + 1);
    return gathering.add(accountId, emailId, destination, priorityOf(type, before));
  });
  await tx.query({
    name: 'mail-lines-wake',
    text: `UPDATE recipients r SET job_id = due.job_id
             FROM unnest(${unseen('$1::uuid[]')}, ${unseen('$2::smallint[]')}, ${unseen('$3::uuid[]')}) AS due (email_id, position, job_id)
            WHERE r.email_id = due.email_id AND r.position = due.position`,
    values: [due.map((row) => row.email_id), due.map((row) => row.position), jobIds],
  });
  await queue.enqueue(tx, gathering.jobs);
}
