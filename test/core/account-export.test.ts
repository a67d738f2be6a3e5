import { createHash } from 'node:crypto';
import t from 'tap';
import * as dkimKeys from '../../src/core/domains/dkim-keys.ts';
import { storeFiles } from '../../src/core/emails/attachments.ts';
import { type Exported, exported } from '../../src/core/privacy/account-export.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database } from '../../src/db/client.ts';
import type { Account } from '../../src/generated/prisma/client.ts';
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

t.test(
  'an export has the DKIM keys of each domain, the bytes of each file, and nothing of another account',
  async (t) => {
    const db = await openDatabase(t);
    const build = async (name: string) => {
      const sender = await buildSender(db, testKey(5));
      const { account, domainId } = sender;
      await dkimKeys.rotate(
        db,
        account.id,
        domainId,
        { algorithm: 'ed25519', selector: name },
        new Keyring(testKey(5)),
      );
      const files = ['one', 'two'].map((word) => Buffer.from(`${word} of ${name}`));
      const lastUsedAt = new Date();
      const named = files.map((content) => ({
        sha256: createHash('sha256').update(content).digest('hex'),
        content,
        lastUsedAt,
      }));
      await db.transaction((tx) => storeFiles(tx, account.id, named));
      await db.query({
        text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, event, payload) VALUES ($1, $2, $3, 'email.queued', $4)`,
        values: [newId(), account.id, newId(), name],
      });
      return db.prisma.account.findUniqueOrThrow({ where: { id: account.id } });
    };
    const accounts = [await build('ann'), await build('bob')];
    for (const [n, name] of ['ann', 'bob'].entries()) {
      const found: Exported[] = [];
      for await (const one of exported(db, accounts[n] as Account, { files: true, deliveries: true })) found.push(one);
      const texts = found.flatMap((one) => {
        if (one.type === 'domain') return one.keys.map(({ selector }) => `key ${selector}`);
        if (one.type === 'attachment') return [`file ${one.row.content}`];
        return one.type === 'webhook_delivery' ? [`call ${one.row.payload}`] : [];
      });
      t.strictSame(texts.sort(), [`call ${name}`, `file one of ${name}`, `file two of ${name}`, `key ${name}`]);
    }
  },
);

t.test('what has more rows than are read together is exported whole, each row once and in order', async (t) => {
  const { db, queue } = await openQueue(t);
  const build = async () => {
    const { account, from } = await buildSender(db, testKey(5));
    const requests = [1, 2].map(() => requestOf(from, ['ann@x.test']));
    const emails = (await accept(db, queue, holderOf(account), requests)).flatMap((one) =>
      'email' in one ? [one.email.id] : [],
    );
    for (const [text, id] of [
      [
        `INSERT INTO suppressions (id, account_id, address, reason) SELECT uuidv7(), $1, n || '@x.test', 'manual'
           FROM generate_series(1, 1001) n`,
        account.id,
      ],
      [
        `INSERT INTO attachments (account_id, sha256, content, last_used_at) SELECT $1, sha256(n::text::bytea), '', now()
           FROM generate_series(1, 1001) n`,
        account.id,
      ],
      [
        `INSERT INTO webhook_deliveries (id, account_id, webhook_id, event, payload) SELECT uuidv7(), $1, $1, 'email.sent', '{}'
           FROM generate_series(1, 1001)`,
        account.id,
      ],
      [
        `INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, phase, outcome, reason)
         SELECT email, uuidv7(), 'ann@x.test', 1, now(), 1, 'rcpt', 'deferred', '' FROM unnest($1::uuid[]) email, generate_series(1, 700)`,
        emails,
      ],
    ] as const)
      await db.query({ text, values: [id] });
    return { account: await db.prisma.account.findUniqueOrThrow({ where: { id: account.id } }), emails };
  };
  const [{ account, emails }] = [await build(), await build()];
  const found = new Map<string, string[]>();
  for await (const { type, row } of exported(db, account, { files: false, deliveries: true })) {
    const place =
      'sha256' in row ? row.sha256 : type === 'attempt' ? `${row.emailId} ${row.id}` : 'id' in row ? row.id : '';
    found.set(type, [...(found.get(type) ?? []), place]);
  }
  const { length: rows } = emails;
  for (const [type, count] of Object.entries({
    suppression: 1_001,
    attachment: 1_001,
    webhook_delivery: 1_001,
    attempt: 1_400,
    email: rows,
  })) {
    const places = found.get(type) ?? [];
    t.equal(places.length, count, `${type}: each, and none of another account`);
    t.strictSame(places, [...new Set(places)].sort(), `${type}: once, in order`);
  }
});
