import t from 'tap';
import { type DeliveryFilter, search } from '../../src/core/webhooks/delivery-search.ts';
import type { Database, Sql } from '../../src/db/client.ts';
import { ensurePartitions } from '../../src/db/partitions.ts';
import { newId } from '../../src/ids.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';

const all: DeliveryFilter = { webhookId: undefined, emailId: undefined, event: undefined, status: undefined };
const webhookIds = [newId(), newId()] as const;
const emailId = newId();

/**
 * An account with deliveries of two endpoints in two weeks, nearly all of them succeeded, and another account's. Those of the
 * present week are of one state.
 */
async function build(db: Database, count: number): Promise<string> {
  const { id } = await buildAccount(db);
  await ensurePartitions(db, new Date(Date.now() - 8 * 24 * 3_600_000));
  for (const [accountId, endpoints] of [
    [id, webhookIds],
    [(await buildAccount(db)).id, [newId(), newId()]],
  ] as const)
    await db.query({
      text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, email_id, event, payload, status)
             SELECT (lpad(to_hex((extract(epoch FROM date_trunc('week', now(), 'UTC') - (n % 8) * interval '1 day') * 1000)::bigint), 12, '0') || '7' || substr(md5(n || $1::text), 1, 19))::uuid,
                    $1::uuid, CASE WHEN n % 3 = 0 THEN $2::uuid ELSE $3 END, CASE WHEN n % 100 < 3 THEN $4::uuid END,
                    CASE WHEN n % 500 = 7 THEN 'email.bounced' WHEN n % 250 = 9 THEN 'email.of-a-later-release' WHEN n % 2 = 0 THEN 'email.queued' ELSE 'email.sent' END, '{}',
                    (CASE WHEN n % 200 IN (9, 10, 7) THEN 'failed' ELSE 'succeeded' END)::webhook_delivery_status
               FROM generate_series(1, $5::int) n`,
      values: [accountId, ...endpoints, emailId, count],
    });
  return id;
}

/** What the same search finds when it reads everything. */
async function expected(db: Database, accountId: string, filter: DeliveryFilter): Promise<string[]> {
  const where = { accountId, ...Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined)) };
  const rows = await db.prisma.webhookDelivery.findMany({ where, orderBy: { id: 'desc' }, select: { id: true } });
  return rows.map(({ id }) => id);
}

function* filters(): Generator<DeliveryFilter> {
  for (const webhookId of [undefined, webhookIds[0], newId()])
    for (const email of [undefined, emailId])
      for (const event of [undefined, 'email.bounced', 'email.sent', 'webhook.test'])
        for (const status of [undefined, 'pending', 'succeeded', 'failed'] as const)
          yield { webhookId, emailId: email, event, status };
}

t.test('every combination of filters finds the same, with the index of states and before it is built', async (t) => {
  const db = await openDatabase(t);
  const accountId = await build(db, 2_000);
  const check = async () => {
    for (const filter of filters()) {
      const ids = await expected(db, accountId, filter);
      const name = JSON.stringify(filter);
      const first = await search(db, accountId, filter, { limit: 20, offset: 0 });
      t.strictSame(first, { ids: ids.slice(0, 20), count: ids.length, countExact: true }, name);
      const later = await search(db, accountId, filter, { limit: 20, offset: 15 }, 7);
      const counted = { count: Math.min(ids.length, 7), countExact: ids.length <= 7 };
      t.strictSame(later, { ids: ids.slice(15, 35), ...counted }, name);
    }
  };
  await check();
  const known = { ...db };
  await db.query({ text: 'DROP INDEX webhook_deliveries_state_idx' });
  await db.query({
    text: 'CREATE INDEX webhook_deliveries_state_idx ON ONLY webhook_deliveries (account_id, status, event, id DESC, webhook_id)',
  });
  // Another object, of which it is not known that it had the index.
  const found = await search(known, accountId, { ...all, status: 'failed' }, { limit: 20, offset: 0 });
  t.strictSame(found.ids, (await expected(db, accountId, { ...all, status: 'failed' })).slice(0, 20));
});

/** How many rows of deliveries this transaction has read. */
async function read(tx: Sql): Promise<number> {
  const [row] = await tx.query<{ rows: number }>({
    text: `SELECT sum(coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0))::int AS rows FROM pg_stat_xact_user_tables WHERE relname LIKE 'webhook_deliveries%'`,
  });
  return row?.rows ?? 0;
}

t.test('a page reads no other deliveries, whatever the statistics say, and counting ends', async (t) => {
  const db = await openDatabase(t);
  const accountId = await build(db, 20_000);
  const [webhookId] = webhookIds;
  for (const known of [false, true]) {
    if (known) await db.query({ text: 'ANALYZE webhook_deliveries' });
    for (const [filter, most] of [
      [all, 400],
      // A week's statistics come within minutes of its first mail.
      [{ ...all, webhookId }, known ? 400 : 20_000],
      [{ ...all, status: 'pending' }, 20],
      [{ ...all, status: 'failed' }, 600],
      [{ ...all, status: 'succeeded' }, 600],
      [{ ...all, event: 'email.unsubscribed' }, 20],
      [{ ...all, event: 'email.bounced' }, 250],
      [{ ...all, event: 'email.sent' }, 600],
      [{ ...all, webhookId, status: 'pending' }, 20],
      [{ ...all, webhookId, event: 'email.bounced', status: 'failed' }, 250],
    ] as [DeliveryFilter, number][])
      await db.transaction(async (tx) => {
        const before = await read(tx);
        const page = { limit: 20, offset: 0 };
        const { count } = await search({ ...db, query: tx.query } as Database, accountId, filter, page, 100);
        t.ok(count <= 100);
        const rows = (await read(tx)) - before;
        t.ok(rows <= most, `${JSON.stringify(filter)}: ${rows} rows`);
      });
  }
});
