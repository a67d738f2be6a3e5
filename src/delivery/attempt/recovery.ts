import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import type { Clock } from '../../clock.ts';
import * as outgoing from '../../core/outgoing/outgoing.ts';
import { newAttempts } from '../../core/recipients/attempts.ts';
import { type Settlement, settle } from '../../core/recipients/settlement.ts';
import { settledAtOnce } from '../../core/recipients/settlement-events.ts';
import type { Database } from '../../db/client.ts';
import { databaseCodeOf, isAway } from '../../db/errors.ts';
import type { Logger } from '../../log.ts';
import { byWeight } from '../../pace/by-weight.ts';
import type { Queue } from '../../queue.ts';
import type { RecipientResult, Session } from '../../smtp/deliver.ts';
import { type Failure, failed } from '../../smtp/replies/result.ts';
import { record } from '../outcome/attempt-record.ts';
import type { RetryPolicy } from '../outcome/schedule.ts';
import { abandonedJournals, type JournalLine, type PendingDot } from './journal.ts';

/** One dot of a journal and its results; null if the process ended before they were known. */
interface Dot {
  pending: PendingDot;
  results: RecipientResult[] | null;
}

interface Tools {
  db: Database;
  queue: Queue;
  policy: RetryPolicy;
  clock: Clock;
  log: Logger;
}

/**
 * Stores what killed processes knew: a message that a server had taken is delivered and not sent again, and one whose final
 * dot had no answer yet is an uncertain attempt, to be tried again. Must be called before the claims of dead nodes are freed.
 * A journal that cannot be stored completely is kept for the next start.
 *
 * @returns how many attempts were found that the database did not have
 */
export async function recover(tools: Tools, { folder, alone }: { folder: string; alone: boolean }): Promise<number> {
  const { log } = tools;
  let found = 0;
  for (const path of abandonedJournals(folder, alone)) {
    const dots = await read(path, log).catch((error: Error) => {
      log.error({ path, error: error.message }, 'a delivery journal cannot be read; its mail may go out twice');
      return null;
    });
    if (dots === null) continue;
    let isAllWritten = true;
    for (const emails of byWeight(byEmail(dots), settledAtOnce, recipientsOf)) {
      const written = await writeDownAll(tools, emails);
      found += written.found;
      isAllWritten &&= written.isAll;
    }
    // Another process that starts may have read it as well, and removed it.
    if (isAllWritten) await rm(path, { force: true });
  }
  if (found > 0) log.warn({ attempts: found }, 'attempts of a process that was killed were written down');
  return found;
}

async function read(path: string, log: Logger): Promise<Dot[]> {
  const dots = new Map<number, Dot>();
  for await (const text of createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY })) {
    try {
      const line = JSON.parse(text) as JournalLine;
      const dot = 'dot' in line ? { pending: line.dot, results: null } : dots.get(line.n);
      if (dot) dots.set(line.n, 'dot' in line ? dot : { ...dot, results: line.results });
    } catch {
      // The end of a file can be torn; what the lines before it say still holds.
      log.warn({ path }, 'a line of a delivery journal cannot be read');
    }
  }
  return [...dots.values()];
}

const byEmail = (dots: Dot[]) => [...Map.groupBy(dots, ({ pending }) => pending.claim.emailId).values()];

const recipientsOf = (dots: Dot[]) => dots.reduce((sum, { pending }) => sum + pending.claim.recipients.length, 0);

/** @param emails each with its dots: one that cannot be stored holds up neither the others nor the start */
async function writeDownAll(tools: Tools, emails: Dot[][]): Promise<{ found: number; isAll: boolean }> {
  try {
    return { found: await writeDown(tools, emails.flat()), isAll: true };
  } catch (error) {
    // A wrong schema or missing rights (SQLSTATE class 42) are no email's fault, and going on would send them all twice.
    if (isAway(error) || databaseCodeOf(error).startsWith('42')) throw error;
    const middle = emails.length >> 1;
    if (middle === 0) {
      const fields = { emailId: emails[0]?.[0]?.pending.claim.emailId, error: (error as Error).message };
      tools.log.error(fields, 'what a delivery journal says of an email cannot be written down; it may go out twice');
      return { found: 0, isAll: false };
    }
    const first = await writeDownAll(tools, emails.slice(0, middle));
    const second = await writeDownAll(tools, emails.slice(middle));
    return { found: first.found + second.found, isAll: first.isAll && second.isAll };
  }
}

async function writeDown({ db, queue, ...rules }: Tools, dots: Dot[]): Promise<number> {
  const emails = await outgoing.loadDue(db, [...new Set(dots.map((dot) => dot.pending.claim.emailId))]);
  const records = dots.flatMap((dot) => {
    const { claim } = dot.pending;
    const email = emails.get(claim.emailId);
    return email ? [record(rules, claim, { sessions: [sessionOf(dot)] }, email, null)] : [];
  });
  const made = records.flatMap((one) => one.attempts);
  const settlements = oneForEach(records.flatMap((one) => one.settlements));
  let found = 0;
  const told = await db.transaction((tx) =>
    settle(tx, queue, settlements, made, async () => {
      const attempts = await newAttempts(tx, made);
      found = attempts.length;
      return attempts;
    }),
  );
  if (told > 0) queue.webhooks.wake();
  return found;
}

/**
 * Keeps one settlement for each recipient of a claim, who may be in several of its dots: of two, PostgreSQL would take either.
 * A delivery is true whatever another dot came to; otherwise the last one counts.
 */
function oneForEach(settlements: Settlement[]): Settlement[] {
  const whom = ({ emailId, position }: Settlement) => `${emailId} ${position}`;
  const isDelivered = ({ status }: Settlement) => status === 'delivered';
  const reached = new Set(settlements.filter(isDelivered).map(whom));
  const kept = settlements.filter((one) => isDelivered(one) || !reached.has(whom(one)));
  return [...new Map(kept.map((one) => [`${whom(one)} ${one.jobId}`, one])).values()];
}

const unanswered: Failure = {
  phase: 'dot',
  reply: null,
  reason: 'This server was stopped after the whole message and before an answer to it. It may have been taken.',
  enhanced: null,
  class: 'other',
  permanent: false,
};

function sessionOf({ pending, results }: Dot): Session {
  const { claim, session } = pending;
  return {
    ...session,
    startedAt: new Date(session.startedAt),
    durationMs: 0,
    conversation: [],
    results: results ?? claim.recipients.map(({ address }) => failed(address, unanswered, true)),
  };
}
