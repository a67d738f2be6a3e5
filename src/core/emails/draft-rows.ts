import type { Sql } from '../../db/client.ts';
import { Scratch } from '../../mail/encoding/scratch.ts';
import { writeUtf8 } from '../../mail/encoding/utf8.ts';
import { byWeight } from '../../pace/by-weight.ts';
import type { Queue } from '../../queue.ts';
import { storeFiles } from './attachments.ts';
import type { Draft } from './draft.ts';
import type { LinedUp } from './mail-lines.ts';

/** Recipients in one statement: the values of more of them would hold up everything else while they are made. */
const recipientsAtOnce = 5_000;

/**
 * Writes all rows of the drafts and enqueues their jobs, in the caller's transaction and with the same number of statements
 * for one email and for a thousand, unless they have thousands of recipients.
 *
 * @returns the id of the transaction that wrote the contents, which identifies this version of their rows
 */
export async function store(
  tx: Sql,
  queue: Queue,
  accountId: string,
  drafts: Draft[],
  { jobs, jobIds }: LinedUp,
): Promise<string> {
  const files = drafts.flatMap(({ email, attachments }) => {
    // A suppressed email does not wait for its time.
    const lastUsedAt = (email.status === 'queued' && email.scheduledAt) || email.createdAt;
    return attachments.map(({ sha256, content }) => ({ sha256, content, lastUsedAt }));
  });
  await storeFiles(tx, accountId, files);
  const groups = byWeight(drafts, recipientsAtOnce, ({ recipients }) => recipients.length);
  for (const some of groups) await insertEmails(tx, some);
  const version = await storeContents(tx, drafts);
  let from = 0;
  for (const some of groups) {
    const to = from + some.reduce((sum, { recipients }) => sum + recipients.length, 0);
    await insertRecipients(tx, accountId, some, jobIds.slice(from, to));
    from = to;
  }
  await queue.enqueue(tx, jobs);
  return version;
}

async function insertEmails(tx: Sql, drafts: Draft[]): Promise<void> {
  await tx.query({
    name: 'accept-emails',
    text: `INSERT INTO emails (id, account_id, api_key_id, domain_id, type, "from", "to", cc, bcc, reply_to, subject, tags,
                               from_address, from_domain, recipient_addresses, message_id, tls, on_uncertain, status, pending, suppressed, error, created_at, scheduled_at)
           SELECT id, "accountId", "apiKeyId", "domainId", type, "from", "to", cc, bcc, "replyTo", subject, tags,
                  "fromAddress", "fromDomain", "recipientAddresses", "messageId", tls, "onUncertain", status, pending, suppressed, error, "createdAt", "scheduledAt"
             FROM json_to_recordset($1::json) AS e (id uuid, "accountId" uuid, "apiKeyId" uuid, "domainId" uuid, type email_type,
                  "from" text, "to" text[], cc text[], bcc text[], "replyTo" text[], subject text, tags text[],
                  "fromAddress" text, "fromDomain" text, "recipientAddresses" text[], "messageId" text, tls tls_level, "onUncertain" uncertain_policy, status email_status, pending smallint, suppressed smallint, error text, "createdAt" timestamptz, "scheduledAt" timestamptz)`,
    values: [JSON.stringify(drafts.map((entry) => entry.email))],
  });
}

/** @param jobIds the job of each recipient of each draft, in order */
async function insertRecipients(tx: Sql, accountId: string, drafts: Draft[], jobIds: LinedUp['jobIds']): Promise<void> {
  const rows = drafts.flatMap(({ email, recipients }) =>
    recipients.map((recipient) => ({ ...recipient, emailId: email.id, type: email.type })),
  );
  await tx.query({
    name: 'accept-recipients',
    text: `INSERT INTO recipients (account_id, email_id, position, type, kind, address, destination, status, next_attempt_at, job_id)
           SELECT $10::uuid, * FROM unnest($1::uuid[], $2::smallint[], $3::email_type[], $4::recipient_kind[], $5::text[], $6::text[],
                                 $7::recipient_status[], $8::timestamptz[], $9::uuid[])`,
    values: [
      rows.map((row) => row.emailId),
      rows.map((row) => row.position),
      rows.map((row) => row.type),
      rows.map((row) => row.kind),
      rows.map((row) => row.address),
      rows.map((row) => row.destination),
      rows.map((row) => row.status),
      rows.map((row) => row.nextAttemptAt),
      jobIds,
      accountId,
    ],
  });
}

/** The most characters of bodies in one statement: a larger one saves no time, and its work space would not be kept. */
const heaviestStatement = 1024 * 1024;

/** Work spaces that no statement uses now. New memory for each statement would make V8 scan the whole heap again and again. */
const spaces: Scratch[] = [];
const mostSpaces = 4;

async function storeContents(tx: Sql, drafts: Draft[]): Promise<string> {
  const weigh = ({ request: { html, text } }: Draft) => (html?.length ?? 0) + (text?.length ?? 0);
  let version = '';
  for (const some of byWeight(drafts, heaviestStatement, weigh)) version = await insertContents(tx, some);
  return version;
}

/** The place of a text among the bytes of all texts. */
interface Piece {
  /** Counted from 1, as in SQL. */
  at: number;
  bytes: number;
}

/** Encodes texts as UTF-8, one after the other. */
function encodeAll(texts: (string | null)[], space: Scratch): { bytes: Buffer; pieces: (Piece | null)[] } {
  // At most three octets per character: memory that is not written to costs nothing.
  const bytes = space.of(texts.reduce((sum, text) => sum + 3 * (text?.length ?? 0), 0));
  let end = 0;
  const pieces = texts.map((text) => {
    if (text === null) return null;
    const piece = { at: end + 1, bytes: writeUtf8(text, bytes.subarray(end)) };
    end += piece.bytes;
    return piece;
  });
  return { bytes: bytes.subarray(0, end), pieces };
}

/** @returns the id of this transaction, as in `xmin` of the rows */
async function insertContents(tx: Sql, drafts: Draft[]): Promise<string> {
  const space = spaces.pop() ?? new Scratch();
  const texts = drafts.flatMap(({ request }) => [request.html, request.text]);
  const { bytes, pieces } = encodeAll(texts, space);
  const html = drafts.map((_, index) => pieces[2 * index]);
  const text = drafts.map((_, index) => pieces[2 * index + 1]);
  const [written] = await tx.query<{ version: string }>({
    name: 'accept-contents',
    // All bodies are one binary value: as elements of an array they would be escaped here and parsed by the database.
    text: `WITH written AS (
           INSERT INTO email_contents (email_id, html, text, headers, attachments)
           SELECT email_id, convert_from(substring($8::bytea FROM html_at FOR html_bytes), 'UTF8'),
                  convert_from(substring($8::bytea FROM text_at FOR text_bytes), 'UTF8'), headers, attachments
             FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::integer[], $5::integer[], $6::jsonb[], $7::jsonb[])
                    AS c (email_id, html_at, html_bytes, text_at, text_bytes, headers, attachments))
           SELECT pg_current_xact_id()::xid::text AS version`,
    values: [
      drafts.map(({ email }) => email.id),
      html.map((piece) => piece?.at),
      html.map((piece) => piece?.bytes),
      text.map((piece) => piece?.at),
      text.map((piece) => piece?.bytes),
      drafts.map(({ request }) => JSON.stringify(request.headers.map(({ name, value }) => [name, value]))),
      drafts.map(({ attachments }) => JSON.stringify(attachments.map(({ content: _, ...stored }) => stored))),
      // The last value: if another one followed it, pg would copy it once more, into half as much memory again.
      bytes,
    ],
  });
  // If the statement fails, its work space is dropped, because it may still be read.
  if (spaces.length < mostSpaces) spaces.push(space);
  return written?.version ?? '';
}
