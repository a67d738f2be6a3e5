import t from 'tap';
import { findWaiting } from '../../src/core/destinations/giving-up.ts';
import { heldNotes, pausedUntil } from '../../src/core/recipients/waiting-for.ts';
import { newId } from '../../src/ids.ts';
import { buildKey, buildSender } from '../support/build.ts';
import { testEnv } from '../support/node.ts';
import { scheduleMany } from '../support/scheduled.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';
import { sendwright, told } from './terminal.ts';

t.test('queue stop: what waits for a domain is given up, with the reason', async (t) => {
  // Without the role `mta`, so that nobody takes the mail in hand meanwhile.
  const node = await sharedNode('api');
  const env = testEnv(node.databaseUrl, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const sender = await buildSender(node.db, encryptionKey);
  const name = `d${Date.now()}.test`;
  const email = { from: sender.from, to: [`a@${name}`, `b@${name}`], subject: 's', text: 't' };
  const { id: accountId } = sender.account;
  await node.db.prisma.webhook.create({
    data: { id: newId(), accountId, url: 'https://a.test/', events: ['email.failed'], secret: Buffer.of(0) },
  });
  const { body } = await node.call('POST', '/api/v1/emails', { key: sender.key, body: email });
  t.match(await findWaiting(node.db, name), { waiting: 2, inHand: 0 });
  t.match(await sendwright(env, 'queue', 'stop', name, '--reason', ''), { code: 2, said: /reason: must not be empty/ });
  const reason = ['--reason', 'the domain is gone'];
  t.match(await told(env, 'queue', 'stop', name, ...reason), {
    code: 0,
    domain: name,
    stopped: 2,
    in_hand: 0,
    held: 0,
    rest_waits: false,
  });
  const read = await node.call('GET', `/api/v1/emails/${body.email.id}`, { key: sender.key });
  t.match(read.body.email, {
    status: 'failed',
    error: `stopped before it was delivered, as an operator decided on the command line for all mail to ${name}: the domain is gone`,
  });
  t.match(await node.db.prisma.webhookDelivery.findMany({ where: { accountId } }), [{ event: 'email.failed' }]);
  const stopped = `0 recipients at ${name} given up.`;
  t.strictSame((await sendwright(env, 'queue', 'stop', name)).printed, stopped);
  const { body: later } = await node.call('POST', '/api/v1/emails', { key: sender.key, body: email });
  await node.db.query({
    text: 'UPDATE recipients SET job_id = $3, claimed_by = $2 WHERE email_id = $1 AND position = 0',
    values: [later.email.id, newId(), newId()],
  });
  await node.db.query({
    text: `UPDATE recipients SET job_id = NULL, next_attempt_at = $2, waiting_for = $3
            WHERE email_id = $1 AND position = 1`,
    values: [later.email.id, pausedUntil, heldNotes[0]],
  });
  t.strictSame(
    (await sendwright(env, 'queue', 'stop', name)).printed,
    `${stopped}\n1 is being sent to right now: repeat this later.\n1 is held until the owner of the email decides.`,
  );
  t.match(await sendwright(env, 'queue', 'stop', 'no such'), { code: 1, said: 'sendwright: "no such": not found' });
});

t.test('queue stop says what was given up before an error', async (t) => {
  const node = await sharedNode('api');
  const env = testEnv(node.databaseUrl, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const sender = await buildSender(node.db, encryptionKey);
  const name = `d${Date.now()}.test`;
  await scheduleMany(node.db, sender, { emails: 600, to: name, at: new Date(Date.now() + 3_600_000) });
  await node.db.query({ text: `UPDATE recipients SET attempts = 1 WHERE destination = '${name}'` });
  // The others of this node have no such domain.
  await node.db.query({
    text: `CREATE FUNCTION fail_later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF EXISTS (SELECT FROM recipients WHERE destination = '${name}' AND status = 'failed') THEN RAISE 'it broke'; END IF;
             RETURN NULL; END $$`,
  });
  await node.db.query({
    text: 'CREATE TRIGGER fail_later BEFORE UPDATE ON recipients FOR EACH STATEMENT EXECUTE FUNCTION fail_later()',
  });
  const failed = await sendwright(env, 'queue', 'stop', name);
  await node.db.query({ text: 'DROP TRIGGER fail_later ON recipients; DROP FUNCTION fail_later' });
  t.match(failed, { code: 1, said: /500 recipients were given up before the error: repeat this for the rest/ });
  t.match(await told(env, 'queue', 'stop', name), { code: 0, stopped: 100 });
});

t.test('emails stop: waiting mail of an account is stopped, by what finds it in the log', async (t) => {
  const node = await sharedNode('api');
  const env = testEnv(node.databaseUrl, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const sender = await buildSender(node.db, encryptionKey);
  const { id: account } = sender.account;
  const leaked = await buildKey(node.db, account);
  const later = new Date(Date.now() + 3_600_000).toISOString();
  const send = async (key: string, subject: string, fields: object = {}): Promise<string> => {
    const body = { from: sender.from, to: ['a@b.test', 'c@d.test'], subject, text: 't', ...fields };
    return (await node.call('POST', '/api/v1/emails', { key, body })).body.email.id;
  };
  const read = async (id: string) => (await node.call('GET', `/api/v1/emails/${id}`, { key: sender.key })).body.email;
  const own = await send(sender.key, 'Your order');
  const spam = await send(leaked, 'You win');
  await send(leaked, 'You win later', { scheduled_at: later });

  const unnamed = await sendwright(env, 'emails', 'stop', '--account', account);
  t.match(unnamed, { code: 2, said: /say which emails: --key, --tag, / });
  const misspelled = await sendwright(env, 'emails', 'stop', '--account', account, '--created-after', 'today');
  t.match(misspelled, { code: 2, said: /created_after: must be an RFC 3339/ });
  t.match(await sendwright(env, 'emails', 'stop', '--key', 'sk_live_no'), {
    code: 1,
    said: /^sendwright: key: there is none/,
  });
  const others = await buildSender(node.db, encryptionKey);
  t.match(await told(env, 'emails', 'stop', '--account', others.account.id, '--key', leaked), { stopped: 0 });

  const stopped = await sendwright(env, 'emails', 'stop', '--key', leaked, '--reason', 'the key leaked');
  t.match(stopped, { code: 0, printed: '2 recipients given up, 1 scheduled email canceled.' });
  t.match(await read(spam), {
    status: 'failed',
    error: 'stopped before it was delivered, as an operator decided on the command line: the key leaked',
  });
  t.match(await read(own), { status: 'queued' });
  t.match(await told(env, 'emails', 'stop', '--account', account, '--subject', 'order'), {
    code: 0,
    stopped: 2,
    canceled: 0,
    in_hand: 0,
    held: 0,
    rest_waits: false,
  });
  t.match(await read(own), { status: 'failed' });
});
