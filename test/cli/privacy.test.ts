import { existsSync, lstatSync, readFileSync, statSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { connect } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { buildSender } from '../support/build.ts';
import { createDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { eventually, testEnv } from '../support/node.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';
import { makeFolder } from '../support/start.ts';
import { begin, sendwright, told } from './terminal.ts';

async function machine() {
  const node = await sharedNode('api');
  const env = testEnv(node.databaseUrl, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const sender = await buildSender(node.db, encryptionKey);
  const send = async (to: string, more = {}) =>
    (
      await node.call('POST', '/api/v1/emails', {
        key: sender.key,
        body: { from: sender.from, to, subject: 's', text: 'its text', ...more },
      })
    ).body.email.id as string;
  return { node, env, account: sender.account, send };
}

t.test('an account is exported to a file, which appears once it is complete', async (t) => {
  const { node, env, account, send } = await machine();
  const id = await send('a@b.test', { attachments: [{ filename: 'a.txt', content: 'aGk=' }] });
  const webhook = { id: newId(), accountId: account.id, url: 'https://a.test/', events: [], secret: Buffer.of(0) };
  await node.db.prisma.webhook.create({ data: webhook });
  await node.db.query({
    text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, email_id, event, payload, status, attempts)
           VALUES ($1, $2, $3, $4, 'email.queued', '{}', 'succeeded', '[]')`,
    values: [newId(), account.id, webhook.id, id],
  });
  const out = join(await makeFolder(t), 'account.ndjson');
  const { code, file, lines, bytes } = await told(env, 'accounts', 'export', account.email, '--out', out);
  t.strictSame([code, file, existsSync(`${out}.part`)], [0, out, false]);
  t.match(statSync(out), { size: bytes });
  t.equal(statSync(out).mode & 0o777, 0o600, 'for its owner only');
  const read = readFileSync(out, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.equal(read.length, lines);
  t.match(
    read.find(({ type }) => type === 'content'),
    { email_id: id, text: 'its text' },
  );
  t.match(read.at(-1), { type: 'end', complete: true, counts: { email: 1, attachment: 1, webhook_delivery: 1 } });
  const short = `${out}-short`;
  const without = ['--without-webhook-deliveries', '--without-attachments'];
  t.match(await told(env, 'accounts', 'export', account.id, '--out', short, ...without), { code: 0 });
  const kept = readFileSync(short, 'utf8');
  t.match(kept, '"counts":{"account":1,');
  t.notMatch(kept, 'webhook_delivery');
  t.notMatch(kept, 'aGk=');
  const again = await sendwright(env, 'accounts', 'export', account.id, '--out', out);
  t.match(again, { code: 2, said: /already exists/ }, 'an existing file stays');
  const nowhere = await sendwright(env, 'accounts', 'export', account.id, '--out', '/nowhere/x');
  t.match(nowhere, { code: 2, said: /cannot write/ });
  t.match(await sendwright(env, 'accounts', 'export', account.id, '--out', ''), {
    code: 2,
    said: /--out must be a file/,
  });
  const relative = { ...env, SENDWRIGHT_CALLED_IN: dirname(out) };
  const typed = await told(relative, 'accounts', 'export', account.id, '--out', 'here.ndjson');
  t.equal(typed.file, join(dirname(out), 'here.ndjson'), 'in the folder where the command was typed');
  t.match(await sendwright(relative, 'accounts', 'export', account.id, '--out', 'here.ndjson'), { code: 2 });
  t.match(await sendwright(relative, 'send', '--file', 'here.ndjson'), { code: 2, said: /--file is not JSON/ });
  const nobody = newId();
  t.match(await sendwright(env, 'accounts', 'export', nobody), {
    code: 1,
    said: `sendwright: "${nobody}": not found`,
  });
});

t.test('an export without a file goes to standard output, until its reader has had enough', async (t) => {
  const { env, account } = await machine();
  /** What is written there, where each write ends with this error. */
  const exported = async (error: Error | null = null) => {
    const before = Object.getOwnPropertyDescriptor(process, 'stdout') ?? {};
    let written = '';
    const value = new Writable({
      write: (chunk, _encoding, done) => {
        written += chunk;
        done(error);
      },
    });
    Object.defineProperty(process, 'stdout', { configurable: true, value });
    try {
      const { code, printed, said } = await sendwright(env, 'accounts', 'export', account.id);
      return { code, printed, said, isEnded: value.writableEnded, written };
    } finally {
      Object.defineProperty(process, 'stdout', before);
    }
  };
  const all = await exported();
  t.match(all, { code: 0, printed: '', said: '', isEnded: false, written: /^\{"type":"account",/ });
  t.match(all.written, /\n\{"type":"end","complete":true,.*\n$/);
  const had = await exported(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
  t.match(had, { code: 0, said: '' });
  await t.rejects(exported(new Error('a defect')), { message: 'a defect' });
});

t.test('an export is for its owner only, whatever was in its place before', async (t) => {
  const { env, account } = await machine();
  const folder = await makeFolder(t);
  const out = join(folder, 'account.ndjson');
  await writeFile(`${out}.part`, 'of an export that was killed', { mode: 0o644 });
  const elsewhere = join(folder, 'of somebody else');
  await writeFile(elsewhere, 'theirs');
  t.match(await told(env, 'accounts', 'export', account.id, '--out', out), { code: 0 });
  t.equal(statSync(out).mode & 0o777, 0o600);
  const linked = join(folder, 'linked');
  await symlink(elsewhere, `${linked}.part`);
  t.match(await told(env, 'accounts', 'export', account.id, '--out', linked), { code: 0 });
  t.equal(readFileSync(elsewhere, 'utf8'), 'theirs');
  t.ok(lstatSync(linked).isFile());
});

t.test('a recipient is erased, and the command says what was erased', async (t) => {
  const { node, env, account, send } = await machine();
  const id = await send('Ann <ann@b.test>');
  const kept = await send('bob@b.test');
  await node.db.prisma.suppression.create({
    data: { id: newId(), accountId: account.id, address: 'ann@b.test', reason: 'manual', emailId: id },
  });
  await node.db.query({ text: 'UPDATE recipients SET claimed_by = $2 WHERE email_id = $1', values: [id, newId()] });
  const { progress, ended } = begin(env, 'accounts', 'erase-recipient', account.email, 'ANN@b.test');
  await eventually(async () => progress.length > 0);
  // By then it has found one that is being sent.
  await sleep(300);
  await node.db.query({ text: 'UPDATE recipients SET claimed_by = NULL WHERE email_id = $1', values: [id] });
  const erased = await ended;
  t.match(erased, {
    code: 0,
    printed: /^Everything has been erased\. The receipt is .*\n {2}emails: 1\n {2}contents: 1\n/,
  });
  const { to, status } = await node.db.prisma.email.findUniqueOrThrow({ where: { id } });
  t.strictSame([to, status], [['erased-1'], 'canceled']);
  t.equal((await node.db.prisma.email.findUniqueOrThrow({ where: { id: kept } })).status, 'queued');
  t.match(await node.db.prisma.suppression.findMany({ where: { accountId: account.id } }), [{ emailId: null }]);
  const again = await told(env, 'accounts', 'erase-recipient', account.id, 'ann@b.test', '--remove-suppression');
  t.match(again, {
    code: 0,
    erasure: { status: 'done', suppression: 'remove', counts: { emails: 0, suppressions: 1 } },
  });
  t.match(await sendwright(env, 'accounts', 'erase-recipient', account.id, 'ann'), {
    code: 2,
    said: /address: not an/,
  });
  const wrongKey = { ...env, ENCRYPTION_KEY: testKey(9).toString('hex') };
  t.match(await sendwright(wrongKey, 'accounts', 'erase-recipient', account.id, 'ann@b.test'), {
    code: 1,
    said: /^sendwright: ENCRYPTION_KEY is not the key of this database/,
  });
});

t.test('an erasure that a node has to finish, and an export that fails, are not said to be complete', async (t) => {
  const url = await createDatabase();
  const db = connect(url, silentLog);
  t.teardown(() => db.close());
  const env = testEnv(url, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const { account, from } = await buildSender(db, encryptionKey);
  const mine = ['--account', account.id, '--from', from, '--subject', 's', '--text', 't'];
  t.match(await told(env, 'send', ...mine, '--to', 'ann@b.test'), { code: 0 });
  await db.query({ text: 'UPDATE recipients SET claimed_by = $1', values: [newId()] });
  const { progress, ended } = begin(env, 'accounts', 'erase-recipient', account.id, 'ann@b.test');
  await eventually(async () => progress.length > 0);
  const realNow = Date.now;
  // A minute passes.
  Date.now = () => realNow() + 60_000;
  const left = await ended.finally(() => {
    Date.now = realNow;
  });
  t.match(left, {
    code: 1,
    printed: /^Some of it is being sent or about to be: a node will finish the erasure\. The receipt is /,
  });
  const out = join(await makeFolder(t), 'account.ndjson');
  await db.query({ text: 'ALTER TABLE webhook_deliveries RENAME TO gone' });
  t.match(await sendwright(env, 'accounts', 'export', account.id, '--out', out), { code: 1, printed: '' });
  t.strictSame([existsSync(out), existsSync(`${out}.part`)], [false, false]);
});
