import t from 'tap';
import * as dkimKeys from '../../src/core/domains/dkim-keys.ts';
import * as domains from '../../src/core/domains/domains.ts';
import * as deliveries from '../../src/core/webhooks/webhook-deliveries.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { Keyring, open } from '../../src/crypto/seal.ts';
import { buildAccount, buildVerifiedDomain } from '../support/build.ts';
import { openDatabase, openQueue } from '../support/db.ts';

const encryptionKey = Buffer.alloc(32);
const keyring = new Keyring(encryptionKey);

t.test('a secret rotated with the id in capitals can be opened', async (t) => {
  const db = await openDatabase(t);
  const { id: accountId } = await buildAccount(db);
  const input = { url: 'https://one.test/', events: ['email.sent' as const] };
  const { webhook } = await webhooks.create(db, accountId, input, keyring);
  const { secret } = await webhooks.rotateSecret(db, accountId, webhook.id.toUpperCase(), keyring);
  const { secret: sealed } = await webhooks.get(db, accountId, webhook.id);
  t.equal(webhooks.openSecret(keyring, webhook.id, sealed), secret);
});

t.test('a test call with the id of the endpoint in capitals names it as stored', async (t) => {
  const { db, queue } = await openQueue(t);
  const { id: accountId } = await buildAccount(db);
  const input = { url: 'https://one.test/', events: ['email.sent' as const] };
  const { webhook } = await webhooks.create(db, accountId, input, keyring);
  const { payload } = await deliveries.sendTest(db, queue, accountId, webhook.id.toUpperCase());
  t.equal(JSON.parse(payload).data.webhook_id, webhook.id);
  const jobs = await db.query({ text: `SELECT group_id FROM pgboss.job WHERE name = 'webhook'` });
  t.strictSame(jobs, [{ group_id: webhook.id }]);
});

t.test('a DKIM key added with the id of the domain in capitals can be opened', async (t) => {
  const db = await openDatabase(t);
  const { id: accountId } = await buildAccount(db);
  const { id } = await buildVerifiedDomain(db, accountId, encryptionKey);
  const rotation = { algorithm: 'ed25519' as const };
  await dkimKeys.rotate(db, accountId, id.toUpperCase(), rotation, keyring);
  const [made] = await dkimKeys.list(db, accountId, id);
  t.ok(made?.privateKey && open(keyring, made.privateKey, domains.sealContext(id)).length > 0);
});
