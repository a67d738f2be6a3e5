import type { Sql } from '../../db/client.ts';
import { comparable } from '../../mail/address/address.ts';
import { isErased, markOf } from '../returns/erased.ts';
import type { Work } from './erasures.ts';
import type { Redaction } from './redaction.ts';

/** An email that names the address among its recipients and is being erased from. */
export interface AffectedEmail {
  id: string;
  /** The address as its recipient has it, the recipient's position, and the mark that replaces the address. */
  address: string;
  position: number;
  mark: string;
  /** All other recipients, if any, are erased too. */
  alone: boolean;
  /** The reply of a server about this recipient alone: it may identify a person even without an address. */
  ownReply: string | null;
}

export interface RecipientRow {
  email_id: string;
  position: number;
  address: string;
  last_response: string | null;
  claimed: boolean;
  waits: boolean;
}

/** Whether a recipient has the address. */
export const hasAddress = (redaction: Redaction) => (recipient: RecipientRow) =>
  comparable(recipient.address) === redaction.address;

/** The most that one search finds. A recipient of alarms may have 100,000 emails, and each search reads all of them. */
const foundAtOnce = 10_000;

export interface FoundEmails {
  ids: readonly string[];
  /** False if the search ended before the last one. */
  areAll: boolean;
}

/**
 * The account's emails that name the address among their recipients, oldest first.
 *
 * @param only SQL: a condition on the emails
 * @param after only emails after this one; null: all
 */
export async function findNaming(
  tx: Sql,
  { accountId, redaction }: Work,
  only: string,
  after: string | null,
): Promise<FoundEmails> {
  const rows = await tx.query<{ id: string }>({
    // Materialized, or the planner walks over all of the account's emails to get them in order.
    text: `WITH found AS MATERIALIZED (
             SELECT id FROM emails WHERE account_id = $1 AND recipient_addresses @> ARRAY[$2::text] AND ${only})
           SELECT id FROM found WHERE $3::uuid IS NULL OR id > $3 ORDER BY id LIMIT $4`,
    values: [accountId, redaction.address, after, foundAtOnce],
  });
  return { ids: rows.map(({ id }) => id), areAll: rows.length < foundAtOnce };
}

/** The same, without the emails that a node holds. */
export async function findFree(tx: Sql, work: Work): Promise<FoundEmails> {
  const { ids, areAll } = await findNaming(tx, work, 'true', null);
  const busy = await busyOf(tx, ids);
  return { ids: ids.filter((id) => !busy.has(id)), areAll };
}

/** Those of these emails that still name the address: another node may have erased it, or the email may be gone. */
export async function stillNaming(tx: Sql, { redaction }: Work, ids: string[]): Promise<string[]> {
  const rows = await tx.query<{ id: string }>({
    text: 'SELECT id FROM emails WHERE id = ANY($1) AND $2 = ANY(recipient_addresses) ORDER BY id',
    values: [ids, redaction.address],
  });
  return rows.map(({ id }) => id);
}

/**
 * Whether any email is left to erase from. Emails accepted after the request do not count, or an erasure would never end for
 * a recipient who gets one every second; the minute covers a node whose clock is ahead. Those that seem to come from the
 * future are older than the request: the database has failed over to a server whose clock is behind.
 */
export async function isEmailLeft(tx: Sql, { id, accountId, redaction }: Work): Promise<boolean> {
  const rows = await tx.query({
    // Materialized as in `findNaming`: with the limit alone the planner walks over all of the account's emails to find none.
    text: `WITH found AS MATERIALIZED (
             SELECT created_at FROM emails WHERE account_id = $1 AND recipient_addresses @> ARRAY[$2::text])
           SELECT FROM found
            WHERE created_at <= (SELECT asked_at + interval '1 minute' FROM erasures WHERE id = $3) OR created_at > now() + interval '1 minute' LIMIT 1`,
    values: [accountId, redaction.address, id],
  });
  return rows.length > 0;
}

/** Emails that a node holds, for a recipient or a webhook delivery. */
async function busyOf(tx: Sql, ids: readonly string[]): Promise<Set<string>> {
  const rows = await tx.query<{ email_id: string }>({
    text: `SELECT email_id FROM recipients WHERE email_id = ANY($1) AND claimed_by IS NOT NULL
           UNION SELECT email_id FROM webhook_deliveries WHERE email_id = ANY($1) AND claimed_by IS NOT NULL`,
    values: [ids],
  });
  return new Set(rows.map((row) => row.email_id));
}

/** Locks all recipients of these emails. */
export async function lockRecipients(tx: Sql, ids: string[]): Promise<RecipientRow[]> {
  return tx.query<RecipientRow>({
    text: `SELECT email_id, position, address, last_response, claimed_by IS NOT NULL AS claimed, next_attempt_at IS NOT NULL AS waits
             FROM recipients WHERE email_id = ANY($1) ORDER BY email_id, position FOR UPDATE`,
    values: [ids],
  });
}

/** An email, from all of its recipients. */
export function affectedEmail(redaction: Redaction, id: string, recipients: RecipientRow[]): AffectedEmail {
  const own = recipients.find(hasAddress(redaction));
  if (!own) throw new Error(`email ${id} names a recipient that it does not have`);
  const { address, position, last_response: reply } = own;
  const others = recipients.filter((one) => one !== own);
  return {
    id,
    address,
    position,
    mark: markOf(position),
    alone: others.every((one) => isErased(one.address)),
    ownReply: others.some((one) => one.last_response === reply) ? null : reply,
  };
}
