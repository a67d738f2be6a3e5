import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { buildAccount } from '../support/build.ts';
import { testEnv } from '../support/node.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';
import { makeFolder } from '../support/start.ts';
import { sendwright, told } from './terminal.ts';

/** An account, and a folder in which an operator types commands. */
async function scene(t: Test) {
  const node = await sharedNode('api,mta');
  const account = await buildAccount(node.db);
  const folder = await makeFolder(t);
  const env = testEnv(node.databaseUrl, {
    ENCRYPTION_KEY: encryptionKey.toString('hex'),
    SENDWRIGHT_CALLED_IN: folder,
  });
  return { node, account, folder, env };
}

t.test('a list of suppressions can be imported from a file', async (t) => {
  const { node, account, folder, env } = await scene(t);
  const list = async (id = account.id) => {
    const rows = await node.db.prisma.suppression.findMany({ where: { accountId: id }, orderBy: { address: 'asc' } });
    return rows.map(({ address, reason }) => `${address} ${reason}`);
  };
  const load = async (text: string | Buffer, ...more: string[]) => {
    await writeFile(join(folder, 'list.csv'), text);
    return sendwright(env, 'suppressions', 'import', 'list.csv', '--account', account.id, ...more);
  };

  t.match(await load('address,reason\r\nGone@one.test,bounce\r\n\r\n"a""b"@two.test,unsubscribe\n'), {
    code: 1,
    said: /^sendwright: line 4, ".*@two\.test": address: quotes in the part before the @ are not supported$/,
  });
  t.strictSame(await list(), [], 'nothing is imported if a line is wrong');
  t.match(
    await load('address,reason\r\nGone@one.test,bounce\r\n\r\n"Ann <a@two.test>",Unsubscribe\nnobody\nb@two.test'),
    {
      code: 0,
      printed: '3 addresses are on the list. 1 record with no address, or with several, was skipped.',
    },
  );
  t.strictSame(await list(), ['a@two.test unsubscribe', 'b@two.test manual', 'gone@one.test bounce']);

  const login = { body: { email: account.email, password: account.password } };
  const { token } = (await node.call('POST', '/api/v1/auth/login', login)).body;
  const { body } = await node.call('GET', '/api/v1/suppressions/export', { token });
  const other = await buildAccount(node.db);
  await writeFile(join(folder, 'exported.csv'), `\ufeff${body}`);
  const args = ['suppressions', 'import', 'exported.csv', '--account', other.id];
  t.match(await told(env, ...args), { code: 0, count: 3, left_out: 0 });
  t.strictSame(await list(other.id), await list(), 'an export can be imported');

  const many = Array.from({ length: 12_000 }, (_, at) => `n${at}@three.test`);
  t.match(await load(`${many.join('\n')}\n${many[0]}`), { code: 0, printed: '12000 addresses are on the list.' });
  t.equal((await list()).filter((one) => one.includes('@three.test')).length, many.length, 'and they are');
  t.match(await load('a@b.test,"five\nc@d.test'), { code: 2, said: /line 1: a quote is opened there, and not closed/ });
  t.match(await load('address\n'), { code: 2, said: /there is no address in list\.csv/ });
  t.match(await load(Buffer.from([0xff])), { code: 2, said: /list\.csv is not UTF-8 text: save it as UTF-8/ });
  const wrong = Array.from({ length: 23 }, (_, at) => `a b${at}@three.test`);
  const { code, said } = await load(['good@one.test', ...wrong].join('\n'));
  t.match([code, said.match(/line \d+, "a b\d+@three\.test": .+/g)?.length], [1, 20], 'wrong lines are named');
  t.match(said, /\nand 3 lines more/);
  const few = await load(wrong.slice(0, 20).join('\n'));
  t.match(few, { code: 1, said: /\nline 20, "a b19@three\.test": [^\n]+$/ }, 'all of them');
  t.match(await load('x@y.test,nonsense reason'), { code: 0 });
});

t.test('of a list of contacts, only those who have unsubscribed are imported', async (t) => {
  const { node, account, folder, env } = await scene(t);
  const load = async (text: string) => {
    await writeFile(join(folder, 'contacts.csv'), text);
    return sendwright(env, 'suppressions', 'import', 'contacts.csv', '--account', account.id);
  };
  const head = 'id,email,unsubscribed,first_name\n';
  t.match(
    await load(`${head}1,ann@bar.test,true,Ann\n2,bob@bar.test,false,Bob\n3,cid@bar.test,,C\n4,dora@bar.test,TRUE,D`),
    {
      code: 0,
      printed: '2 addresses are on the list. 2 contacts who have not unsubscribed were not added.',
    },
  );
  t.match(await load(`${head}2,bob@bar.test,false,Bob`), { code: 2, said: /nobody in contacts\.csv has unsubscribed/ });
  t.match(await load('email;unsubscribed_at;reason\neve@bar.test;;bounce\nfay@bar.test;2026-01-02;\n'), {
    code: 0,
    printed: '2 addresses are on the list.',
  });
  const rows = await node.db.prisma.suppression.findMany({
    where: { accountId: account.id },
    orderBy: { address: 'asc' },
  });
  t.strictSame(
    rows.map(({ address, reason }) => `${address} ${reason}`),
    ['ann@bar.test unsubscribe', 'dora@bar.test unsubscribe', 'eve@bar.test bounce', 'fay@bar.test unsubscribe'],
  );
  // How a contact came onto the list is not a reason, and one of two unsubscribe fields is enough.
  t.match(
    await load(
      'email,source,opt_out,unsubscribed_at\ngus@bar.test,manual,,\nhal@bar.test,manual,,2026-01-02\nida@bar.test,Smith, Jane,,\nkim@bar.test,,yes,',
    ),
    {
      code: 0,
      printed:
        '2 addresses are on the list. 1 contact who has not unsubscribed was not added. 1 record with no address, or with several, was skipped.',
    },
  );
  const later = await node.db.prisma.suppression.findMany({
    where: { accountId: account.id, address: { in: ['gus', 'hal', 'ida', 'kim'].map((name) => `${name}@bar.test`) } },
    orderBy: { address: 'asc' },
  });
  t.strictSame(
    later.map(({ address, reason }) => `${address} ${reason}`),
    ['hal@bar.test unsubscribe', 'kim@bar.test unsubscribe'],
  );
});
