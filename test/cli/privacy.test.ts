import { existsSync, lstatSync, readFileSync, statSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import t from 'tap';
import { newId } from '../../src/ids.ts';
import { buildSender } from '../support/build.ts';
import { testEnv } from '../support/node.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';
import { makeFolder } from '../support/start.ts';
import { sendwright, told } from './terminal.ts';

async function machine() {
  const node = await sharedNode('api');
  const env = testEnv(node.databaseUrl, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const sender = await buildSender(node.db, encryptionKey);
  const send = async (to: string) =>
    (
      await node.call('POST', '/api/v1/emails', {
        key: sender.key,
        body: { from: sender.from, to, subject: 's', text: 'its text' },
      })
    ).body.email.id as string;
  return { node, env, account: sender.account, send };
}

t.test('an account is exported to a file, which appears once it is complete', async (t) => {
  const { env, account, send } = await machine();
  const id = await send('a@b.test');
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
  t.match(read.at(-1), { type: 'end', complete: true, counts: { email: 1 } });
  const short = `${out}-short`;
  const without = ['--without-webhook-deliveries', '--without-attachments'];
  t.match(await told(env, 'accounts', 'export', account.id, '--out', short, ...without), { code: 0 });
  t.match(readFileSync(short, 'utf8'), '"counts":{"account":1,');
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
  const erased = await sendwright(env, 'accounts', 'erase-recipient', account.email, 'ANN@b.test');
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
});
