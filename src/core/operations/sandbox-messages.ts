import type { Database } from '../../db/client.ts';
import { notFound } from '../../errors.ts';
import type { SandboxMessage } from '../../generated/prisma/client.ts';
import { isId, newId } from '../../ids.ts';

/** Local parts with a behavior of their own; anything after a `+` is ignored. Every other address takes its mail. */
export const actors = {
  bounced: 'is refused: 550 5.1.1, the mailbox does not exist',
  full: 'is refused: 552 5.2.2, the mailbox is full',
  blocked: 'is refused: 554 5.7.1, the sending address is on a blocklist',
  deferred: 'is greylisted: 451 4.7.1 at the first attempt, accepted at the second',
  greylisted: 'is the same as `deferred`',
  disconnects: 'breaks the connection instead of an answer to the first message, and accepts the second',
  slow: 'is accepted after five seconds',
  'late-bounce': 'is accepted, and comes back a second later: 550 5.1.1',
  complained: 'is accepted, and called spam by its reader a second later',
  'no-tls':
    'acts at `no-tls.test`, and at any other domain that begins with `no-tls.`: their server offers no STARTTLS, whoever the mail is for. Elsewhere it is refused, as a server says what it offers before it knows for whom the mail is',
} as const;

/** The most messages that the sandbox keeps, of all accounts together; the oldest are removed. */
export const kept = 1_000;

/** A message as the sandbox's mailbox got it. */
export interface Arrival {
  /** The email that the return path names; null for a message from elsewhere. */
  emailId: string | null;
  mailFrom: string;
  rcptTo: string[];
  subject: string;
  headerFrom: string;
  tlsVersion: string | null;
  /** One verdict for each signature. */
  dkim: { domain: string; selector: string; result: string; info: string }[];
  raw: Buffer;
}

/** Stores a message in the account that sent it. */
export async function store(db: Database, arrival: Arrival): Promise<void> {
  const email = arrival.emailId
    ? await db.prisma.email.findUnique({ where: { id: arrival.emailId }, select: { accountId: true } })
    : null;
  // Not with Prisma, which would turn all the bytes into text, and that into text again.
  await db.query({
    text: `INSERT INTO sandbox_messages (id, account_id, email_id, mail_from, rcpt_to, subject, header_from, tls_version, dkim, size, raw)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
    values: [
      newId(),
      email?.accountId,
      email ? arrival.emailId : null,
      arrival.mailFrom,
      arrival.rcptTo,
      arrival.subject,
      arrival.headerFrom,
      arrival.tlsVersion,
      JSON.stringify(arrival.dkim),
      arrival.raw.length,
      arrival.raw,
    ],
  });
}

/** Removes the oldest messages beyond the limit. */
export async function trim(db: Database): Promise<void> {
  await db.query({
    text: 'DELETE FROM sandbox_messages WHERE id < (SELECT id FROM sandbox_messages ORDER BY id DESC OFFSET $1 LIMIT 1)',
    values: [kept - 1],
  });
}

const columns = `id, account_id AS "accountId", email_id AS "emailId", received_at AS "receivedAt", mail_from AS "mailFrom",
  rcpt_to AS "rcptTo", subject, header_from AS "headerFrom", tls_version AS "tlsVersion", dkim, size`;

/**
 * One page, newest first, with each source cut at `rawLimit` bytes.
 *
 * @param page.parts only messages with one of these in a recipient or in the subject, in any case; none: all
 */
export async function list(
  db: Database,
  accountId: string,
  page: { limit: number; offset: number; rawLimit: number; parts: string[] },
): Promise<{ messages: SandboxMessage[]; count: number }> {
  const wanted = `account_id = $1 AND ($2::text[] = '{}' OR EXISTS (
    SELECT FROM unnest(rcpt_to || subject) told, unnest($2::text[]) part WHERE strpos(lower(told), lower(part)) > 0))`;
  const [found] = await db.query<{ count: number }>({
    text: `SELECT count(*)::int AS count FROM sandbox_messages WHERE ${wanted}`,
    values: [accountId, page.parts],
  });
  const messages = await db.query<SandboxMessage>({
    text: `SELECT ${columns}, substring(raw FOR $5) AS raw
             FROM sandbox_messages WHERE ${wanted} ORDER BY id DESC LIMIT $3 OFFSET $4`,
    values: [accountId, page.parts, page.limit, page.offset, page.rawLimit],
  });
  return { messages, count: found?.count ?? 0 };
}

/**
 * One message with its whole source.
 *
 * @throws ApiError 404
 */
export async function get(db: Database, accountId: string, id: string): Promise<SandboxMessage> {
  const statement = {
    text: `SELECT ${columns}, raw FROM sandbox_messages WHERE id = $1 AND account_id = $2`,
    values: [id, accountId],
  };
  const [message] = isId(id) ? await db.query<SandboxMessage>(statement) : [];
  if (!message) throw notFound();
  return message;
}

/** Whether the log has an attempt to deliver the email to this address. */
export async function wasTried(db: Database, emailId: string, recipient: string): Promise<boolean> {
  const tried = await db.prisma.attempt.findFirst({
    where: { emailId, recipient: { equals: recipient, mode: 'insensitive' } },
    select: { id: true },
  });
  return tried !== null;
}
