import type { Sql } from '../../db/client.ts';
import { unseen } from '../../db/prepared.ts';
import type { EmailStatus, RecipientStatus } from '../../generated/prisma/enums.ts';
import type { Queue } from '../../queue.ts';
import { type EventAbout, type EventType, emitAbout } from '../webhooks/webhooks.ts';
import { heldNote } from './waiting-for.ts';

/**
 * How many recipients to settle in one transaction at most: many endpoints may be told of each, with all addresses of its
 * email.
 */
export const settledAtOnce = 400;

/** The status of a recipient after an attempt, or after somebody decided about it. */
export type SettledStatus = 'delivered' | 'deferred' | 'failed' | 'suppressed';

/** A recipient whose outcome was recorded. */
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

/** An email whose last recipient was settled, and its final status. */
export interface Ended {
  email_id: string;
  status: EmailStatus;
  /** It has, or may have, recipients that were settled before. An erased one is no longer among its addresses. */
  more: boolean;
}

/**
 * Emits the events of recipients whose outcome was recorded, and of emails that ended with them.
 *
 * @returns how many webhook deliveries follow; if there are any, call `queue.webhooks.wake()` after the commit
 */
export async function emitEvents(tx: Sql, queue: Queue, settled: Settled[], ended: Ended[]): Promise<number> {
  const recipientsOf = await findRecipients(tx, ended);
  const held = await findHeld(tx, settled);
  return emitAbout(tx, queue, eventsOf(settled, ended, { recipientsOf, held }));
}

/** The events of emails of this account that ended because the last recipient that waited was canceled. */
export async function finalEventsOf(
  tx: Sql,
  accountId: string,
  canceled: Pick<Ended, 'email_id' | 'status'>[],
): Promise<EventAbout[]> {
  const recipientsOf = await findRecipients(
    tx,
    canceled.map((email) => ({ ...email, more: true })),
  );
  return canceled.flatMap(({ email_id, status }) =>
    finalEvent({ account_id: accountId, email_id }, status, recipientsOf.get(email_id) ?? []),
  );
}

/** The event of an email that ended, and the statuses of the recipients that it names. */
const finalEvents: Partial<Record<EmailStatus, { type: EventType; names: RecipientStatus[] }>> = {
  sent: { type: 'email.delivered', names: ['delivered'] },
  // No other event names the recipients that were suppressed meanwhile.
  failed: { type: 'email.failed', names: ['failed', 'suppressed'] },
  suppressed: { type: 'email.suppressed', names: ['suppressed'] },
};

/** A recipient as an event names it. */
interface Named {
  email_id: string;
  address: string;
  status: RecipientStatus;
  last_response: string | null;
}

/** What the events depend on besides the outcomes themselves. */
interface LookedUp {
  /** All recipients of the emails of which some were settled before. */
  recipientsOf: Map<string, Named[]>;
  /** The recipients that are held until somebody decides, as `keyOf` has them. */
  held: Set<string>;
}

/**
 * All recipients of emails that ended now, if some were settled before: the event of an email names everyone that it failed
 * for, not only those settled last. Runs no statement if every email was settled at once, as one to a single recipient is.
 */
async function findRecipients(tx: Sql, ended: Ended[]): Promise<LookedUp['recipientsOf']> {
  const emailIds = ended.filter(({ more, status }) => more && finalEvents[status]).map(({ email_id }) => email_id);
  if (emailIds.length === 0) return new Map();
  const recipients = await tx.query<Named>({
    name: 'settlement-recipients',
    text: `SELECT email_id, address, status::text AS status, last_response FROM recipients
            WHERE email_id = ANY(${unseen('$1::uuid[]')}::uuid[]) ORDER BY email_id, position`,
    values: [emailIds],
  });
  return Map.groupBy(recipients, ({ email_id }) => email_id);
}

/** The uncertain recipients that are held. Runs no statement if no attempt was uncertain, as hardly any is. */
async function findHeld(tx: Sql, settled: Settled[]): Promise<LookedUp['held']> {
  const emailIds = settled.filter(({ uncertain }) => uncertain).map(({ email_id }) => email_id);
  if (emailIds.length === 0) return new Set();
  const held = await tx.query<{ email_id: string; address: string }>({
    name: 'settlement-held',
    text: `SELECT email_id, address FROM recipients
            WHERE email_id = ANY(${unseen('$1::uuid[]')}::uuid[]) AND waiting_for = $2`,
    values: [emailIds, heldNote],
  });
  return new Set(held.map(keyOf));
}

const keyOf = ({ email_id, address }: { email_id: string; address: string }) => `${email_id} ${address}`;

/** For each email: the events of its recipients, and then the one of its end. */
function eventsOf(settled: Settled[], ended: Ended[], lookedUp: LookedUp): EventAbout[] {
  const finalStatuses = new Map(ended.map(({ email_id, status }) => [email_id, status]));
  return [...Map.groupBy(settled, ({ email_id }) => email_id)].flatMap(([emailId, recipients]) => {
    const events = recipients.flatMap((recipient) =>
      typesOf(recipient, lookedUp.held).map((type) => eventAbout(recipient, type, [recipient])),
    );
    const finalStatus = finalStatuses.get(emailId);
    const [first] = recipients;
    if (!finalStatus || !first) return events;
    const all: Named[] = lookedUp.recipientsOf.get(emailId) ?? recipients;
    return [...events, ...finalEvent(first, finalStatus, all)];
  });
}

type EmailKey = Pick<Settled, 'account_id' | 'email_id'>;

const eventAbout = (of: EmailKey, type: EventType, named: Named[]): EventAbout => ({
  type,
  accountId: of.account_id,
  emailId: of.email_id,
  recipients: named.map(({ address, status, last_response }) => ({ address, status, response: last_response })),
});

/** @returns none if an email that ends so has no event */
function finalEvent(of: EmailKey, finalStatus: EmailStatus, all: Named[]): EventAbout[] {
  const final = finalEvents[finalStatus];
  if (!final) return [];
  const named = all.filter(({ status }) => final.names.includes(status));
  return [eventAbout(of, final.type, named)];
}

/** The events of a recipient. One that is held is not delayed: nobody tries it again. */
function typesOf(recipient: Settled, held: ReadonlySet<string>): EventType[] {
  const { status, attempts, uncertain, undone } = recipient;
  if (status === 'delivered') return ['email.sent'];
  const isFirstDelay = status === 'deferred' && attempts === 1 && !undone && !held.has(keyOf(recipient));
  const types: EventType[] = [];
  if (uncertain) types.push('email.uncertain');
  if (isFirstDelay) types.push('email.delayed');
  return types;
}
