import type pg from 'pg';
import { ensurePartitions } from '../../../src/db/partitions.ts';
import { type Recipe, siteName } from '../throughput/recipe.ts';

/**
 * Rows as acceptance and delivery leave them: each is a copy of one that was really delivered, with some differences.
 */

const step = 20_000;
const day = 24 * 3_600_000;

/** Two rows of three belong to one account, as if it had most of the mail; the others to a hundred more. */
const accounts = 100;

type Overrides = Record<string, Record<string, string>>;

/** How a row differs from its model: SQL over `numbers` (n, id, at, address) and the model `t`. */
const delivered = (shortBody: boolean): Overrides => ({
  emails: {
    id: 'numbers.id',
    account_id: `CASE WHEN n % 3 = 0 THEN md5('account ' || n % ${accounts})::uuid ELSE t.account_id END`,
    '"to"': 'ARRAY[numbers.address]',
    recipient_addresses: 'ARRAY[numbers.address]',
    subject: `'Your order ' || n || ' has left our warehouse ' || n % 5000`,
    tags: `ARRAY['tag' || n % 50, 'all']`,
    type: `(CASE WHEN n % 10 = 0 THEN 'marketing' ELSE 'transactional' END)::email_type`,
    status: `(CASE WHEN n % 100 = 1 THEN 'failed' ELSE 'sent' END)::email_status`,
    failed: '(n % 100 = 1)::int',
    from_address: `CASE WHEN n % 20 = 1 THEN 'other@' || t.from_domain ELSE t.from_address END`,
    message_id: `numbers.id || '@' || t.from_domain`,
    created_at: 'numbers.at',
    sent_at: `CASE WHEN n % 100 <> 1 THEN numbers.at + interval '1 second' END`,
  },
  email_contents: {
    email_id: 'numbers.id',
    html: shortBody ? 'NULL' : `'<p>' || n || '</p>' || t.html`,
    text: shortBody ? `'Your order ' || n || ' has left our warehouse.'` : `n || t.text`,
  },
  recipients: {
    email_id: 'numbers.id',
    account_id: `CASE WHEN n % 3 = 0 THEN md5('account ' || n % ${accounts})::uuid ELSE t.account_id END`,
    address: 'numbers.address',
    settled_at: `numbers.at + interval '1 second'`,
    status: `(CASE WHEN n % 100 = 1 THEN 'failed' ELSE 'delivered' END)::recipient_status`,
  },
  attempts: { email_id: 'numbers.id', id: 'gen_random_uuid()', recipient: 'numbers.address', at: 'numbers.at' },
});

/** The same for one account, due now, with whole bodies, and nothing done yet. */
const queued = (): Overrides => {
  const { emails, email_contents } = delivered(false);
  return {
    emails: {
      ...emails,
      account_id: 't.account_id',
      status: `'queued'`,
      failed: '0',
      pending: '1',
      sent_at: 'NULL',
      from_address: 't.from_address',
      type: 't.type',
    },
    email_contents: email_contents ?? {},
    recipients: {
      email_id: 'numbers.id',
      address: 'numbers.address',
      destination: `split_part(numbers.address, '@', 2)`,
      status: `'queued'`,
      attempts: '0',
      next_attempt_at: 'numbers.at',
      last_response: 'NULL',
      settled_at: 'NULL',
    },
  };
};

/** Keeps one delivered email in this session, with all its rows, as the model for others. */
export async function takeModel(db: pg.Client): Promise<void> {
  const { rows } = await db.query("SELECT id FROM emails WHERE status = 'sent' ORDER BY id DESC LIMIT 1");
  for (const table of ['emails', 'email_contents', 'recipients', 'attempts']) {
    const key = table === 'emails' ? 'id' : 'email_id';
    await db.query(`CREATE TEMP TABLE model_${table} AS SELECT * FROM ${table} WHERE ${key} = '${rows[0].id}'`);
  }
}

/**
 * Adds delivered emails with short bodies, spread evenly over a period.
 *
 * ¶ @param tell reports progress now and then
 */
export async function addDelivered(
  db: pg.Client,
  { emails, from, to }: { emails: number; from: Date; to: Date },
  tell: (line: string) => void,
): Promise<void> {
  for (let at = from.getTime(); at < to.getTime() + 7 * day; at += 7 * day) {
    await ensurePartitions({ query: async ({ text, values }) => (await db.query(text, values)).rows }, new Date(at));
  }
  const every = (to.getTime() - from.getTime()) / emails;
  const time = `(${from.getTime()} + n * ${every}::float8)`;
  const address = `'r' || n % 200000 || '@x' || n % 1000 || '.test'`;
  await insertAll(db, { emails, time, address, overrides: delivered(true) }, tell);
}

/**
 * Adds queued emails to the recipients of this round, due now, as acceptance leaves those that do not fit into their
 * account's line. They appear all at once.
 */
export async function addQueued(
  db: pg.Client,
  { round, count, tls, domains, sites }: Recipe,
  tell: (line: string) => void,
): Promise<void> {
  if (sites !== 1) throw new Error('the backlog has one site');
  const address = `'r${round}.u' || n || '@d' || n % ${domains} || '.${siteName(tls, 0)}'`;
  await db.query('BEGIN');
  await insertAll(db, { emails: count, time: `(${Date.now()} + n / 1000)`, address, overrides: queued() }, tell);
  await db.query('COMMIT');
}

interface Wanted {
  emails: number;
  /** SQL over `n`: ms since 1970. */
  time: string;
  address: string;
  overrides: Overrides;
}

async function insertAll(db: pg.Client, wanted: Wanted, tell: (line: string) => void): Promise<void> {
  const { emails, time, address, overrides } = wanted;
  const inserts: string[] = [];
  for (const [table, changed] of Object.entries(overrides)) inserts.push(await insertOf(db, table, changed));
  const began = performance.now();
  let told = began;
  for (let done = 0; done < emails; done += step) {
    // The statements of one query are one transaction.
    await db.query(`CREATE TEMP TABLE numbers AS
        SELECT n, (lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0') || '8' || lpad(to_hex(n), 7, '0') || lpad(to_hex((random() * 4294967295)::bigint), 8, '0'))::uuid AS id,
               to_timestamp(ms / 1000.0) AS at, address
          FROM (SELECT n, ${time}::bigint AS ms, ${address} AS address FROM generate_series(${done}, ${Math.min(emails, done + step) - 1}) n) numbered;
      ${inserts.join(';\n')}; DROP TABLE numbers`);
    const now = performance.now();
    if (now - told < 15_000) continue;
    told = now;
    const filled = done + step;
    const left = ((now - began) / filled) * (emails - filled);
    const rate = (filled / (now - began)) * 1_000;
    tell(`  ${filled} of ${emails} emails, ${rate.toFixed(0)}/s, ${Math.ceil(left / 60_000)} min left`);
  }
}

async function insertOf(db: pg.Client, table: string, changed: Record<string, string>): Promise<string> {
  const { rows } = await db.query<{ column: string }>({
    text: `SELECT quote_ident(attname) AS column FROM pg_attribute
            WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
    values: [table],
  });
  const columns = rows.map(({ column }) => column);
  const unknown = Object.keys(changed).find((column) => !columns.includes(column));
  if (unknown !== undefined) throw new Error(`${table} has no column ${unknown}`);
  const values = columns.map((column) => changed[column] ?? `t.${column}`);
  return `INSERT INTO ${table} (${columns.join(', ')}) SELECT ${values.join(', ')} FROM numbers CROSS JOIN model_${table} t`;
}
