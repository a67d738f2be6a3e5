import t from 'tap';
import * as dkimKeys from '../../src/core/domains/dkim-keys.ts';
import * as domains from '../../src/core/domains/domains.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database } from '../../src/db/client.ts';
import { buildAccount, buildVerifiedDomain } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';

const encryptionKey = Buffer.alloc(32);
const keyring = new Keyring(encryptionKey);

t.test(
  'a selector that starts to sign meanwhile counts as in use, and a refused rotation keeps the key that waits',
  async (t) => {
    const db = await openDatabase(t);
    const { id: accountId } = await buildAccount(db);
    const { id } = await buildVerifiedDomain(db, accountId, encryptionKey);
    const rotate = (on: Database, selector: string) => dkimKeys.rotate(on, accountId, id, { selector }, keyring);
    const list = async () =>
      (await dkimKeys.list(db, accountId, id)).map(({ selector, status }) => `${selector} ${status}`);
    await rotate(db, 'next');
    const [waiting] = await dkimKeys.list(db, accountId, id);
    if (!waiting) throw new Error('no key waits');
    const activating: Database = {
      ...db,
      async transaction(work) {
        await dkimKeys.activate(db, waiting);
        await rotate(db, 'after');
        return db.transaction(work);
      },
    };
    await t.rejects(rotate(activating, 'next'), { message: 'invalid request', detail: /^selector: is in use/ });
    t.equal((await domains.get(db, accountId, id)).dkimSelector, 'next');
    t.match(await list(), ['after pending', / retired$/]);
    const removing: Database = {
      ...db,
      async transaction(work) {
        await domains.remove(db, accountId, id);
        return db.transaction(work);
      },
    };
    await t.rejects(rotate(removing, 'late'), { message: 'not found' });
  },
);
