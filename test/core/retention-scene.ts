import type { Database, Sql } from '../../src/db/client.ts';
import { ensurePartitions } from '../../src/db/partitions.ts';
import { newId } from '../../src/ids.ts';
import { buildAccount } from '../support/build.ts';

export const dayMs = 24 * 3_600_000;
export const weekMs = 7 * dayMs;
/** A Monday longer ago than any log is kept; tests call its week 0. */
const monday = new Date(Math.floor((Date.now() - 70 * dayMs - 4 * dayMs) / weekMs) * weekMs + 4 * dayMs);
export const weekOf = (week: number) => new Date(monday.getTime() + week * weekMs);
const noFilter = { accountId: null, status: null, type: null, tag: null, from: null, to: null, domain: null, q: null };
export const anyTime = { ...noFilter, createdAfter: null, createdBefore: null };
export const firstPage = { limit: 100, offset: 0, cursor: null };

interface Fields {
  scheduledAt?: Date;
  /** For a recipient that waits. */
  waiting?: { jobId: string | null };
}

/** An account, and partitions for weeks 0 to 5. */
export async function prepare(db: Database): Promise<string> {
  for (const week of [1, 3]) await ensurePartitions(db, weekOf(week));
  return (await buildAccount(db)).id;
}

/** An email from the Wednesday of that week with all its rows, as delivery leaves them. */
export async function add(db: Sql, accountId: string, week: number, { scheduledAt, waiting }: Fields = {}) {
  const at = new Date(weekOf(week).getTime() + 2.5 * dayMs);
  const id = newId(at);
  const insert = (text: string, ...values: unknown[]) => db.query({ text, values });
  await insert(
    `INSERT INTO emails (id, account_id, domain_id, status, "from", "to", cc, bcc, reply_to, subject, tags, message_id, pending, created_at,
                         scheduled_at, from_address, from_domain)
     VALUES ($1, $2, $2, $3, 'a@b.test', '{}', '{}', '{}', '{}', 's', '{all}', 'm', $4, $5, $6, 'a@b.test', 'b.test')`,
    ...[id, accountId, waiting ? 'queued' : 'sent', waiting ? 1 : 0, at, scheduledAt ?? null],
  );
  await insert(`INSERT INTO email_contents (email_id, text) VALUES ($1, 'text')`, id);
  await insert(
    `INSERT INTO recipients (account_id, email_id, position, kind, address, destination, status, next_attempt_at, job_id)
     VALUES ($1, $2, 0, 'to', 'c@d.test', 'd.test', $3, $4, $5)`,
    ...[accountId, id, waiting ? 'queued' : 'delivered', waiting ? at : null, waiting?.jobId ?? null],
  );
  await insert(
    `INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, phase, outcome, reason)
     VALUES ($1, $2, 'c@d.test', 1, $3, 5, 'data', 'delivered', 'taken')`,
    ...[id, newId(at), at],
  );
  await insert(
    `INSERT INTO webhook_deliveries (id, account_id, webhook_id, email_id, event, payload, status) VALUES ($1, $2, $2, $3, 'email.sent', '{}', 'succeeded')`,
    ...[newId(at), accountId, id],
  );
  await insert(
    `INSERT INTO attachments VALUES ($1, sha256($2::text::bytea), 'bytes', $3)`,
    ...[accountId, id, scheduledAt ?? at],
  );
  await insert(
    `INSERT INTO returns (account_id, email_id, recipient, kind) VALUES ($1, $2, 'c@d.test', 'bounce')`,
    accountId,
    id,
  );
  await insert(
    `INSERT INTO sandbox_messages (id, email_id, mail_from, rcpt_to, subject, header_from, dkim, size, raw) VALUES ($1, $2, '', '{}', 's', 'a@b.test', '[]', 1, 'x')`,
    ...[newId(at), id],
  );
  return id;
}

const tables = [
  'emails',
  'email_contents',
  'recipients',
  'attempts',
  'webhook_deliveries',
  'attachments',
  'returns',
  'sandbox_messages',
];

/** How many rows each table has. */
export async function rowsOf(db: Sql): Promise<Record<string, number>> {
  const [row] = await db.query<Record<string, number>>({
    text: `SELECT ${tables.map((table) => `(SELECT count(*)::int FROM ${table}) AS ${table}`).join(', ')}`,
  });
  return row ?? {};
}

export const partitioned = [...tables.slice(0, 5), 'email_counts'];
export const nameOf = (table: string, week: number) =>
  `${table}_${weekOf(week).toISOString().slice(0, 10).replaceAll('-', '')}`;
export const all = (rows: number) => Object.fromEntries(tables.map((table) => [table, rows]));
