import type { Sql } from '../../db/client.ts';
import { unseen } from '../../db/prepared.ts';
import type { EmailStatus } from '../../generated/prisma/enums.ts';
import type { Queue } from '../../queue.ts';
import { type EventAbout, type EventType, emitAbout } from '../webhooks/webhooks.ts';
import { heldNote } from './waiting-for.ts';

/** The status of a recipient after an attempt, or after somebody decided about it. */
export type SettledStatus = 'delivered' | 'deferred' | 'failed' | 'suppressed';

/** One recipient that was settled. */
export interface Settled {
  account_id: string;
  email_id: string;
  address: string;
  status: SettledStatus;
  attempts: number;
  last_response: string;
  uncertain: boolean;
  /** `attempts` does not count the attempt. */
  undone: boolean;
}

/**
 * Emits the events of recipients that were settled or put off, here or elsewhere, and of emails that ended with them.
 *
 * @returns how many webhook deliveries follow; if there are any, call `queue.webhooks.wake()` after the commit
 */
export async function tellOf(tx: Sql, queue: Queue, rows: (Settled | Ended)[]): Promise<number> {
  const known = { before: await settledBefore(tx, rows), held: await heldInDoubt(tx, rows) };
  return emitAbout(tx, queue, eventsOf(rows, known, new Date()));
}

/** An email whose last recipient was settled, and its final status. */
export interface Ended {
  email_id: string;
  address: null;
  status: EmailStatus;
  /** It has, or may have, recipients that were settled before. An erased one is no longer among its addresses. */
  more: boolean;
}

/** The event of an email that ended, and the statuses of the recipients that it names. */
const finalEvents: Partial<Record<EmailStatus, { type: EventType; of: string[] }>> = {
  sent: { type: 'email.delivered', of: ['delivered'] },
  // Recipients left out meanwhile are named nowhere else.
  failed: { type: 'email.failed', of: ['failed', 'suppressed'] },
  suppressed: { type: 'email.suppressed', of: ['suppressed'] },
};

/** A recipient as an event names it. */
interface Named {
  email_id: string;
  address: string;
  status: string;
  last_response: string | null;
}

/**
 * All recipients of emails that ended now and began to end before: the event names everyone that the email failed for, not
 * only those settled last. Runs no statement if every email was settled at once, as one to a single recipient is.
 */
async function settledBefore(tx: Sql, rows: (Settled | Ended)[]): Promise<Map<string, Named[]>> {
  const emailIds = rows.flatMap((row) =>
    row.address === null && row.more && finalEvents[row.status] ? [row.email_id] : [],
  );
  if (emailIds.length === 0) return new Map();
  const recipients = await tx.query<Named>({
    name: 'settlement-recipients',
    text: `SELECT email_id, address, status::text AS status, last_response FROM recipients
            WHERE email_id = ANY(${unseen('$1::uuid[]')}::uuid[]) ORDER BY email_id, position`,
    values: [emailIds],
  });
  return Map.groupBy(recipients, (one) => one.email_id);
}

/**
 * Which of the uncertain recipients are held until somebody decides, by `nameOf`: nobody will try them again, so they are not
 * delayed. Runs no statement if no attempt was uncertain, as hardly any is.
 */
async function heldInDoubt(tx: Sql, rows: (Settled | Ended)[]): Promise<Set<string>> {
  const emailIds = rows.flatMap((row) => (row.address !== null && row.uncertain ? [row.email_id] : []));
  if (emailIds.length === 0) return new Set();
  const held = await tx.query<{ email_id: string; address: string }>({
    name: 'settlement-held',
    text: `SELECT email_id, address FROM recipients
            WHERE email_id = ANY(${unseen('$1::uuid[]')}::uuid[]) AND waiting_for = $2`,
    values: [emailIds, heldNote],
  });
  return new Set(held.map(nameOf));
}

const nameOf = ({ email_id, address }: { email_id: string; address: string }) => `${email_id} ${address}`;

/** What has to be looked up besides what was settled. */
interface Known {
  before: Map<string, Named[]>;
  held: Set<string>;
}

/** An event for each recipient that was reached or delayed for the first time, and for each email that ended. */
function eventsOf(rows: (Settled | Ended)[], { before, held }: Known, createdAt: Date): EventAbout[] {
  const settled = rows.filter((row) => row.address !== null);
  const ended = new Map(rows.flatMap((row) => (row.address === null ? [[row.email_id, row.status]] : [])));
  const event = (type: EventType, row: Settled, about: Named[]): EventAbout => ({
    type,
    accountId: row.account_id,
    emailId: row.email_id,
    createdAt,
    recipients: about.map((one) => ({ address: one.address, status: one.status, response: one.last_response })),
  });
  return [...Map.groupBy(settled, (row) => row.email_id)].flatMap(([emailId, about]) => {
    const single = about.flatMap((row) => {
      if (row.status === 'delivered') return [event('email.sent', row, [row])];
      const uncertain = row.uncertain ? [event('email.uncertain', row, [row])] : [];
      const delayed = row.status === 'deferred' && row.attempts === 1 && !row.undone && !held.has(nameOf(row));
      return delayed ? [...uncertain, event('email.delayed', row, [row])] : uncertain;
    });
    const [first] = about;
    const status = ended.get(emailId);
    const final = status && finalEvents[status];
    if (!first || !final) return single;
    const concerned = (before.get(emailId) ?? about).filter(({ status }) => final.of.includes(status));
    return [...single, event(final.type, first, concerned)];
  });
}
