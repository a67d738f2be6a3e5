import t from 'tap';
import { type Exported, exported } from '../../src/core/privacy/account-export.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildSender, holderOf } from '../support/build.ts';
import { openDatabase, openQueue } from '../support/db.ts';
import { testKey } from '../support/keys.ts';

/** A database that also passes on the rows of each reading of this model. */
function watching(db: Database, of: string, look: (rows: Record<string, unknown>[]) => void): Database {
  const prisma = db.prisma.$extends({
    query: {
      $allModels: {
        async findMany({ model, args, query }) {
          const rows = await query(args);
          if (model === of) look(rows as Record<string, unknown>[]);
          return rows;
        },
      },
    },
  });
  return { ...db, prisma: prisma as unknown as Database['prisma'] };
}

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
  const watched = watching(db, 'WebhookDelivery', (rows) => {
    pages.push(rows.reduce((sum, { payload }) => sum + ((payload as string | null)?.length ?? 0), 0));
  });
  const found: Exported[] = [];
  for await (const one of exported(watched, account, { files: false, deliveries: true })) found.push(one);
  t.same(
    found.flatMap((one) => (one.type === 'webhook_delivery' ? [one.row.id] : [])),
    ids,
  );
  t.ok(Math.max(...pages) < 3_000_000, `${pages}`);
});

t.test('emails with many recipients are exported a few at a time, each once and in order', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, testKey(5));
  const account = await db.prisma.account.findUniqueOrThrow({ where: { id: sender.account.id } });
  const to = Array.from({ length: 100 }, (_, n) => `r${n}@x.test`);
  const requests = Array.from({ length: 12 }, (_, n) => requestOf(sender.from, n % 2 ? to : ['ann@x.test']));
  const accepted = await accept(db, queue, holderOf(sender.account), requests);
  const pages: number[] = [];
  const watched = watching(db, 'Recipient', (rows) => {
    pages.push(rows.length);
  });
  const found: [id: string, recipients: number][] = [];
  for await (const one of exported(watched, account, { files: false, deliveries: true }))
    if (one.type === 'email') found.push([one.row.id, one.recipients.length]);
  t.strictSame(
    found,
    accepted.map((one, n) => ['email' in one && one.email.id, n % 2 ? 100 : 1]),
  );
  t.strictSame(pages, [405, 201]);
});
