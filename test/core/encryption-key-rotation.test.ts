import t from 'tap';
import * as domains from '../../src/core/domains/domains.ts';
import { hold } from '../../src/core/operations/encryption-key-holders.ts';
import { rotate } from '../../src/core/operations/encryption-key-rotation.ts';
import { sealingKey } from '../../src/core/secrets/encryption-key.ts';
import { tokenKeys } from '../../src/core/secrets/service-secrets.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { type EncryptionKey, Keyring, open, seal } from '../../src/crypto/seal.ts';
import type { Database, Sql } from '../../src/db/client.ts';
import { floorId, newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { parsePrivateKey } from '../../src/mail/compose/dkim-key.ts';
import { buildAccount } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { eventually } from '../support/node.ts';

const [old, fresh] = [testKey(1), testKey(2)];
const before = new Keyring(old);
const both = new Keyring(old, fresh);
const after = new Keyring(fresh);
const url = 'https://hooks.example.com/';

/** A database with a secret in every place that can have one, and a function that opens them all. */
async function fill(db: Database) {
  await hold(db, before, silentLog).then((holding) => holding.stop());
  const tokens = await tokenKeys(db, before);
  const { id: accountId } = await buildAccount(db);
  const { id: domainId } = await domains.add(db, accountId, { domain: 'a.test' }, before);
  await db.query({
    text: `INSERT INTO dkim_keys (id, account_id, domain_id, selector, algorithm, private_key, public_key)
           SELECT gen_random_uuid(), account_id, id, 'second', 'ed25519', dkim_private_key, '' FROM domains WHERE id = $1`,
    values: [domainId],
  });
  const { webhook, secret } = await webhooks.create(db, accountId, { url, events: [] }, before);
  const second = await webhooks.rotateSecret(db, accountId, webhook.id, before);
  const openAll = async (keyring: Keyring) => {
    const domain = await domains.get(db, accountId, domainId);
    const [extra] = await db.query<{ sealed: Buffer }>({ text: 'SELECT private_key AS sealed FROM dkim_keys' });
    const hook = await webhooks.get(db, accountId, webhook.id);
    for (const sealed of [domain.dkimPrivateKey, extra?.sealed ?? Buffer.alloc(0)])
      parsePrivateKey(open(keyring, sealed, domains.sealContext(domainId)));
    const { unsubscribe, returnPath } = await tokenKeys(db, keyring);
    return {
      tokens: unsubscribe.equals(tokens.unsubscribe) && returnPath.equals(tokens.returnPath),
      secrets: [hook.secret, hook.previousSecret ?? Buffer.alloc(0)].map((one) =>
        webhooks.openSecret(keyring, webhook.id, one),
      ),
    };
  };
  return { accountId, domainId, openAll, secrets: [second.secret, secret] };
}

t.test('after a rotation the new key opens everything, and the old one nothing', async (t) => {
  const db = await openDatabase(t);
  const { openAll, secrets } = await fill(db);
  const told: number[][] = [];
  const done = await rotate(db, both, after.first, (...progress) => told.push(progress));
  t.equal(done, 7);
  t.strictSame(told.at(-1), [7, 7]);
  t.strictSame(await openAll(after), { tokens: true, secrets }, 'tokens in mail that was sent before stay valid');
  await t.rejects(openAll(before), /known/);
  t.equal((await hold(db, before, silentLog)).admission, 'another key');
  t.equal(await rotate(db, both, after.first), 0, 'running it again changes nothing');
});

t.test('secrets from before keys had names are sealed again too', async (t) => {
  const db = await openDatabase(t);
  const { openAll, secrets } = await fill(db);
  await db.query({ text: 'UPDATE encryption_check SET key_id = NULL; DELETE FROM service_secrets' });
  await rotate(db, both, after.first);
  t.strictSame(await openAll(after), { tokens: true, secrets });
});

t.test('a process that does not know the new key stops the rotation before anything is changed', async (t) => {
  const db = await openDatabase(t);
  const { openAll, secrets } = await fill(db);
  const holding = await hold(db, before, silentLog);
  await t.rejects(rotate(db, both, after.first), { message: /do not know the new key yet/ });
  t.strictSame(await openAll(before), { tokens: true, secrets });
  t.equal(await db.transaction(async (tx) => (await sealingKey(tx, both)).id), before.first.id);
  await holding.stop();
  const informed = await hold(db, both, silentLog);
  await rotate(db, both, after.first);
  await informed.stop();
});

t.test('a process that was killed stops the rotation for a minute', async (t) => {
  const db = await openDatabase(t);
  const { openAll, secrets } = await fill(db);
  const seen = (secondsAgo: number) =>
    db.query({
      text: `INSERT INTO key_holders (id, hostname, key_ids, seen_at) VALUES ($1, 'dead', $2, now() - make_interval(secs => $3))
             ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`,
      values: [floorId(new Date(0)), before.ids, secondsAgo],
    });
  await seen(45);
  await t.rejects(rotate(db, both, after.first), { message: /by their machines: dead;/ });
  await seen(61);
  await rotate(db, both, after.first);
  t.strictSame(await openAll(after), { tokens: true, secrets });
});

t.test('a secret that changes while it is sealed again keeps its change', async (t) => {
  const db = await openDatabase(t);
  const { accountId, openAll, secrets } = await fill(db);
  const [webhook] = await webhooks.list(db, accountId);
  let changed = '';
  const query: Database['query'] = async (statement) => {
    if (!changed && /^UPDATE webhooks t SET secret\b/.test(statement.text))
      ({ secret: changed } = await webhooks.rotateSecret(db, accountId, webhook?.id ?? '', both));
    return db.query(statement);
  };
  await rotate({ ...db, query }, both, after.first);
  t.strictSame(await openAll(after), { tokens: true, secrets: [changed, secrets[0]] });
});

t.test('a rotation killed halfway needs both keys, and can be continued', async (t) => {
  const db = await openDatabase(t);
  const { openAll, secrets } = await fill(db);
  const killed = rotate(db, both, after.first, () => {
    throw new Error('killed');
  });
  await t.rejects(killed, /killed/);
  t.equal((await hold(db, after, silentLog)).admission, 'two keys are in use');
  t.equal((await hold(db, before, silentLog)).admission, 'another key');
  await (await hold(db, both, silentLog)).stop();
  t.strictSame(await openAll(both), { tokens: true, secrets }, 'both keys together open everything');
  const third = new Keyring(old, fresh, testKey(3));
  await t.rejects(rotate(db, third, new Keyring(testKey(3)).first), /not finished/);
  t.ok((await rotate(db, both, after.first)) > 0);
  t.strictSame(await openAll(after), { tokens: true, secrets });
  t.equal((await hold(db, after, silentLog)).admission, 'admitted');
});

/** Starts a rotation that has to wait for a secret being made with the old key, and runs `work` meanwhile. */
async function rotateWhileSealing(db: Database, work: (tx: Sql, key: EncryptionKey) => Promise<unknown>) {
  let settled = false;
  const { rotating } = await db.transaction(async (tx) => {
    const key = await sealingKey(tx, both);
    const rotating = rotate(db, both, after.first).finally(() => {
      settled = true;
    });
    rotating.catch(() => undefined);
    const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await eventually(async () => settled || (await db.query({ text: waits })).length > 0);
    if (settled) throw new Error('the rotation did not wait');
    await work(tx, key);
    return { rotating };
  });
  return rotating;
}

t.test('the rotation waits for a secret that is being made with the old key, and seals it again', async (t) => {
  const db = await openDatabase(t);
  const { accountId } = await fill(db);
  const id = newId();
  await rotateWhileSealing(db, (tx, key) =>
    tx.query({
      text: 'INSERT INTO webhooks (id, account_id, url, events, secret) VALUES ($1, $2, $3, $4, $5)',
      values: [id, accountId, url, [], seal(key, Buffer.from('whsec_made'), webhooks.sealContext(id))],
    }),
  );
  const { secret } = await webhooks.get(db, accountId, id);
  t.equal(webhooks.openSecret(after, id, secret), 'whsec_made');
});

t.test('of two rotations at once one is refused, and a secret that no key opens is named', async (t) => {
  const db = await openDatabase(t);
  const { accountId } = await fill(db);
  const { webhook } = await webhooks.create(db, accountId, { url, events: [] }, before);
  await db.query({
    text: `UPDATE webhooks SET secret = decode('02', 'hex') || decode(repeat('00', 60), 'hex') WHERE id = $1`,
    values: [webhook.id],
  });
  const named = { message: new RegExp(`neither key opens .* ${webhook.id}: remove`) };
  const second = () => t.rejects(rotate(db, both, after.first), { message: /by another process/ });
  await t.rejects(rotateWhileSealing(db, second), named);
  await t.rejects(rotate(db, both, after.first), named);
  await webhooks.remove(db, accountId, webhook.id);
  await rotate(db, both, after.first);
  t.equal((await hold(db, after, silentLog)).admission, 'admitted');
});

t.test('a sealed value is bound to its row, its key and its version', async (t) => {
  const db = await openDatabase(t);
  const { domainId, accountId } = await fill(db);
  const { dkimPrivateKey } = await domains.get(db, accountId, domainId);
  const sealed = Buffer.from(dkimPrivateKey);
  t.ok(open(before, sealed, domains.sealContext(domainId)));
  t.throws(() => open(before, sealed, domains.sealContext(accountId)), 'another row');
  for (const at of [0, 1, 8, 9, 21, 37, sealed.length - 1]) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    t.throws(() => open(both, changed, domains.sealContext(domainId)), `byte ${at}`);
  }
  t.throws(() => open(before, sealed.subarray(0, 30), domains.sealContext(domainId)));
});
