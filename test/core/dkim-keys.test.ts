import t from 'tap';
import * as dkimKeys from '../../src/core/domains/dkim-keys.ts';
import * as domains from '../../src/core/domains/domains.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database } from '../../src/db/client.ts';
import { buildAccount, buildVerifiedDomain } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { untilOneWaits } from '../support/locks.ts';

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

/** A domain of a new account, with what its keys are. */
async function prepare(db: Database) {
  const { id: accountId } = await buildAccount(db);
  const { id } = await buildVerifiedDomain(db, accountId, encryptionKey);
  const list = () => dkimKeys.list(db, accountId, id);
  const add = async (algorithm: 'rsa' | 'ed25519', selector: string) => {
    await dkimKeys.rotate(db, accountId, id, { algorithm, selector }, keyring);
    const [key] = await list();
    if (key?.selector !== selector) throw new Error('the key was not added');
    return key;
  };
  /** `+` if it can sign. */
  const states = async () =>
    (await list()).map(({ selector, status, privateKey }) => `${selector} ${status}${privateKey ? ' +' : ''}`);
  return { accountId, id, add, list, states };
}

t.test(
  'a key that is added or starts to sign changes only the one of its algorithm and domain before it',
  async (t) => {
    const db = await openDatabase(t);
    const [own, other] = [await prepare(db), await prepare(db)];
    const { dkimSelector } = await domains.get(db, other.accountId, other.id);
    for (const { add } of [own, other]) {
      await dkimKeys.activate(db, await add('ed25519', 'first'));
      await add('ed25519', 'waits');
      await add('rsa', 'next');
    }
    const before = ['next pending +', 'waits pending +', 'first active +'];
    t.strictSame([await own.states(), await other.states()], [before, before]);

    const second = await own.add('ed25519', 'second');
    t.strictSame(await own.states(), ['second pending +', 'next pending +', 'first active +']);
    await dkimKeys.activate(db, second);
    t.strictSame(await own.states(), ['second active +', 'next pending +', 'first retired']);
    const retiredAt = (await own.list()).at(-1)?.retiredAt;
    await dkimKeys.activate(db, await own.add('ed25519', 'third'));
    t.strictSame(
      (await own.list()).at(-1)?.retiredAt,
      retiredAt,
      'the record of a retired key is not needed for longer',
    );
    const next = (await own.list()).find(({ selector }) => selector === 'next');
    if (next) await dkimKeys.activate(db, next);
    t.equal((await domains.get(db, own.accountId, own.id)).dkimSelector, 'next');
    t.match(await own.states(), [/^sw\w+ retired$/, 'third active +', 'second retired', 'first retired']);

    t.strictSame(await other.states(), before);
    t.equal((await domains.get(db, other.accountId, other.id)).dkimSelector, dkimSelector);
  },
);

t.test('a key whose record two nodes see at once signs from then on', async (t) => {
  const db = await openDatabase(t);
  const { add, states } = await prepare(db);
  const key = await add('ed25519', 'first');
  let other: Promise<void> = Promise.resolve();
  const slower: Database = {
    ...db,
    transaction: (work) =>
      db.transaction((tx) => {
        let statements = 0;
        return work({
          ...tx,
          async query(statement) {
            statements += 1;
            if (statements === 2) {
              other = dkimKeys.activate(db, key);
              await Promise.race([other, untilOneWaits(db)]);
            }
            return tx.query(statement);
          },
        });
      }),
  };
  await dkimKeys.activate(slower, key);
  await other;
  t.strictSame(await states(), ['first active +']);
  await dkimKeys.activate(db, key);
  t.strictSame(await states(), ['first active +'], 'nor does a node that comes later change it');
});

t.test('one key is removed, by its account only, and a domain has no key of another one', async (t) => {
  const db = await openDatabase(t);
  const [own, other] = [await prepare(db), await prepare(db)];
  const second = await buildVerifiedDomain(db, own.accountId, encryptionKey);
  const added = [await own.add('rsa', 'next'), await own.add('ed25519', 'beside')];
  await other.add('rsa', 'theirs');
  const listed = ['beside pending +', 'next pending +'];
  t.strictSame(await dkimKeys.list(db, own.accountId, second.id), []);
  await dkimKeys.rotate(db, own.accountId, second.id, { selector: 'next' }, keyring);
  t.strictSame(await own.states(), listed, 'it may have a selector that another domain of the account has');
  for (const { id } of added)
    await t.rejects(dkimKeys.remove(db, other.accountId, id), { message: 'not found', status: 404 });
  t.strictSame(await own.states(), listed);
  const [, beside] = added;
  t.match(await dkimKeys.remove(db, own.accountId, beside?.id ?? ''), { id: beside?.id, selector: 'beside' });
  t.strictSame(await own.states(), ['next pending +']);
  t.match(await dkimKeys.list(db, own.accountId, second.id), [{ selector: 'next' }]);
  t.strictSame(await other.states(), ['theirs pending +']);
});
