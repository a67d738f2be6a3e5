import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { untilNoneRests } from '../../src/cli/give-up.ts';
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
    `${stopped}\n1 is being sent to, or about to be: repeat this later.\n1 is held until the owner of the email decides.`,
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
  t.match(misspelled, { code: 2, said: /stop: --created-after: must be an RFC 3339/ });
  t.match(await sendwright(env, 'emails', 'stop', '--key', 'sk_live_no'), {
    code: 1,
    said: /^sendwright: key: there is none/,
  });
  const others = await buildSender(node.db, encryptionKey);
  // Nothing of it is there, which would read as if the key had nothing waiting.
  t.match(await sendwright(env, 'emails', 'stop', '--account', others.account.id, '--key', leaked), {
    code: 2,
    said: /--key is one of another account/,
  });
  t.match(await sendwright(env, 'emails', 'stop', '--account', account, '--to', 'b.test'), {
    code: 2,
    said: /stop: --to: must be an address, or @ and a domain/,
  });

  const stopped = await sendwright(env, 'emails', 'stop', '--key', leaked, '--reason', 'the key leaked');
  t.match(stopped, { code: 0, printed: '2 recipients given up, 1 scheduled email canceled.' });
  t.equal(stopped.progress[0], 'reading what waits', 'a million that do not match take a while');
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

t.test('emails stop says what was stopped before a signal ended it', async (t) => {
  const node = await sharedNode('api');
  const env = testEnv(node.databaseUrl, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const sender = await buildSender(node.db, encryptionKey);
  const { id } = sender.account;
  const at = new Date(Date.now() + 3_600_000);
  const to = `d${Date.now()}.test`;
  await scheduleMany(node.db, sender, { emails: 600, to, at });
  const canceled = () => node.db.prisma.email.count({ where: { accountId: id, status: 'canceled' } });
  const last = await node.db.prisma.recipient.findFirstOrThrow({ where: { accountId: id } });
  await node.db.query({
    text: "UPDATE recipients SET next_attempt_at = next_attempt_at + interval '1 hour' WHERE email_id = $1",
    values: [last.emailId],
  });
  await node.db.transaction(async (tx) => {
    // It comes last, and the hundred of the second batch have to wait for it.
    await tx.query({ text: 'SELECT FROM emails WHERE id = $1 FOR UPDATE', values: [last.emailId] });
    const args = ['--no-warnings', 'src/cli.ts', 'emails', 'stop', '--account', id, '--to', `@${to}`];
    const command = spawn(process.execPath, args, {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = once(command, 'exit');
    const said = text(command.stderr);
    while ((await canceled()) === 0) {
      await sleep(50);
      // A transaction that does nothing for long is ended.
      await tx.query({ text: 'SELECT' });
    }
    command.kill('SIGINT');
    t.match(await ended, [130, null]);
    t.equal(
      await said,
      '0 recipients given up, 500 scheduled emails canceled before SIGINT: repeat this for the rest.\n',
    );
  });
  t.equal(await canceled(), 500);
  t.match(await told(env, 'emails', 'stop', '--account', id, '--to', `@${to}`), { code: 0, canceled: 100 });
});

t.test('send names the option that is wrong', async (t) => {
  const node = await sharedNode('api');
  const env = testEnv(node.databaseUrl, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const send = (...more: string[]) => sendwright(env, 'send', '--from', 'a@b.test', '--text', 't', ...more);
  t.match(await send('--to', 'c@d.test'), { code: 2, said: /^sendwright send: --subject: is required/ });
  t.match(await send('--to', 'c@d.test', '--to', 'c', '--subject', 's'), { code: 2, said: / --to\[1\]: not an email/ });
  t.match(await send('--to', 'c@d.test', '--subject', 's', '--scheduled-at', 'soon'), {
    said: / --scheduled-at: must be/,
  });
});

t.test('a command that gives mail up repeats its call until nothing is left for another one', async (t) => {
  const node = await sharedNode('api');
  const said: string[] = [];
  const listeners = () => process.listenerCount('SIGINT') + process.listenerCount('SIGTERM');
  const before = listeners();
  const repeat = (done: string | null, calls: (() => { rest: boolean; call: number })[]) =>
    untilNoneRests(
      { url: node.databaseUrl, joined: true, say: (text) => said.push(text), soFar: () => done },
      async () => calls.shift()?.() ?? { rest: false, call: 0 },
    );
  const rests =
    (call: number, rest = true) =>
    () => ({ rest, call });
  t.strictSame(await repeat('2 recipients', [rests(1), rests(2), rests(3, false), rests(4)]), { rest: false, call: 3 });
  t.strictSame(said, []);
  const fails = () => {
    throw new Error('it broke');
  };
  await t.rejects(repeat(null, [rests(1), fails]), { message: 'it broke' });
  t.strictSame(said, [], 'nothing was done');
  await t.rejects(repeat('2 recipients', [rests(1), fails]), { message: 'it broke' });
  t.strictSame(said, ['2 recipients before the error: repeat this for the rest.']);
  t.equal(listeners(), before);
});
