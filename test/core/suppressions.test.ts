import t from 'tap';
import * as suppressions from '../../src/core/returns/suppressions.ts';
import type { Database, Sql } from '../../src/db/client.ts';
import { ApiError } from '../../src/errors.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';

t.test('adding and removing an address at the same time: both calls are answered', async (t) => {
  const db = await openDatabase(t);
  const { id } = await buildAccount(db);
  const unforeseen: unknown[] = [];
  for (let round = 0; round < 100; round += 1) {
    const both = Array.from({ length: 3 }, () => [
      suppressions.add(db, id, { address: 'Ann@x.test', reason: 'manual' }),
      suppressions.remove(db, id, 'ann@x.test'),
    ]);
    for (const result of await Promise.allSettled(both.flat()))
      if (result.status === 'rejected' && !(result.reason instanceof ApiError)) unforeseen.push(result.reason);
  }
  t.strictSame(unforeseen, []);
});

t.test('the first reason stays, but any that stops all mail replaces "unsubscribe"', async (t) => {
  const db = await openDatabase(t);
  const { id: accountId } = await buildAccount(db);
  const address = 'ann@x.test';
  const list = async () => [...(await suppressions.find(db, accountId, [address])).values()];
  type Reason = Parameters<typeof suppressions.add>[2]['reason'];
  const add = (...reasons: Reason[]) =>
    suppressions.addAll(
      db,
      reasons.map((reason) => ({ accountId, address, reason, emailId: null })),
    );
  await add('unsubscribe');
  t.strictSame(await list(), ['unsubscribe']);
  await add('bounce');
  t.strictSame(await list(), ['bounce']);
  for (const reason of ['complaint', 'unsubscribe', 'manual'] as const) await add(reason);
  t.strictSame(await list(), ['bounce']);
  for (const reasons of [
    ['unsubscribe', 'complaint'],
    ['complaint', 'unsubscribe'],
  ] as const) {
    await suppressions.remove(db, accountId, address);
    await add(...reasons);
    t.strictSame(await list(), ['complaint'], `${reasons} at once`);
  }
});

t.test('the list of one account says nothing about the mail of another', async (t) => {
  const db = await openDatabase(t);
  const [{ id: ours }, { id: theirs }] = [await buildAccount(db), await buildAccount(db)];
  const address = 'ann@x.test';
  await suppressions.add(db, theirs, { address, reason: 'complaint' });
  t.equal((await suppressions.find(db, ours, [address])).size, 0);
  t.match(await suppressions.add(db, ours, { address, reason: 'manual' }), { accountId: ours, reason: 'manual' });
  t.strictSame([...(await suppressions.find(db, ours, [address]))], [[address, 'manual']]);
  await suppressions.remove(db, ours, address);
  t.strictSame([...(await suppressions.find(db, theirs, [address]))], [[address, 'complaint']]);
});

t.test('after an import an address is found without reading the whole list', async (t) => {
  const db = await openDatabase(t);
  const [{ id: small }, { id: large }] = [await buildAccount(db), await buildAccount(db)];
  await suppressions.add(db, small, { address: 'ann@x.test', reason: 'manual' });
  await db.query({ text: 'ANALYZE suppressions' });
  const imported = Array.from({ length: 2_000 }, (_, n) => ({ address: `u${n}@x.test`, reason: 'manual' as const }));
  await suppressions.addImported(db, large, imported);
  const blocks = await blocksRead(db, (sql) => suppressions.find(sql, large, ['u77@x.test']));
  t.ok(blocks > 0 && blocks < 20, `${blocks} blocks`);
});

t.test('a long import has the list counted at its end and now and then before', async (t) => {
  const db = await openDatabase(t);
  const { id: accountId } = await buildAccount(db);
  const batches = 40;
  const counted: number[] = [];
  for (let batch = 0; batch < batches; batch += 1) {
    const watched: Sql = {
      async query(statement) {
        if (statement.text.startsWith('ANALYZE')) counted.push(batch);
        return db.query(statement);
      },
    };
    const imported = Array.from({ length: 50 }, (_, n) => ({
      address: `u${batch}-${n}@x.test`,
      reason: 'manual' as const,
    }));
    await suppressions.addImported(watched, accountId, imported, batch * 50, batches * 50);
  }
  t.strictSame(counted, [0, 1, 2, 5, 10, 20, 39]);
});

/** How many blocks of tables and indexes the statement of `work` reads. */
async function blocksRead(db: Sql, work: (sql: Sql) => Promise<unknown>): Promise<number> {
  let blocks = Number.NaN;
  await work({
    async query({ text, values = [] }) {
      const [row] = await db.query<{ 'QUERY PLAN': { Plan: Record<string, number> }[] }>({
        text: `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
        values,
      });
      const plan = row?.['QUERY PLAN'][0]?.Plan ?? {};
      blocks = (plan['Shared Hit Blocks'] ?? Number.NaN) + (plan['Shared Read Blocks'] ?? Number.NaN);
      return [];
    },
  });
  return blocks;
}

t.test('a list is counted to a limit, and a page of one reason or of a part of addresses reads no other', async (t) => {
  const db = await openDatabase(t);
  const { id: accountId } = await buildAccount(db);
  const add = (reason: string, count: number) =>
    db.query({
      text: `INSERT INTO suppressions (id, account_id, address, reason)
             SELECT ('0190000' || to_hex(n % 16) || '-0000-7000-8000-' || substr(md5($2::text || n), 1, 12))::uuid, $1, $2::text || n || '@x.test', $2::suppression_reason
               FROM generate_series(1, $3::int) n`,
      values: [accountId, reason, count],
    });
  await add('bounce', 3_000);
  await add('complaint', 30);
  const everything = await db.prisma.suppression.findMany({ where: { accountId }, orderBy: { id: 'desc' } });
  const page = { limit: 10, offset: 5, reason: null, parts: [] };
  const cases = [
    [{ ...page }, () => true],
    [{ ...page, reason: 'complaint' as const }, ({ reason }) => reason === 'complaint'],
    [{ ...page, reason: 'manual' as const }, () => false],
    [{ ...page, parts: ['complaint1'] }, ({ address }) => address.startsWith('complaint1')],
    [{ ...page, parts: ['7@', 'CE12'.toLowerCase()] }, ({ address }) => /7@|ce12/.test(address)],
    [{ ...page, parts: ['x_test'] }, () => false],
    [{ ...page, reason: 'bounce' as const, parts: ['ce29'] }, ({ address }) => address.startsWith('bounce29')],
  ] as [typeof page & { reason: 'complaint' | null }, (one: (typeof everything)[number]) => boolean][];
  for (const [asked, matches] of cases) {
    const matching = everything.filter(matches);
    const found = await suppressions.list(db, accountId, asked, 1_000);
    t.strictSame(found.suppressions, matching.slice(5, 15), JSON.stringify(asked));
    const isExact = matching.length <= 1_000;
    t.strictSame([found.count, found.countExact], [isExact ? matching.length : 1_000, isExact], JSON.stringify(asked));
  }
  const whole = { ...page, offset: 0, parts: ['complaint7@x.test'], areWhole: true };
  for (const asked of [{ ...page, reason: 'complaint' as const }, { ...page, reason: 'manual' as const }, whole])
    await db.transaction(async (tx) => {
      const read = async () => {
        const [row] = await tx.query<{ rows: number }>({
          text: `SELECT (coalesce(idx_tup_fetch, 0) + seq_tup_read)::int AS rows FROM pg_stat_xact_user_tables WHERE relname = 'suppressions'`,
        });
        return row?.rows ?? 0;
      };
      const before = await read();
      await suppressions.list({ ...db, query: tx.query } as Database, accountId, asked);
      const rows = (await read()) - before;
      t.ok(rows < 100, `${JSON.stringify(asked)}: ${rows} rows`);
    });
});
