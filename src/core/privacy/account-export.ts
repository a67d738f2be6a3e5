import type { Database } from '../../db/client.ts';
import type {
  Account,
  ApiKey,
  Attempt,
  DkimKey,
  Domain,
  Email,
  Erasure,
  Recipient,
  Return,
  Suppression,
  Template,
  User,
  Webhook,
  WebhookDelivery,
} from '../../generated/prisma/client.ts';
import { beforeAllIds } from '../../ids.ts';
import { byWeight } from '../../pace/by-weight.ts';
import type { StoredAttachment } from '../emails/draft.ts';
import { contentGroups } from './content-reads.ts';
import { deliveriesAtOnce } from './erasing-deliveries.ts';

/** What an email said, while that is kept; its files are given by their hashes. */
export interface ExportedContent {
  emailId: string;
  html: string | null;
  text: string | null;
  headers: [name: string, value: string][];
  attachments: StoredAttachment[];
}

/** A file that emails have attached, each once. */
export interface ExportedFile {
  sha256: string;
  size: number;
  /** Null if the export is without the bytes of files. */
  content: Buffer | null;
}

/** What an export has besides everything else. */
export interface ExportOptions {
  /** The bytes of attachments. */
  files: boolean;
  /** Webhook deliveries: each says again what happened to an email, and together they are larger than all else. */
  deliveries: boolean;
}

/** One thing that an account has. */
export type Exported =
  | { type: 'account'; row: Account }
  | { type: 'user'; row: User }
  | { type: 'domain'; row: Domain; keys: DkimKey[] }
  | { type: 'api_key'; row: ApiKey }
  | { type: 'template'; row: Template }
  | { type: 'suppression'; row: Suppression }
  | { type: 'webhook'; row: Webhook }
  | { type: 'erasure'; row: Erasure }
  | { type: 'attachment'; row: ExportedFile }
  | { type: 'email'; row: Email; recipients: Recipient[]; returns: Return[] }
  | { type: 'attempt'; row: Attempt }
  | { type: 'content'; row: ExportedContent }
  | { type: 'webhook_delivery'; row: WebhookDelivery };

const rowsAtOnce = 500;
const emailsAtOnce = 50;
/** Of the emails that are read together: one may have a hundred. */
const recipientsAtOnce = 500;

/**
 * Everything that an account has, oldest first, read a page at a time, so that memory holds only a few megabytes. Each
 * page shows the state at the time it is read. Stops when the consumer does.
 */
export async function* exported(
  db: Database,
  account: Account,
  options: ExportOptions,
): AsyncGenerator<Exported, void> {
  const { prisma } = db;
  const of = (after: string | null) => ({
    where: { accountId: account.id, ...(after === null ? {} : { id: { gt: after } }) },
    orderBy: { id: 'asc' as const },
    take: rowsAtOnce,
  });
  yield { type: 'account', row: account };
  yield* each('user', (after) => prisma.user.findMany(of(after)));
  for await (const { row } of each('domain', (after) => prisma.domain.findMany(of(after)))) {
    const keys = await prisma.dkimKey.findMany({ where: { domainId: row.id }, orderBy: { id: 'asc' } });
    yield { type: 'domain', row, keys };
  }
  yield* each('api_key', (after) => prisma.apiKey.findMany(of(after)));
  yield* each('template', (after) => prisma.template.findMany({ ...of(after), take: 1 }), 1);
  yield* each('suppression', (after) => prisma.suppression.findMany(of(after)));
  yield* each('webhook', (after) => prisma.webhook.findMany(of(after)));
  yield* each('erasure', (after) => prisma.erasure.findMany(of(after)));
  yield* attachments(db, account.id, options.files);
  const emailPage = (after: string | null) => prisma.email.findMany({ ...of(after), take: emailsAtOnce });
  for await (const page of pages(emailPage, emailsAtOnce))
    for (const some of byWeight(page, recipientsAtOnce, ({ recipientAddresses }) => recipientAddresses.length))
      yield* emailsOf(db, some);
  if (options.deliveries) yield* deliveriesOf(db, account.id);
}

async function* pages<Row extends { id: string }>(
  read: (after: string | null) => Promise<Row[]>,
  size = rowsAtOnce,
): AsyncGenerator<Row[], void> {
  for (let page = await read(null); ; page = await read(page.at(-1)?.id ?? null)) {
    if (page.length > 0) yield page;
    if (page.length < size) return;
  }
}

async function* each<Type extends string, Row extends { id: string }>(
  type: Type,
  read: (after: string | null) => Promise<Row[]>,
  size?: number,
): AsyncGenerator<{ type: Type; row: Row }, void> {
  for await (const page of pages(read, size)) for (const row of page) yield { type, row };
}

async function* attachments(db: Database, accountId: string, files: boolean): AsyncGenerator<Exported, void> {
  for (let after = Buffer.alloc(0); ; ) {
    const rows = await db.query<{ sha256: Buffer; size: number }>({
      text: `SELECT sha256, octet_length(content) AS size FROM attachments
              WHERE account_id = $1 AND sha256 > $2 ORDER BY sha256 LIMIT ${rowsAtOnce}`,
      values: [accountId, after],
    });
    for (const { sha256, size } of rows) {
      // One by one: each may be many megabytes.
      const [found] = files
        ? await db.query<{ content: Buffer }>({
            text: 'SELECT content FROM attachments WHERE account_id = $1 AND sha256 = $2',
            values: [accountId, sha256],
          })
        : [];
      yield { type: 'attachment', row: { sha256: sha256.toString('hex'), size, content: found?.content ?? null } };
    }
    const last = rows.at(-1);
    if (!last || rows.length < rowsAtOnce) return;
    after = Buffer.from(last.sha256);
  }
}

/** Each of these emails, then their attempts, then their contents. */
async function* emailsOf(db: Database, emails: Email[]): AsyncGenerator<Exported, void> {
  const ids = emails.map(({ id }) => id);
  const where = { emailId: { in: ids } };
  const recipients = await db.prisma.recipient.findMany({ where, orderBy: [{ emailId: 'asc' }, { position: 'asc' }] });
  const returns = await db.prisma.return.findMany({ where, orderBy: [{ emailId: 'asc' }, { receivedAt: 'asc' }] });
  const recipientsOf = Map.groupBy(recipients, ({ emailId }) => emailId);
  const returnsOf = Map.groupBy(returns, ({ emailId }) => emailId);
  for (const row of emails)
    yield {
      type: 'email',
      row,
      recipients: recipientsOf.get(row.id) ?? [],
      returns: returnsOf.get(row.id) ?? [],
    };
  yield* attemptsOf(db, ids);
  yield* contentsOf(db, ids);
}

async function* attemptsOf(db: Database, ids: string[]): AsyncGenerator<Exported, void> {
  for (let after: [email: string, attempt: string] = [beforeAllIds, beforeAllIds]; ; ) {
    const keys = await db.query<{ email_id: string; id: string }>({
      text: `SELECT email_id, id FROM attempts WHERE email_id = ANY($1) AND (email_id, id) > ($2, $3)
              ORDER BY email_id, id LIMIT ${rowsAtOnce}`,
      values: [ids, ...after],
    });
    const rows = await db.prisma.attempt.findMany({
      where: { emailId: { in: [...new Set(keys.map((key) => key.email_id))] }, id: { in: keys.map(({ id }) => id) } },
      orderBy: [{ emailId: 'asc' }, { id: 'asc' }],
    });
    for (const row of rows) yield { type: 'attempt', row };
    const last = keys.at(-1);
    if (!last || keys.length < rowsAtOnce) return;
    after = [last.email_id, last.id];
  }
}

async function* contentsOf(db: Database, ids: string[]): AsyncGenerator<Exported, void> {
  for (const group of await contentGroups(db, ids)) {
    const rows = await db.query<ExportedContent>({
      text: `SELECT email_id AS "emailId", html, text, headers, attachments FROM email_contents WHERE email_id = ANY($1) ORDER BY email_id`,
      values: [group],
    });
    for (const row of rows) yield { type: 'content', row };
  }
}

/** A few megabytes at a time: a payload names all recipients of its email. */
async function* deliveriesOf(db: Database, accountId: string): AsyncGenerator<Exported, void> {
  const sizes = (after: string | null) =>
    db.query<{ id: string; bytes: number }>({
      text: `SELECT id, octet_length(payload) + pg_column_size(attempts) AS bytes FROM webhook_deliveries
              WHERE account_id = $1 AND id > $2 ORDER BY id LIMIT ${rowsAtOnce}`,
      values: [accountId, after ?? beforeAllIds],
    });
  for await (const page of pages(sizes))
    for (const some of byWeight(page, deliveriesAtOnce, ({ bytes }) => bytes)) {
      const where = { accountId, id: { in: some.map(({ id }) => id) } };
      const rows = await db.prisma.webhookDelivery.findMany({ where, orderBy: { id: 'asc' } });
      for (const row of rows) yield { type: 'webhook_delivery', row };
    }
}
