import type { Database, Sql } from '../../src/db/client.ts';
import { ensurePartitions } from '../../src/db/partitions.ts';
import { newId } from '../../src/ids.ts';
import { buildAccount } from '../support/build.ts';

export const dayMs = 24 * 3_600_000;
export const weekMs = 7 * dayMs;
/** A Monday longer ago than any log is kept; tests call its week 0. */
const monday = new Date(Math.floor((Date.now() - 70 * dayMs - 4 * dayMs) / weekMs) * weekMs + 4 * dayMs);
export const weekOf = (week: number) => new Date(monday.getTime() + week * weekMs);
const noFilter = {
  accountId: null,
  status: null,
  type: null,
  tag: null,
  from: null,
  to: null,
  domain: null,
  q: null,
  held: false,
  apiKeyId: null,
  scheduled: false,
};
export const anyTime = { ...noFilter, createdAfter: null, createdBefore: null };
export const firstPage = { limit: 100, offset: 0, cursor: null };

interface Fields {
  scheduledAt?: Date;
  /** For a recipient that waits. */
  waiting?: { jobId: string | null };
}

/** An account, and partitions for the weeks 0 to 3, and for the two around each further one. */
export async function prepare(db: Database, ...further: number[]): Promise<string> {
  for (const week of [1, ...further]) await ensurePartitions(db, weekOf(week));
  return (await buildAccount(db)).id;
}

/** An email from the Wednesday of that week with all its rows, as delivery leaves them. */
export async function add(db: Sql, accountId: string, week: number, fields: Fields = {}): Promise<string> {
  const [id = ''] = await addMany(db, accountId, week, 1, fields);
  return id;
}

export async function addMany(
  db: Sql,
  accountId: string,
  week: number,
  count: number,
  { scheduledAt, waiting }: Fields = {},
): Promise<string[]> {
  const at = new Date(weekOf(week).getTime() + 2.5 * dayMs);
  const newIds = () => Array.from({ length: count }, () => newId(at));
  const ids = newIds();
  const insert = (text: string, ...values: unknown[]) => db.query({ text, values });
  await insert(
    `INSERT INTO emails (id, account_id, domain_id, status, "from", "to", cc, bcc, reply_to, subject, tags, message_id, pending, created_at,
                         scheduled_at, from_address, from_domain)
     SELECT id, $2, $2, $3, 'a@b.test', '{}', '{}', '{}', '{}', 's', '{all}', 'm', $4, $5, $6, 'a@b.test', 'b.test' FROM unnest($1::uuid[]) id`,
    ...[ids, accountId, waiting ? 'queued' : 'sent', waiting ? 1 : 0, at, scheduledAt ?? null],
  );
  await insert(`INSERT INTO email_contents (email_id, text) SELECT id, 'text' FROM unnest($1::uuid[]) id`, ids);
  await insert(
    `INSERT INTO recipients (account_id, email_id, position, kind, address, destination, status, next_attempt_at, job_id)
     SELECT $2, id, 0, 'to', 'c@d.test', 'd.test', $3, $4, $5 FROM unnest($1::uuid[]) id`,
    ...[ids, accountId, waiting ? 'queued' : 'delivered', waiting ? at : null, waiting?.jobId ?? null],
  );
  await insert(
    `INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, phase, outcome, reason)
     SELECT email_id, id, 'c@d.test', 1, $3, 5, 'data', 'delivered', 'taken' FROM unnest($1::uuid[], $2::uuid[]) each (email_id, id)`,
    ...[ids, newIds(), at],
  );
  await insert(
    `INSERT INTO webhook_deliveries (id, account_id, webhook_id, email_id, event, payload, status)
     SELECT id, $3, $3, email_id, 'email.sent', '{}', 'succeeded' FROM unnest($1::uuid[], $2::uuid[]) each (email_id, id)`,
    ...[ids, newIds(), accountId],
  );
  await insert(
    `INSERT INTO attachments SELECT $2, sha256(id::text::bytea), 'bytes', $3 FROM unnest($1::uuid[]) id`,
    ...[ids, accountId, scheduledAt ?? at],
  );
  await insert(
    `INSERT INTO returns (account_id, email_id, recipient, kind) SELECT $2, id, 'c@d.test', 'bounce' FROM unnest($1::uuid[]) id`,
    ...[ids, accountId],
  );
  await insert(
    `INSERT INTO sandbox_messages (id, email_id, mail_from, rcpt_to, subject, header_from, dkim, size, raw)
     SELECT id, email_id, '', '{}', 's', 'a@b.test', '[]', 1, 'x' FROM unnest($1::uuid[], $2::uuid[]) each (email_id, id)`,
    ...[ids, newIds()],
  );
  return ids;
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
