import t from 'tap';
import { type Exported, exported } from '../../src/core/privacy/account-export.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';

t.test('webhook deliveries are exported a few megabytes at a time, each once and in order', async (t) => {
  const db = await openDatabase(t);
  const { id } = await buildAccount(db);
  const account = await db.prisma.account.findUniqueOrThrow({ where: { id } });
  const ids = Array.from({ length: 30 }, () => newId());
  await db.query({
    text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, event, payload)
           SELECT one, $2, $3, 'email.queued', repeat('x', 250000) FROM unnest($1::uuid[]) one`,
    values: [ids, id, newId()],
  });
  const pages: number[] = [];
  const prisma = db.prisma.$extends({
    query: {
      webhookDelivery: {
        async findMany({ args, query }) {
          const rows = await query(args);
          pages.push(rows.reduce((sum, { payload }) => sum + (payload?.length ?? 0), 0));
          return rows;
        },
      },
    },
  }) as unknown as Database['prisma'];
  const found: Exported[] = [];
  for await (const one of exported({ ...db, prisma }, account, { files: false })) found.push(one);
  t.same(
    found.flatMap((one) => (one.type === 'webhook_delivery' ? [one.row.id] : [])),
    ids,
  );
  t.ok(Math.max(...pages) < 3_000_000, `${pages}`);
});
