import t, { type Test } from 'tap';
import { findFree, findLeft, findNaming, type Place } from '../../src/core/privacy/affected-emails.ts';
import * as erasures from '../../src/core/privacy/erasures.ts';
import { Redaction } from '../../src/core/privacy/redaction.ts';
import { tokenKeys } from '../../src/core/secrets/service-secrets.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Sql } from '../../src/db/client.ts';
import { buildSender } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { scheduleMany } from '../support/scheduled.ts';

const person = 'ann@x.test';

/** How many emails this transaction has read. */
async function read(tx: Sql): Promise<number> {
  const [row] = await tx.query<{ rows: number }>({
    text: `SELECT sum(coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0))::int AS rows FROM pg_stat_xact_user_tables WHERE relname LIKE 'emails_2%'`,
  });
  return row?.rows ?? 0;
}

async function prepare(test: Test) {
  const db = await openDatabase(test);
  const sender = await buildSender(db, testKey(5));
  await scheduleMany(db, sender, { emails: 3_000, to: 'x.test', at: new Date() });
  const keyring = new Keyring(testKey(5));
  const asked = { address: person, keepsSuppression: true };
  const keys = { keyring, tokenKeys: await tokenKeys(db, keyring) };
  const { id } = await erasures.ask(db, sender.account.id, asked, keys);
  const work = { id, accountId: sender.account.id, redaction: new Redaction(person) };
  const name = async (where: string) => {
    const rows = await db.query<{ id: string }>({
      text: `UPDATE emails SET recipient_addresses = ARRAY['${person}'] WHERE ${where} RETURNING id`,
    });
    await db.query({ text: 'VACUUM ANALYZE emails' });
    return rows.map((row) => row.id).sort();
  };
  return { db, work, name };
}

t.test('of many emails to one address, each search reads a stretch, and all together find each once', async (t) => {
  const { db, work, name } = await prepare(t);
  const named = await name(`subject ~ '[05]$'`);
  t.ok(named.length > 100, `${named.length} emails`);
  for (const only of ['true', 'pending > 0']) {
    const found: string[] = [];
    let place: Place | null = null;
    do {
      const { ids, next, rows } = await db.transaction(async (tx) => {
        const before = await read(tx);
        const some = await findNaming(tx, work, only, place, { few: 50, stretch: 200 });
        return { ...some, rows: (await read(tx)) - before };
      });
      t.ok(rows <= 300, `${rows} rows`);
      found.push(...ids);
      place = next;
    } while (place !== null);
    t.strictSame(found, named);
  }
});

t.test('of few, they alone are read', async (t) => {
  const { db, work, name } = await prepare(t);
  const named = await name(`"to" = ARRAY['r77@x.test']`);
  t.equal(named.length, 1);
  for (const search of [findFree, findLeft])
    await db.transaction(async (tx) => {
      const before = await read(tx);
      t.strictSame(await search(tx, work, null), { ids: named, next: null });
      t.ok((await read(tx)) - before < 10, search.name);
    });
});

t.test('after many were erased, the index on recipients is not asked: it leads to what is left of them', async (t) => {
  const { db, work, name } = await prepare(t);
  const named = await name(`"to" = ARRAY['r77@x.test']`);
  const most = { few: 50, stretch: 2_000 };
  const first = await findNaming(db, work, 'true', null, most);
  t.strictSame(first, { ids: named, next: null });
  await db.query({ text: `UPDATE erasures SET counts = '{"emails": 50}'` });
  const { ids, next } = await findNaming(db, work, 'true', null, most);
  t.ok(next);
  const rest = await findNaming(db, work, 'true', next, most);
  t.strictSame([[...ids, ...rest.ids], rest.next], [named, null]);
});
