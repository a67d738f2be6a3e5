import { createHash } from 'node:crypto';
import type { Database, Sql } from '../db/client.ts';
import { type ApiError, forbidden, fromDomainNotVerified } from '../errors.ts';
import type { Email, EmailType, RecipientKind } from '../generated/prisma/client.ts';
import { newId } from '../ids.ts';
import { formatMailbox, type Mailbox } from '../mail/address.ts';
import type { Header } from '../mail/headers.ts';
import type { DeliverJob, Queue } from '../queue.ts';
import type { KeyHolder } from './keys.ts';

/** One email as the edge has parsed it: every field is checked, nothing inside checks it again. */
export interface SendRequest {
  from: Mailbox;
  to: Mailbox[];
  cc: Mailbox[];
  bcc: Mailbox[];
  replyTo: Mailbox[];
  subject: string;
  html: string | null;
  text: string | null;
  headers: Header[];
  attachments: { filename: string; contentType: string; contentId: string | null; content: Buffer }[];
  tags: string[];
  type: EmailType;
  /** Null: now. */
  scheduledAt: Date | null;
}

/** How an attachment is listed in `email_contents`: its bytes are in `attachments`. */
export interface StoredAttachment {
  sha256: string;
  filename: string;
  contentType: string;
  contentId: string | null;
}

export type Accepted = { email: Email } | { refusal: ApiError };

interface Draft {
  email: Email;
  request: SendRequest;
  attachments: (StoredAttachment & { content: Buffer })[];
  recipients: { position: number; kind: RecipientKind; address: string; destination: string; jobId: string | null }[];
  jobs: (DeliverJob & { priority: number })[];
}

const priorities: Record<EmailType, number> = { transactional: 10, marketing: 0 };

/**
 * Accepts emails: one, or a whole batch, with the same number of statements. Each is refused or accepted on its own; all
 * that are accepted are committed together with their recipients, contents and jobs before this returns.
 *
 * @returns one entry for each request, in order
 */
export async function accept(
  db: Database,
  queue: Queue,
  holder: KeyHolder,
  requests: SendRequest[],
): Promise<Accepted[]> {
  const domains = await findDomains(db, holder.accountId, requests);
  const now = new Date();
  const results = requests.map((request): { draft: Draft } | { refusal: ApiError } => {
    const name = request.from.domain;
    if (holder.domains.length > 0 && !holder.domains.includes(name)) return { refusal: forbidden() };
    const domainId = domains.get(name);
    if (!domainId) return { refusal: fromDomainNotVerified(`from: ${name} is not a verified domain of this account`) };
    return { draft: draft(request, holder, domainId, now) };
  });
  const drafts = results.flatMap((result) => ('draft' in result ? [result.draft] : []));
  if (drafts.length > 0) {
    await db.transaction((tx) => store(tx, queue, holder.accountId, drafts));
    queue.wake();
  }
  return results.map((result) => ('draft' in result ? { email: result.draft.email } : result));
}

/** The account's verified domains among the senders, by name. */
async function findDomains(db: Database, accountId: string, requests: SendRequest[]): Promise<Map<string, string>> {
  const rows = await db.query<{ id: string; domain: string }>({
    name: 'accept-domains',
    text: `SELECT id, domain FROM domains WHERE account_id = $1 AND domain = ANY($2) AND status = 'verified'`,
    values: [accountId, [...new Set(requests.map((request) => request.from.domain))]],
  });
  return new Map(rows.map((row) => [row.domain, row.id]));
}

function draft(request: SendRequest, holder: KeyHolder, domainId: string, now: Date): Draft {
  const id = newId(now);
  const waits = request.scheduledAt !== null && request.scheduledAt > now;
  const jobs = new Map<string, Draft['jobs'][number]>();
  const recipients = distinctRecipients(request).map(({ kind, mailbox }, position) => {
    const destination = mailbox.domain;
    const job = jobs.get(destination) ?? {
      id: newId(now),
      emailId: id,
      destination,
      priority: priorities[request.type],
    };
    if (!waits) jobs.set(destination, job);
    return { position, kind, address: mailbox.address, destination, jobId: waits ? null : job.id };
  });
  const email: Email = {
    id,
    accountId: holder.accountId,
    apiKeyId: holder.keyId,
    domainId,
    status: 'queued',
    type: request.type,
    from: formatMailbox(request.from),
    to: request.to.map(formatMailbox),
    cc: request.cc.map(formatMailbox),
    bcc: request.bcc.map(formatMailbox),
    replyTo: request.replyTo.map(formatMailbox),
    subject: request.subject,
    tags: request.tags,
    messageId: `${id}@${request.from.domain}`,
    pending: recipients.length,
    failed: 0,
    error: null,
    createdAt: now,
    scheduledAt: request.scheduledAt,
    sentAt: null,
  };
  const attachments = request.attachments.map((attachment) => ({ ...attachment, sha256: sha256(attachment.content) }));
  return { email, request, attachments, recipients, jobs: [...jobs.values()] };
}

/** Each address once, in the most visible place that it was given in. */
function distinctRecipients(request: SendRequest): { kind: RecipientKind; mailbox: Mailbox }[] {
  const seen = new Set<string>();
  const kinds: [RecipientKind, Mailbox[]][] = [
    ['to', request.to],
    ['cc', request.cc],
    ['bcc', request.bcc],
  ];
  return kinds.flatMap(([kind, mailboxes]) =>
    mailboxes.flatMap((mailbox) => {
      const key = mailbox.address.toLowerCase();
      if (seen.has(key)) return [];
      seen.add(key);
      return [{ kind, mailbox }];
    }),
  );
}

async function store(tx: Sql, queue: Queue, accountId: string, drafts: Draft[]): Promise<void> {
  await storeAttachments(tx, accountId, drafts);
  await tx.query({
    name: 'accept-emails',
    text: `INSERT INTO emails (id, account_id, api_key_id, domain_id, type, "from", "to", cc, bcc, reply_to, subject, tags,
                               message_id, pending, created_at, scheduled_at)
           SELECT id, "accountId", "apiKeyId", "domainId", type, "from", "to", cc, bcc, "replyTo", subject, tags,
                  "messageId", pending, "createdAt", "scheduledAt"
             FROM json_to_recordset($1::json) AS e (id uuid, "accountId" uuid, "apiKeyId" uuid, "domainId" uuid, type email_type,
                  "from" text, "to" text[], cc text[], bcc text[], "replyTo" text[], subject text, tags text[],
                  "messageId" text, pending smallint, "createdAt" timestamptz, "scheduledAt" timestamptz)`,
    values: [JSON.stringify(drafts.map((entry) => entry.email))],
  });
  await tx.query({
    name: 'accept-contents',
    text: `INSERT INTO email_contents (email_id, html, text, headers, attachments)
           SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::jsonb[])`,
    values: [
      drafts.map(({ email }) => email.id),
      drafts.map(({ request }) => request.html),
      drafts.map(({ request }) => request.text),
      drafts.map(({ request }) => JSON.stringify(request.headers.map(({ name, value }) => [name, value]))),
      drafts.map(({ attachments }) => JSON.stringify(attachments.map(({ content: _, ...stored }) => stored))),
    ],
  });
  const rows = drafts.flatMap(({ email, request, recipients }) =>
    recipients.map((recipient) => ({ ...recipient, emailId: email.id, at: request.scheduledAt ?? email.createdAt })),
  );
  await tx.query({
    name: 'accept-recipients',
    text: `INSERT INTO recipients (email_id, position, kind, address, destination, next_attempt_at, job_id)
           SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::recipient_kind[], $4::text[], $5::text[], $6::timestamptz[], $7::uuid[])`,
    values: [
      rows.map((row) => row.emailId),
      rows.map((row) => row.position),
      rows.map((row) => row.kind),
      rows.map((row) => row.address),
      rows.map((row) => row.destination),
      rows.map((row) => row.at),
      rows.map((row) => row.jobId),
    ],
  });
  await queue.enqueue(
    tx,
    drafts.flatMap((entry) => entry.jobs),
  );
}

/** Bytes that repeat, within the batch or since earlier, are stored once. */
async function storeAttachments(tx: Sql, accountId: string, drafts: Draft[]): Promise<void> {
  const byHash = new Map<string, { content: Buffer; lastUsedAt: Date }>();
  for (const { email, attachments } of drafts) {
    for (const { sha256: hash, content } of attachments) {
      const lastUsedAt = email.scheduledAt ?? email.createdAt;
      const known = byHash.get(hash);
      if (!known || known.lastUsedAt < lastUsedAt) byHash.set(hash, { content, lastUsedAt });
    }
  }
  if (byHash.size === 0) return;
  // In one order on every node: two batches that share attachments must not wait for each other in a circle.
  const entries = [...byHash].sort(([a], [b]) => (a < b ? -1 : 1));
  await tx.query({
    text: `INSERT INTO attachments (account_id, sha256, content, last_used_at)
           SELECT $1, * FROM unnest($2::bytea[], $3::bytea[], $4::timestamptz[])
           ON CONFLICT (account_id, sha256) DO UPDATE SET last_used_at = greatest(attachments.last_used_at, excluded.last_used_at)`,
    values: [
      accountId,
      entries.map(([hash]) => Buffer.from(hash, 'hex')),
      entries.map(([, entry]) => entry.content),
      entries.map(([, entry]) => entry.lastUsedAt),
    ],
  });
}

const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex');
