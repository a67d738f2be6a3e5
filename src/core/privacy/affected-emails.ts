import type { Sql } from '../../db/client.ts';
import { beforeAllIds } from '../../ids.ts';
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

/** A recipient of alarms may have some millions of emails: more than `few` are not found at once. Then `stretch` of the account are looked at. */
const mostRead = { few: 10_000, stretch: 20_000 };

/** Between two stretches of a search: the last email that was looked at, and the one it ends with. */
export interface Place {
  after: string;
  last: string;
}

export interface FoundEmails {
  ids: readonly string[];
  /** Where the search goes on; null if it has found all. */
  next: Place | null;
}

/**
 * The account's emails that name the address among their recipients, oldest first. If they are many, all of the account's emails are
 * looked at, a stretch at a time: the index on recipients leads to all that name the address, and to what is left in the table of
 * those that did, until the next vacuum. Emails accepted after that began are not found.
 *
 * @param only SQL: a condition on the emails, in which `$3` is the erasure's id
 * @param place where the last stretch ended; null: at the beginning
 */
export async function findNaming(
  tx: Sql,
  work: Work,
  only: string,
  place: Place | null,
  most = mostRead,
): Promise<FoundEmails> {
  if (place === null) {
    const few = await findFew(tx, work, only, most.few);
    if (few) return { ids: few, next: null };
  }
  const { after, last } = place ?? { after: beforeAllIds, last: await lastOf(tx, work.accountId) };
  const [row] = await tx.query<{ ids: string[]; end: string | null }>({
    text: `WITH stretch AS MATERIALIZED (
             SELECT id, recipient_addresses @> ARRAY[$2::text] AND ${only} AND $3::uuid IS NOT NULL AS wanted FROM emails
              WHERE account_id = $1 AND id > $4 AND id <= $5 ORDER BY id LIMIT $6::int)
           SELECT ARRAY(SELECT id FROM stretch WHERE wanted ORDER BY id) AS ids, (SELECT id FROM stretch ORDER BY id OFFSET $6::int - 1) AS end`,
    values: [work.accountId, work.redaction.address, work.id, after, last, most.stretch],
  });
  return { ids: row?.ids ?? [], next: row?.end ? { after: row.end, last } : null };
}

/** @returns null if they are many, or if many were erased before */
async function findFew(
  tx: Sql,
  { id, accountId, redaction }: Work,
  only: string,
  most: number,
): Promise<string[] | null> {
  const [state] = await tx.query<{ erased: number }>({
    text: `SELECT coalesce((counts ->> 'emails')::int, 0) AS erased FROM erasures WHERE id = $1`,
    values: [id],
  });
  if (state && state.erased >= most) return null;
  const rows = await tx.query<{ id: string | null }>({
    // Counts the emails of all accounts, as only the index on recipients finds those: one on accounts would be walked from end to
    // end to find a few.
    text: `WITH named AS MATERIALIZED (
             SELECT id, account_id, pending, created_at FROM emails
              WHERE recipient_addresses @> ARRAY[$2::text] LIMIT $4::int + 1)
           SELECT CASE WHEN account_id = $1 AND ${only} AND $3::uuid IS NOT NULL THEN id END AS id FROM named ORDER BY id`,
    values: [accountId, redaction.address, id, most],
  });
  return rows.length > most ? null : rows.flatMap((row) => row.id ?? []);
}

/** The account's newest email. */
async function lastOf(tx: Sql, accountId: string): Promise<string> {
  const [row] = await tx.query<{ id: string }>({
    text: 'SELECT id FROM emails WHERE account_id = $1 ORDER BY id DESC LIMIT 1',
    values: [accountId],
  });
  return row?.id ?? beforeAllIds;
}

/** The same as `findNaming`, without the emails that a node holds. */
export async function findFree(tx: Sql, work: Work, place: Place | null): Promise<FoundEmails> {
  const { ids, next } = await findNaming(tx, work, 'true', place);
  const busy = await busyOf(tx, ids);
  return { ids: ids.filter((id) => !busy.has(id)), next };
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
 * Emails that are left to erase from. Those accepted after the request do not count, or an erasure would never end for
 * a recipient who gets one every second; the minute covers a node whose clock is ahead. Those that seem to come from the
 * future are older than the request: the database has failed over to a server whose clock is behind.
 *
 * @param place where the last stretch ended; null: at the beginning
 */
export async function findLeft(tx: Sql, work: Work, place: Place | null): Promise<FoundEmails> {
  const isOlder = `(created_at <= (SELECT asked_at + interval '1 minute' FROM erasures WHERE id = $3) OR created_at > now() + interval '1 minute')`;
  return findNaming(tx, work, isOlder, place);
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
