import t from 'tap';
import { forgetExpired } from '../../src/core/accounts/idempotency.ts';
import type { Sql } from '../../src/db/client.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { eventually } from '../support/node.ts';

t.test('expired idempotency keys are deleted in batches, and one that is used again stays', async (t) => {
  const db = await openDatabase(t);
  const { id } = await buildAccount(db);
  const add = (name: string, keys: number, hours: number) =>
    db.query({
      text: `INSERT INTO idempotency_keys (account_id, key, fingerprint, response, expires_at)
             SELECT $1, $2 || n, '', '{}', now() + make_interval(hours => $4) FROM generate_series(1, $3::int) n`,
      values: [id, name, keys, hours],
    });
  await add('over-', 2_500, -1);
  await add('kept-', 3, 1);
  const left = () => db.prisma.idempotencyKey.count();
  const seen: number[] = [];
  const stopping = new AbortController();
  const watched: Sql = {
    async query<Row>(statement: Parameters<Sql['query']>[0]) {
      const rows = await db.query<Row>(statement);
      seen.push(await left());
      if (seen.length === 2) stopping.abort();
      return rows;
    },
  };
  await forgetExpired(watched, stopping.signal);
  t.strictSame(seen, [1_503, 503]);

  await forgetExpired(db);
  t.equal(await left(), 3);

  // One is used again while it is being deleted.
  await add('over-', 1, -1);
  let forgetting: Promise<void> | undefined;
  await db.transaction(async (tx) => {
    await tx.query({
      text: `UPDATE idempotency_keys SET expires_at = now() + interval '1 day' WHERE key = 'over-1'`,
    });
    forgetting = forgetExpired(db);
    await eventually(async () => {
      const waits = 'SELECT FROM pg_locks WHERE NOT granted AND transactionid = pg_current_xact_id()::xid';
      return (await tx.query({ text: waits })).length > 0;
    });
  });
  await forgetting;
  t.equal(await left(), 4);
});
