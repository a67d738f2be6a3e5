import t from 'tap';
import * as domains from '../../src/core/domains/domains.ts';
import * as encryptionKeys from '../../src/core/secrets/encryption-key.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database } from '../../src/db/client.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';

const [ours, other] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)] as [Buffer, Buffer];

const isKeyOf = async (db: Database, ...keys: [Buffer, ...Buffer[]]) =>
  (await db.transaction((tx) => encryptionKeys.admit(tx, new Keyring(...keys)))) === 'admitted';

t.test('the first key used with an empty database becomes its key', async (t) => {
  const db = await openDatabase(t);
  t.ok(await isKeyOf(db, ours));
  t.ok(await isKeyOf(db, ours));
  t.notOk(await isKeyOf(db, other));
  t.ok(await isKeyOf(db, other, ours), 'also for a process that knows another one too');
});

t.test('if many processes start at once with two keys, those with one of them are right', async (t) => {
  const db = await openDatabase(t);
  const keys = Array.from({ length: 10 }, (_, at) => (at % 2 ? ours : other));
  const answers = await Promise.all(keys.map(async (key) => [key === ours, await isKeyOf(db, key)] as const));
  const right = new Set(answers.filter(([, isRight]) => isRight).map(([isOurs]) => isOurs));
  t.equal(right.size, 1);
  t.equal(answers.filter(([, isRight]) => isRight).length, 5);
});

t.test('in an older database, the right key is the one its secrets are sealed with', async (t) => {
  const builders: Record<string, (db: Database, accountId: string) => Promise<unknown>> = {
    'a domain': (db, accountId) => domains.add(db, accountId, { domain: 'a.test' }, new Keyring(ours)),
    'a webhook': (db, accountId) =>
      webhooks.create(db, accountId, { url: 'https://a.test/', events: [] }, new Keyring(ours)),
  };
  for (const [what, build] of Object.entries(builders)) {
    const db = await openDatabase(t);
    await build(db, (await buildAccount(db)).id);
    t.notOk(await isKeyOf(db, other), what);
    t.equal(await db.prisma.encryptionCheck.count(), 0, 'a wrong key leaves nothing behind');
    t.ok(await isKeyOf(db, other, ours), 'whichever of its two keys it is');
    t.ok(await isKeyOf(db, ours));
    t.notOk(await isKeyOf(db, other));
  }
});

t.test('a domain added during a start with a wrong key locks nobody out', async (t) => {
  const db = await openDatabase(t);
  const { id } = await buildAccount(db);
  await domains.add(db, id, { domain: 'a.test' }, new Keyring(other));
  await domains.add(db, id, { domain: 'b.test' }, new Keyring(ours));
  t.ok(await isKeyOf(db, ours));
});
