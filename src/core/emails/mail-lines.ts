import type { Database, Sql } from '../../db/client.ts';
import { isBuilt } from '../../db/indexes.ts';
import { rowOf, unseen } from '../../db/prepared.ts';
import type { EmailType } from '../../generated/prisma/enums.ts';
import { newId } from '../../ids.ts';
import type { DeliverJob, Placed, Queue } from '../../queue.ts';
import type { Draft, DraftRecipient } from './draft.ts';

/**
 * The lines of recipients that are due, two for each account: transactional mail and marketing, neither of which takes room
 * from the other. What the queue holds is only the head of each line: the rest waits as rows. So however much one account
 * has waiting, taking work never walks over more than a few thousand of its jobs, and mail of another account goes ahead of
 * what is deep in that one's lines, as do its own transactional emails of its marketing.
 */

const roomInQueue = 2_000;

/** What is accepted for now may go beyond the room, so that it does not wait behind what was scheduled for this minute. */
const roomBeyond = 500;

/** What one round takes on at the most. */
const wokenAtOnce = 5_000;

/** What goes past the head of a line may go beyond both. */
const roomPast = roomInQueue + roomBeyond + 500;

/** How far into a line it is looked for what could go past its head: each looked at costs about half a microsecond. */
const lookedAt = 50_000;

/** What was looked for in vain is not looked for again for so many times as long: that takes a hundredth of the time, whatever there is to look through. */
const restPerLook = 100;
/** At the most, as mail may have come meanwhile that has to wait for it. */
const longestRestMs = 15_000;

/** Transactional mail comes before marketing; within each, accounts with little under way before those with much. */
function priorityOf(type: EmailType, ahead: number): number {
  const level = [1_000, 100, 10].findIndex((many) => ahead >= many);
  return (type === 'marketing' ? 0 : 10) + (level === -1 ? 3 : level);
}

/** Emails that one job wakes at the most. A job costs the database about as much as a recipient does. */
export const mostInJob = 10;

/** Gathers into jobs what is to be woken: of an email and a destination all at once, of a few emails together where they are alike. */
class Gathering {
  readonly jobs: Placed<DeliverJob>[] = [];
  /** By email and destination. */
  readonly #ids = new Map<string, string>();
  /** By account, destination and priority: the last one, which may have room. */
  readonly #open = new Map<string, Placed<DeliverJob>>();

  /** @returns the id of the job that wakes this email's recipients at this destination */
  add(accountId: string, emailId: string, destination: string, priority: number): string {
    const known = this.#ids.get(`${emailId} ${destination}`);
    if (known !== undefined) return known;
    const kind = `${accountId} ${priority} ${destination}`;
    const open = this.#open.get(kind);
    const hasRoom = open !== undefined && open.emailIds.length < mostInJob;
    const job: Placed<DeliverJob> = hasRoom ? open : { id: newId(), emailIds: [emailId], destination, priority };
    if (hasRoom) {
      job.emailIds.push(emailId);
    } else {
      this.jobs.push(job);
      this.#open.set(kind, job);
    }
    this.#ids.set(`${emailId} ${destination}`, job.id);
    return job.id;
  }
}

/** What is to be enqueued for recipients that are accepted together. */
export interface LinedUp {
  jobs: Placed<DeliverJob>[];
  /** Of each recipient of each draft, in order: the job that wakes it; null: it waits as a row. */
  jobIds: (string | null)[];
}

/**
 * Gives these drafts, which belong to one account, their places in the queue. What is for later gets none, nor does what the
 * account's line has no room for: those recipients wait as rows that are due.
 */
export async function lineUp(tx: Sql, accountId: string, drafts: Draft[], now: Date): Promise<LinedUp> {
  const isNow = ({ nextAttemptAt }: DraftRecipient) => nextAttemptAt !== null && nextAttemptAt <= now;
  const gathering = new Gathering();
  const ahead = new Map<EmailType, number>();
  for (const { email, recipients } of drafts) {
    if (ahead.has(email.type) || !recipients.some(isNow)) continue;
    ahead.set(email.type, await underWay(tx, accountId, email.type));
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

/** SQL: how many of an account's recipients are in the queue or being delivered, up to as many as matter. @param also AND … */
const countBusy = (accountId: string, also: string, most: number) =>
  `(SELECT count(*)::int FROM (SELECT FROM recipients b WHERE b.account_id = ${accountId} AND b.job_id IS NOT NULL ${also}
                                LIMIT ${most}) busy)`;

/** How many those of this type are. Those of the other are looked at as well: there is not much more room for them either. */
async function underWay(tx: Sql, accountId: string, type: EmailType): Promise<number> {
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
  /** Where it waits, which for rows of the release before is with transactional mail, whatever it is. */
  line: EmailType;
  type: EmailType;
  /** How many of its line have a job already. */
  busy: number;
}

/** Those of which it is known that all weeks have the index of lines. */
const indexedDatabases = new WeakSet<Database>();

async function isIndexed(db: Database): Promise<boolean> {
  if (!indexedDatabases.has(db) && (await isBuilt(db, 'recipients_line_idx'))) indexedDatabases.add(db);
  return indexedDatabases.has(db);
}

/**
 * Makes jobs for recipients whose time has come: of each account as many as its lines have room for, the longest waiting
 * of each first. While weeks from before the release are without the index of lines, both types are in one.
 *
 * @returns how many recipients were woken, and whether there may be more that could be at once
 */
export async function wakeDue(db: Database, queue: Queue): Promise<{ woken: number; more: boolean }> {
  const indexed = await isIndexed(db);
  const woken = await db.transaction(async (tx) => {
    const due = await tx.query<Due>({
      name: indexed ? 'mail-lines-due' : 'mail-lines-due-in-one',
      text: findDue(indexed ? inTwoLines : inOneLine),
    });
    if (due.length > 0) await giveJobs(tx, queue, due);
    return due.length;
  });
  if (woken > 0) queue.wake();
  return { woken, more: woken === wokenAtOnce };
}

/**
 * Makes jobs for recipients further back in lines that have no room left, as far as they are not for these destinations: the
 * head of a line may be all for one that takes little at a time, and mail to everybody else must not wait for it.
 *
 * @param supplied destinations that get nothing more for now: something of theirs is in hand
 * @returns how many recipients were woken
 */
export async function wakePast(db: Database, queue: Queue, supplied: string[]): Promise<number> {
  if (supplied.length === 0 || !(await isIndexed(db))) return 0;
  const woken = await db.transaction(async (tx) => {
    const due = await tx.query<Due>({ name: 'mail-lines-past', text: findPast(inTwoLines), values: [supplied] });
    if (due.length > 0) await giveJobs(tx, queue, due);
    return due.length;
  });
  if (woken > 0) queue.wake();
  return woken;
}

/**
 * `wakePast` with rests: each full line costs as much as there is to look through, and while one site has all of it that is
 * in vain each time. One line takes 10 to 30 ms, and is looked through each time; ten of them are not.
 *
 * @param now in ms
 */
export function wakingPast(db: Database, queue: Queue, now = () => performance.now()) {
  let restsUntil = Number.NEGATIVE_INFINITY;
  return async (supplied: string[]): Promise<number> => {
    const began = now();
    if (began < restsUntil) return 0;
    const woken = await wakePast(db, queue, supplied);
    const ended = now();
    if (woken === 0) restsUntil = ended + Math.min((ended - began) * restPerLook, longestRestMs);
    return woken;
  };
}

/** SQL: the lines, what is in one of them (of `line`), and which of that has no job. */
interface Arrangement {
  lines: string;
  isIn: (row: string, line: string) => string;
  noJob: string;
}

/**
 * In the words of `recipients_line_idx` and no others: by `job_id IS NULL` the planner finds `recipients_due_idx` as well,
 * where all that waits in the account's other line is in the way, and which it takes hangs on how old its statistics are.
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
 * SQL: `lines`, those in which something is due, with how much of each is in the queue, up to `most`. The first part steps
 * from account to account through the index, however many recipients each has in it. The second has transactional mail
 * first: materialized, or the planner counts again for each recipient.
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

/** What is looked through is not locked, what is found is, and is looked at again. */
const findPast = (arrangement: Arrangement) => `${linesOf(arrangement, roomPast)}
          SELECT due.*, lines.*, e.type
            FROM lines CROSS JOIN LATERAL (
              SELECT head.email_id, head.position
                FROM (SELECT r.email_id, r.position, r.destination, r.next_attempt_at FROM recipients r
                       WHERE ${isDue(arrangement, 'lines.account_id', 'lines.line')}
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
  const gathering = new Gathering();
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
