import t from 'tap';
import { eraseDue } from '../../src/core/privacy/erasing.ts';
import * as erasures from '../../src/core/privacy/erasures.ts';
import { tokenKeys } from '../../src/core/secrets/service-secrets.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';

const keyring = new Keyring(testKey(5));

t.test('accounts take turns: a large erasure of one keeps no other account waiting, whenever it asks', async (t) => {
  const db = await openDatabase(t);
  const keys = { keyring, tokenKeys: await tokenKeys(db, keyring) };
  const asker = async () => {
    const { id } = await buildAccount(db);
    const ask = (address = 'ann@x.test') => erasures.ask(db, id, { address, keepsSuppression: true }, keys);
    return { id, ask };
  };
  const [large, small, late] = [await asker(), await asker(), await asker()];
  await db.query({
    text: `INSERT INTO idempotency_keys (account_id, key, fingerprint, response, expires_at)
           SELECT $1, 'order-' || n, '', '{}', now() + interval '1 day' FROM generate_series(1, 40000) n`,
    values: [large.id],
  });
  for (const address of ['ann@x.test', 'bob@x.test', 'cy@x.test']) await large.ask(address);
  await small.ask();
  let transactions = 0;
  const counted: Database = {
    ...db,
    async transaction(work) {
      transactions += 1;
      if (transactions === 20) await late.ask();
      return db.transaction(work);
    },
  };
  await eraseDue(counted, keyring, silentLog, new AbortController().signal, 1);
  const done = await db.query<{ by: string }>({
    text: 'SELECT account_id AS by FROM erasures WHERE done_at IS NOT NULL ORDER BY done_at, id',
  });
  t.strictSame(
    done.map(({ by }) => by),
    [small.id, late.id, large.id, large.id, large.id],
  );
});
