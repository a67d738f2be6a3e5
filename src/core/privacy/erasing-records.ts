import type { Sql } from '../../db/client.ts';
import { byWeight } from '../../pace/by-weight.ts';
import { givingWay, Pace } from '../../pace/give-way.ts';
import { dropUnneeded } from '../emails/attachments.ts';
import { namelessMark } from '../returns/erased.ts';
import type { AffectedEmail } from './affected-emails.ts';
import { contentGroups } from './content-reads.ts';
import type { Counts, Work } from './erasures.ts';
import { mayName, type Redaction } from './redaction.ts';

/** Deletes the content of emails with no other recipients, and removes the address from the content of all others. */
export async function eraseContents(
  tx: Sql,
  { accountId, redaction }: Work,
  emails: AffectedEmail[],
  counts: Counts,
): Promise<void> {
  const gone = await tx.query<{ attachments: { sha256: string }[] }>({
    text: 'DELETE FROM email_contents WHERE email_id = ANY($1) RETURNING attachments',
    values: [emails.flatMap(({ id, alone }) => (alone ? [id] : []))],
  });
  counts.contents += gone.length;
  const hashes = gone.flatMap(({ attachments }) => attachments.map(({ sha256 }) => sha256));
  counts.attachments += await dropUnneeded(tx, accountId, hashes);
  const marks = new Map(emails.filter(({ alone }) => !alone).map(({ id, mark }) => [id, mark]));
  for (const ids of await contentGroups(tx, [...marks.keys()])) await eraseSharedContents(tx, redaction, marks, ids);
}

interface ContentRow {
  id: string;
  html: string | null;
  text: string | null;
  headers: unknown;
  attachments: { filename: string; contentType: string }[];
}

/** Redacts in this process: PostgreSQL takes seconds to search megabytes for all spellings. Writes back only what changed. */
async function eraseSharedContents(
  tx: Sql,
  redaction: Redaction,
  marks: Map<string, string>,
  ids: string[],
): Promise<void> {
  const rows = await tx.query<ContentRow>({
    text: 'SELECT email_id AS id, html, text, headers, attachments FROM email_contents WHERE email_id = ANY($1)',
    values: [ids],
  });
  const changed = rows.flatMap((row) => {
    const { id, ...content } = row;
    const mark = marks.get(id) ?? namelessMark;
    const clean = redaction.redactAll(content, mark) as Omit<ContentRow, 'id'>;
    for (const file of clean.attachments) {
      // A file's extension looks like a part of the address's domain, so this takes the pattern for labels. A type may have
      // the file's name as well.
      file.filename = redaction.redactLabel(file.filename, mark);
      file.contentType = redaction.redactLabel(file.contentType, mark);
    }
    return JSON.stringify(clean) === JSON.stringify(content) ? [] : [{ id, ...clean }];
  });
  await tx.query({
    text: `UPDATE email_contents c SET html = n.html, text = n.text, headers = n.headers, attachments = n.attachments
             FROM unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::jsonb[]) AS n (id, html, text, headers, attachments)
            WHERE c.email_id = n.id`,
    values: [
      changed.map(({ id }) => id),
      changed.map(({ html }) => html),
      changed.map(({ text }) => text),
      changed.map(({ headers }) => JSON.stringify(headers)),
      changed.map(({ attachments }) => JSON.stringify(attachments)),
    ],
  });
}

/** Replaces a server's words about an erased recipient. */
const erasedWords = 'erased';

type Spoken = [ms: number, by: string, text: string];

/** Characters of attempts that are written together. The conversation of one can have 16,000. */
const attemptsAtOnce = 2 * 1024 * 1024;

interface AttemptRow {
  id: string;
  recipient: string;
  reply: string | null;
  reason: string;
  conversation: Spoken[] | null;
}

/** Keeps the figures of attempts, and removes the recipient and everything said. @returns how many were changed */
export async function eraseAttempts(tx: Sql, { redaction }: Work, emails: AffectedEmail[]): Promise<number> {
  const alone = emails.filter((email) => email.alone);
  const rows = await tx.query({
    text: `UPDATE attempts a SET recipient = CASE WHEN a.recipient = e.address THEN e.mark ELSE a.recipient END,
                  reply = NULL, reason = '${erasedWords}', conversation = NULL
             FROM unnest($1::uuid[], $2::text[], $3::text[]) AS e (id, address, mark) WHERE a.email_id = e.id RETURNING 1`,
    values: [alone.map(({ id }) => id), alone.map(({ address }) => address), alone.map(({ mark }) => mark)],
  });
  let changed = rows.length;
  for (const email of emails) if (!email.alone) changed += await eraseSharedAttempts(tx, redaction, email);
  return changed;
}

/** @returns how many attempts of one email named the recipient in any way */
async function eraseSharedAttempts(tx: Sql, redaction: Redaction, email: AffectedEmail): Promise<number> {
  const rows = await tx.query<AttemptRow>({
    text: 'SELECT id, recipient, reply, reason, conversation FROM attempts WHERE email_id = $1',
    values: [email.id],
  });
  const changed = await withoutRecipient(redaction, email, rows);
  for (const some of byWeight(changed, attemptsAtOnce, ({ json }) => json.length))
    await tx.query({
      text: `UPDATE attempts a SET recipient = c.recipient, reply = c.reply, reason = c.reason, conversation = c.conversation
               FROM unnest($2::json[]) AS r (attempt),
                    json_to_record(r.attempt) AS c (id uuid, recipient text, reply text, reason text, conversation jsonb)
              WHERE a.email_id = $1 AND a.id = c.id`,
      values: [email.id, some.map(({ json }) => json)],
    });
  return changed.length;
}

/** The attempts of one email that named the recipient in any way, without the recipient, as JSON. */
async function withoutRecipient(
  redaction: Redaction,
  { address, mark }: AffectedEmail,
  attempts: AttemptRow[],
): Promise<{ json: string }[]> {
  const isOwn = ({ recipient }: AttemptRow) => recipient === address;
  const ownReplies = attempts.filter(isOwn).map(({ reply }) => reply ?? '');
  const otherReplies = attempts.filter((row) => !isOwn(row)).map(({ reply }) => reply ?? '');
  const isOnlyInOwn = (words: string) =>
    words !== '' &&
    ownReplies.some((reply) => reply.includes(words)) &&
    !otherReplies.some((reply) => reply.includes(words));
  const spoken = ([ms, by, text]: Spoken): Spoken => {
    const [, code = '', words = ''] = /^(\d{3}[ -])(.*)$/s.exec(text) ?? [];
    return [ms, by, by === 'server' && isOnlyInOwn(words) ? `${code}${erasedWords}` : redaction.redact(text, mark)];
  };
  const cleaned = await givingWay(attempts, (row) => {
    const own = isOwn(row);
    const clean = {
      ...row,
      recipient: own ? mark : row.recipient,
      reply: own || row.reply === null ? null : redaction.redact(row.reply, mark),
      reason: own ? erasedWords : redaction.redact(row.reason, mark),
      conversation: row.conversation?.map(spoken) ?? null,
    };
    const json = JSON.stringify(clean);
    return json === JSON.stringify(row) ? [] : [{ json }];
  });
  return cleaned.flat();
}

/** Keeps the kind and class of returns, and removes the recipient and the words. @returns how many there were */
export async function eraseReturns(tx: Sql, { redaction }: Work, emails: AffectedEmail[]): Promise<number> {
  const ids = emails.map(({ id }) => id);
  const rows = await tx.query({
    text: `UPDATE returns r SET recipient = e.mark, diagnostic = NULL
             FROM unnest($1::uuid[], $2::text[], $3::text[]) AS e (id, address, mark)
            WHERE r.email_id = e.id AND r.recipient = e.address RETURNING 1`,
    values: [ids, emails.map(({ address }) => address), emails.map(({ mark }) => mark)],
  });
  await tx.query({
    text: `UPDATE returns SET diagnostic = regexp_replace(diagnostic, $2, $3, 'gi') WHERE email_id = ANY($1) AND diagnostic ~* $2`,
    values: [ids, redaction.source, namelessMark],
  });
  return rows.length;
}

/** Idempotency keys looked at together, and the stored bytes of their answers: the answer to a batch can have a megabyte. */
const keysAtOnce = 500;
const answersAtOnce = 1024 * 1024;

/** An email in an answer, as `http/present/emails.ts` shows it. */
interface EmailAnswer {
  from?: string;
  to?: string;
  cc?: string[];
  bcc?: string[];
  reply_to?: string[];
  subject?: string;
  tags?: string[];
}

interface Answer {
  email?: EmailAnswer;
  emails?: EmailAnswer[];
}

/**
 * Erases from the stored answers of a stretch of idempotency keys: a repeated call gets its answer without the address. A
 * key that names the address is deleted, as no call would find it under another name.
 *
 * @param after where the last call ended; null: at the beginning
 * @returns where this one ended; null at the end
 */
export async function eraseAnswers(
  tx: Sql,
  { accountId, redaction }: Work,
  counts: Counts,
  after: string | null,
): Promise<string | null> {
  const keys = await tx.query<{ key: string; bytes: number }>({
    text: `SELECT key, coalesce(pg_column_size(response), 0) AS bytes FROM idempotency_keys
            WHERE account_id = $1 AND ($2::text IS NULL OR key > $2) ORDER BY key LIMIT $3`,
    values: [accountId, after, keysAtOnce],
  });
  const [stretch = []] = byWeight(keys, answersAtOnce, ({ bytes }) => bytes);
  const suspects = await tx.query<{ key: string; answer: string | null; isNamed: boolean }>({
    // The regular expression runs only on keys, which are short; answers are first searched for a part of the address.
    text: `SELECT * FROM (
             SELECT key, CASE WHEN ${mayName('response::text', '$4')} THEN response::text END AS answer, key ~* $3 AS "isNamed"
               FROM idempotency_keys WHERE account_id = $1 AND key = ANY($2)) stretch
            WHERE answer IS NOT NULL OR "isNamed"`,
    values: [accountId, stretch.map(({ key }) => key), redaction.labelSource, redaction.part],
  });
  const deleted = suspects.flatMap(({ key, isNamed }) => (isNamed ? [key] : []));
  const changed: { key: string; answer: string }[] = [];
  const pace = new Pace();
  for (const { key, answer, isNamed } of suspects) {
    const clean = answer === null || isNamed ? answer : await withoutAddress(redaction, answer, pace);
    if (clean !== null && clean !== answer) changed.push({ key, answer: clean });
  }
  await tx.query({
    text: 'DELETE FROM idempotency_keys WHERE account_id = $1 AND key = ANY($2)',
    values: [accountId, deleted],
  });
  await tx.query({
    text: `UPDATE idempotency_keys k SET response = c.answer FROM unnest($2::text[], $3::json[]) AS c (key, answer)
            WHERE k.account_id = $1 AND k.key = c.key`,
    values: [accountId, changed.map(({ key }) => key), changed.map(({ answer }) => answer)],
  });
  counts.idempotency_keys += deleted.length + changed.length;
  const isLast = keys.length < keysAtOnce && stretch.length === keys.length;
  return isLast ? null : (stretch.at(-1)?.key ?? null);
}

/** The answer to a single send or a batch. An email in it that names the address also loses its subject. */
async function withoutAddress(redaction: Redaction, text: string, pace: Pace): Promise<string> {
  const answer = JSON.parse(text) as Answer;
  const { email, emails } = answer;
  const clean = redaction.redactAll({ ...answer, email: undefined, emails: undefined }, namelessMark) as Answer;
  if (email) clean.email = redactEmail(redaction, email);
  if (emails) clean.emails = await givingWay(emails, (one) => redactEmail(redaction, one), pace);
  return JSON.stringify(clean) === JSON.stringify(answer) ? text : JSON.stringify(clean);
}

function redactEmail(redaction: Redaction, email: EmailAnswer): EmailAnswer {
  const clean = redaction.redactAll(email, namelessMark) as EmailAnswer;
  // Of other mailboxes only the name is redacted.
  const mailbox = (one: string) => redaction.redactMailbox(one, namelessMark);
  if (email.from !== undefined) clean.from = mailbox(email.from);
  if (email.to !== undefined) clean.to = mailbox(email.to);
  for (const list of ['cc', 'bcc', 'reply_to'] as const) if (email[list]) clean[list] = email[list].map(mailbox);
  if (email.tags) clean.tags = email.tags.map((tag) => redaction.redactLabel(tag, namelessMark));
  return JSON.stringify(clean) === JSON.stringify(email) ? email : { ...clean, subject: '' };
}
