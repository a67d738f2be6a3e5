import type { Database, Sql } from '../../db/client.ts';
import type { ReturnKind, SuppressionReason } from '../../generated/prisma/enums.ts';
import type { Queue } from '../../queue.ts';
import type { Classification } from '../../smtp/replies/result.ts';
import { type EmailEvent, type EventType, emit } from '../webhooks/webhooks.ts';
import { isErased } from './erased.ts';
import * as suppressions from './suppressions.ts';

/** An email that something came back for, with its recipients. */
export type ReturnedEmail = EmailEvent['email'] & {
  accountId: string;
  recipients: { position: number; address: string; destination: string }[];
};

/** What came back for one recipient. Remote text is cleaned and cut before it comes here. */
export interface Returned {
  address: string;
  kind: ReturnKind;
  classification: Classification | null;
  enhancedCode: string | null;
  diagnostic: string | null;
  /** The reason for which the address goes onto the suppression list when this is first heard; null: it does not. */
  suppress: SuppressionReason | null;
}

/** @param withinDays since the email was due; null: of any age. @returns null when there is no such email, or its account is gone */
export async function find(tx: Sql, emailId: string, withinDays: number | null): Promise<ReturnedEmail | null> {
  const [email] = await tx.query<ReturnedEmail>({
    name: 'returns-email',
    text: `SELECT e.id, e.account_id AS "accountId", e."from", e."to", e.subject, e.tags, e.status, e.created_at AS "createdAt",
                  coalesce((SELECT json_agg(json_build_object('position', r.position, 'address', r.address, 'destination', r.destination)
                                            ORDER BY r.position)
                              FROM recipients r WHERE r.email_id = e.id), '[]') AS recipients
             FROM emails e JOIN accounts a ON a.id = e.account_id
            WHERE e.id = $1 AND ($2::int IS NULL OR coalesce(e.scheduled_at, e.created_at) > now() - make_interval(days => $2))`,
    values: [emailId, withinDays],
  });
  return email ?? null;
}

/**
 * Waits for an erasure that works on this email, and holds off others until the transaction ends: otherwise an address read
 * before an erasure would be written again after it. An erasure first locks all recipients of an email, so one is enough.
 */
export async function keepFromErasure(tx: Sql, emailId: string): Promise<void> {
  await tx.query({
    name: 'returns-keep-from-erasure',
    text: 'SELECT FROM recipients WHERE email_id = $1 ORDER BY position LIMIT 1 FOR SHARE',
    values: [emailId],
  });
}

/** The kinds of return that each of these emails has, each kind once. Emails without any are left out. */
export async function kindsOf(db: Database, emailIds: string[]): Promise<Map<string, ReturnKind[]>> {
  const rows = await db.query<{ email_id: string; kinds: ReturnKind[] }>({
    name: 'returns-kinds',
    text: `SELECT email_id, json_agg(DISTINCT kind ORDER BY kind) AS kinds
             FROM returns WHERE email_id = ANY($1::uuid[]) GROUP BY email_id`,
    values: [emailIds],
  });
  return new Map(rows.map(({ email_id: id, kinds }) => [id, kinds]));
}

const events: Record<ReturnKind, EventType | null> = {
  bounce: 'email.bounced',
  delay: null,
  complaint: 'email.complained',
  unsubscribe: 'email.unsubscribed',
};
const statuses = { bounce: 'bounced', delay: 'delayed', complaint: 'complained', unsubscribe: 'unsubscribed' } as const;

/**
 * Records what came back for an email, with the suppressions and events that follow. Read the email after `keepFromErasure`.
 * The statuses of the email and its recipients do not change: they are what the servers said when it was sent. A kind that
 * was heard before for a recipient changes nothing, unless a bounce now says, after another reason, that nobody is there.
 *
 * @returns what was new, and the number of webhook deliveries; if any, call `queue.webhooks.wake()` after the commit
 */
export async function record(
  tx: Sql,
  queue: Queue,
  email: ReturnedEmail,
  heard: Returned[],
): Promise<{ news: Returned[]; webhookDeliveries: number }> {
  // Nothing is recorded for an erased recipient: the words of a notice would bring the address back.
  const returned = onceEach(heard.filter(({ address }) => !isErased(address)));
  const column = (read: (one: Returned) => string | null) => returned.map(read);
  const inserted = await tx.query<{ recipient: string; kind: ReturnKind; receivedAt: Date }>({
    name: 'returns-insert',
    text: `INSERT INTO returns (account_id, email_id, recipient, kind, classification, enhanced_code, diagnostic)
           SELECT $1::uuid, $2::uuid, * FROM unnest($3::text[], $4::return_kind[], $5::text[], $6::text[], $7::text[])
           ON CONFLICT (email_id, recipient, kind) DO UPDATE
              SET classification = excluded.classification, enhanced_code = excluded.enhanced_code, diagnostic = excluded.diagnostic, received_at = now()
            WHERE returns.kind = 'bounce' AND excluded.classification IN ('bad_mailbox', 'bad_domain') AND coalesce(excluded.enhanced_code, '5') NOT LIKE '4%'
              AND (returns.classification NOT IN ('bad_mailbox', 'bad_domain') OR returns.enhanced_code LIKE '4%')
           RETURNING recipient, kind, received_at AS "receivedAt"`,
    values: [
      email.accountId,
      email.id,
      column((one) => one.address),
      column((one) => one.kind),
      column((one) => one.classification),
      column((one) => one.enhancedCode),
      column((one) => one.diagnostic),
    ],
  });
  const [first] = inserted;
  if (!first) return { news: [], webhookDeliveries: 0 };
  const isNew = new Set(inserted.map(({ recipient, kind }) => `${kind} ${recipient}`));
  const news = returned.filter(({ kind, address }) => isNew.delete(`${kind} ${address}`));
  await suppressions.addAll(
    tx,
    news.flatMap(({ address, suppress }) =>
      suppress ? [{ accountId: email.accountId, address, reason: suppress, emailId: email.id }] : [],
    ),
  );
  return { news, webhookDeliveries: await emit(tx, queue, eventsOf(email, news, first.receivedAt)) };
}

/** One event for each kind of return that endpoints can subscribe to. */
function eventsOf(email: ReturnedEmail, news: Returned[], createdAt: Date): EmailEvent[] {
  return [...Map.groupBy(news, ({ kind }) => kind)].flatMap(([kind, returned]) => {
    const type = events[kind];
    const status = statuses[kind];
    const recipients = returned.map(({ address, diagnostic }) => ({ address, status, response: diagnostic }));
    return type ? [{ type, accountId: email.accountId, createdAt, email, recipients }] : [];
  });
}

/** A notice may say several things of one kind about one recipient: what suppresses the address wins. */
function onceEach(heard: Returned[]): Returned[] {
  const said = new Map<string, Returned>();
  for (const one of heard) {
    const name = `${one.kind} ${one.address}`;
    if (!said.get(name)?.suppress) said.set(name, one.suppress ? one : (said.get(name) ?? one));
  }
  return [...said.values()];
}

/**
 * Finds the email and records what came back for it, in one transaction.
 *
 * @param withinDays as for `find`
 * @returns what was new; empty without an email
 */
export async function recordFor(
  db: Database,
  queue: Queue,
  { emailId, withinDays }: { emailId: string; withinDays: number | null },
  returnedFor: (email: ReturnedEmail) => Returned[],
): Promise<Returned[]> {
  const { news, webhookDeliveries } = await db.transaction(async (tx) => {
    await keepFromErasure(tx, emailId);
    const email = await find(tx, emailId, withinDays);
    const returned = email ? returnedFor(email) : [];
    return email && returned.length > 0 ? record(tx, queue, email, returned) : { news: [], webhookDeliveries: 0 };
  });
  if (webhookDeliveries > 0) queue.webhooks.wake();
  return news;
}
