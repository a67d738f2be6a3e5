import t from 'tap';
import * as accounts from '../../src/core/accounts/accounts.ts';
import * as members from '../../src/core/accounts/members.ts';

import { buildSender } from '../support/build.ts';
import { createDatabase } from '../support/db.ts';
import { adminPassword, eventually, startTestNode, testEnv } from '../support/node.ts';
import { encryptionKey } from '../support/shared-node.ts';
import { reading, sendwright, told, toldWith } from './terminal.ts';

t.test('users: added, given a new password, listed and removed', async (t) => {
  const databaseUrl = await createDatabase();
  const node = await startTestNode(t, { DATABASE_URL: databaseUrl, ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const env = testEnv(databaseUrl, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const { account } = await buildSender(node.db, encryptionKey);
  const logIn = (email: string, password: string) =>
    node.call('POST', '/api/v1/auth/login', { body: { email, password } });
  const domains = async (token: string) => (await node.call('GET', '/api/v1/domains', { token })).status;

  const added = await told(env, 'users', 'add', account.email, '--email', 'Ann@Bücher.test');
  t.match(added, { code: 0, user: { email: 'ann@xn--bcher-kva.test', role: 'member', account_id: account.id } });
  const { body } = await logIn('ann@bücher.test', added.user.password);
  t.match(body, { account: { id: account.id }, user: { role: 'member' } }, 'the same account');
  t.equal(await domains(body.token), 200);
  t.match(await sendwright(env, 'users', 'add', account.id, '--email', 'ann@bücher.test'), {
    code: 1,
    said: 'sendwright: email: belongs to a user already',
  });
  t.match(await sendwright(env, 'users', 'add', 'nobody@a.test', '--email', 'b@a.test'), {
    code: 1,
    said: /account: /,
  });
  t.match(await sendwright(env, 'users', 'add', account.id, '--email', 'b'), { code: 2, said: /email: / });
  t.match(await sendwright(env, 'users', 'add', account.id), { code: 2, said: /: --email is missing\n/ });

  for (let n = 0; n < 10; n += 1) await logIn('ann@bücher.test', 'wrong');
  t.equal((await logIn('ann@bücher.test', added.user.password)).status, 429);
  const other = await told(env, 'users', 'password', 'ann@Bücher.test');
  t.not(other.user.password, added.user.password);
  t.equal(await domains(body.token), 401, 'earlier logins have ended');
  t.equal((await logIn('ann@bücher.test', added.user.password)).status, 401);
  const { token } = (await logIn('ann@bücher.test', other.user.password)).body;
  t.equal(await domains(token), 200, 'even after too many tries');
  t.match(await sendwright(env, 'users', 'password', 'x@a.test'), {
    code: 1,
    said: 'sendwright: user: nobody logs in with "x@a.test"',
  });

  const found = await told(env, 'users', 'list', '--account', account.id);
  t.match(found, { count: 2, users: [{ email: account.email }, { email: 'ann@xn--bcher-kva.test' }] });
  t.notMatch(JSON.stringify(found), /password|hash/);
  t.match(
    (await sendwright(env, 'users', 'list', '--limit', '1')).printed,
    /^EMAIL +ROLE[\s\S]*admin@example\.test +admin/,
  );
  t.match(await sendwright(env, 'users', 'list', '--limit', '1'), {
    said: '2 more users are not shown: see --limit, --offset and --account.',
  });
  t.match(await sendwright(env, 'users', 'list', '--limit', '0'), { printed: 'No users on this page; 3 in total.' });

  const typing = ['users', 'password', 'ann@bücher.test', '--password-stdin'];
  const typed = await toldWith('typed by herself\n', env, ...typing);
  t.match([typed.code, typed.user.password], [0, undefined], 'it is not shown');
  const text = await reading('typed by herself\n', () => sendwright(env, ...typing));
  t.equal(text.printed, 'ann@xn--bcher-kva.test can log in.', 'nor in a text');
  t.equal((await logIn('ann@bücher.test', 'typed by herself')).status, 200);
  await t.rejects(toldWith('short\n', env, ...typing), /ended with 2: .* password: /);
  const binary = await reading(Buffer.of(0xff), () => sendwright(env, ...typing));
  t.match(binary, { code: 2, said: /: standard input is not UTF-8 text: / });
  t.match(await told(env, 'users', 'remove', 'ann@bücher.test'), { code: 0, user: { id: added.user.id } });
  t.equal(await domains(token), 401);
  t.equal((await logIn('ann@bücher.test', other.user.password)).status, 401);

  const onlyAdmin = /this is the only admin: add another one first/;
  t.match(await sendwright(env, 'users', 'remove', 'admin@example.test'), { code: 1, said: onlyAdmin });
  t.match(await told(env, 'users', 'add', account.id, '--email', 'ops@a.test', '--admin'), { code: 0 });
  const shown = (await sendwright(env, 'users', 'password', 'ops@a.test')).printed;
  const [, password = ''] = shown.match(/^ops@a\.test can log in with (\S+) \(shown only once\)\.$/) ?? [];
  t.match((await logIn('ops@a.test', password)).body, { user: { role: 'admin' } });
  t.match(await told(env, 'users', 'remove', 'admin@example.test'), { code: 0 });
  t.equal((await logIn('admin@example.test', adminPassword)).status, 401);
  t.match(await sendwright(env, 'users', 'remove', 'ops@a.test'), { code: 1, said: onlyAdmin });
});

t.test('users: a first admin with a non-ASCII email is one user in all spellings', async (t) => {
  const databaseUrl = await createDatabase();
  const more = { ENCRYPTION_KEY: encryptionKey.toString('hex'), ADMIN_EMAIL: 'admin@bücher.test' };
  const node = await startTestNode(t, { DATABASE_URL: databaseUrl, ...more });
  const env = testEnv(databaseUrl, more);
  const { account } = await buildSender(node.db, encryptionKey);
  for (const email of ['admin@bücher.test', 'admin@xn--bcher-kva.test'])
    t.match(await sendwright(env, 'users', 'add', account.id, '--email', email), {
      code: 1,
      said: 'sendwright: email: belongs to a user already',
    });
  const { user } = await told(env, 'users', 'password', 'admin@xn--bcher-kva.test');
  t.equal(user.email, 'admin@bücher.test');
  const body = { email: 'admin@bücher.test', password: user.password };
  t.match(await node.call('POST', '/api/v1/auth/login', { body }), { status: 200, body: { user: { role: 'admin' } } });
});

t.test(
  'users: an email that belongs to a user is not given to the first admin, and one admin always remains',
  async (t) => {
    const databaseUrl = await createDatabase();
    const node = await startTestNode(t, { DATABASE_URL: databaseUrl, ENCRYPTION_KEY: encryptionKey.toString('hex') });
    const { db } = node;
    const first = await db.prisma.user.findFirstOrThrow({ where: { role: 'admin' } });
    const { account } = await buildSender(db, encryptionKey);
    const member = { email: 'ann@a.test', password: 'a long password', role: 'member' } as const;
    await members.add(db, account.id, member);
    await db.prisma.user.update({ where: { id: first.id }, data: { passwordHash: '' } });
    t.match(await accounts.ensureAdmin(db, 'ann@a.test'), { email: first.email, hasPassword: false });
    t.match(await accounts.ensureAdmin(db, 'new@a.test'), { email: 'new@a.test' });
    t.match(await accounts.find(db, 'ANN@A.test'), { id: account.id });

    // If two calls remove the same user, one of them has done it.
    const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    const second = await db.transaction(async (tx) => {
      await tx.query({ text: `DELETE FROM users WHERE email = 'ann@a.test'` });
      const removal = Promise.allSettled([members.remove(db, 'ann@a.test')]);
      await eventually(async () => (await db.query({ text: waits })).length > 0);
      return { removal };
    });
    t.match(await second.removal, [{ status: 'rejected', reason: { status: 404 } }]);

    await members.setPassword(db, 'new@a.test', 'a long password');
    for (let round = 0; round < 10; round += 1) {
      const email = `ops${round}@a.test`;
      await members.add(db, account.id, { email, password: 'a long password', role: 'admin' });
      await Promise.allSettled([
        members.remove(db, email),
        accounts.change(db, first.accountId, { suspended: true }),
        members.remove(db, 'new@a.test'),
      ]);
      const left = await db.prisma.user.count({ where: { role: 'admin', account: { suspendedAt: null } } });
      t.ok(left > 0, `${left} can log in`);
      await accounts.change(db, first.accountId, { suspended: false });
      await members.remove(db, email).catch(() => undefined);
      await members
        .add(db, first.accountId, { email: 'new@a.test', password: 'a long password', role: 'admin' })
        .catch(() => undefined);
      await members.remove(db, email).catch(() => undefined);
    }
  },
);
