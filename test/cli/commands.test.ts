import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { readFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { commands } from '../../src/cli/commands.ts';
import { table } from '../../src/cli/table.ts';
import { report } from '../../src/core/destinations/destinations.ts';
import { dnsRecords } from '../../src/core/domains/domains.ts';
import * as hold from '../../src/core/operations/hold.ts';
import { connect } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { buildNode, buildSender } from '../support/build.ts';
import { createDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { eventually, testEnv } from '../support/node.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';
import { makeFolder } from '../support/start.ts';
import { begin, sendwright, told, toldWith } from './terminal.ts';

/** A running node, and the environment of whoever administers its machine. */
async function machine() {
  const node = await sharedNode('api,mta');
  const env = testEnv(node.databaseUrl, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
  return { node, env, sender: await buildSender(node.db, encryptionKey) };
}

t.test('every command shows its usage, and none runs if it is called wrongly', async (t) => {
  for (const [name, { load }] of Object.entries(commands)) {
    const { operands = [] } = await load();
    const help = await sendwright({}, ...name.split(' '), '--help');
    t.equal(help.code, 0, name);
    t.match(help.printed, new RegExp(`^Usage: sendwright ${name}( |$)`, 'm'));
    // With no environment at all each of these would start a service or complain about DATA_DIR.
    const wrong = [['--nonsense'], [...operands.map(() => 'x'), 'too much']];
    for (const args of operands.length > 0 ? [...wrong, []] : wrong) {
      const refused = await sendwright({ DATA_DIR: '/nowhere' }, ...name.split(' '), ...args);
      t.strictSame([refused.code, refused.printed], [2, ''], `${name} ${args.join(' ')}`);
      t.match(refused.said, `See sendwright ${name} --help.`);
    }
  }
  t.match(await sendwright({}), { code: 2, said: /^Usage: / });
  t.match(await sendwright({}, '--help'), { code: 0, printed: /^Usage: / });
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  t.match(await sendwright({}, '--version'), { code: 0, printed: version, said: '' });
  t.match(await sendwright({}, 'queue', '--help'), { code: 0, printed: /queue flush/ });
  t.match(await sendwright({}, 'help'), { code: 0, printed: /^Usage: / });
  t.match(await sendwright({}, 'help', 'queue', 'list'), { code: 0, printed: /^Usage: sendwright queue list/ });
  const { code, said } = await sendwright({}, 'suppressions', 'list');
  t.match(code, 2);
  t.match(said, /unknown command "suppressions list"[\s\S]*suppressions import/);
  t.notMatch(said, /queue flush/, 'only those of the group');
  const half = await sendwright({}, 'queue');
  t.match(half, { code: 2, said: /^sendwright: queue needs a second word\n[\s\S]*queue flush/ });
  t.match(await sendwright({}, 'constructor'), { code: 2, said: /unknown command "constructor"/ });
  t.match(await sendwright({ DATA_DIR: '/nowhere' }, 'accounts', 'list'), { code: 1, said: /^sendwright: DATA_DIR/ });
});

t.test('the columns of a table are as wide as their widest cell', async (t) => {
  const rows = [
    ['bbb', null, 'x'],
    ['c', 7, ''],
  ];
  t.equal(table(['A', 'LONG', 'Z'], rows, 'None.'), 'A    LONG  Z\nbbb  -     x\nc    7');
  t.equal(table(['A'], [], 'None.'), 'None.');
});

t.test('invalid options get one line, in our own words', async (t) => {
  const list = ['queue', 'list'];
  for (const [args, said] of [
    [[...list, '--limit', '-1'], 'limit: must be a whole number, 0 or more'],
    [[...list, '--limit=-1'], 'limit: must be a whole number, 0 or more'],
    [[...list, '--limit'], '--limit needs a value (write one that begins with -- as --limit=…)'],
    [
      ['keys', 'create', '--name', '--scope', 'send'],
      '--name needs a value (write one that begins with -- as --name=…)',
    ],
    [[...list, '--limt=3'], 'unknown option --limt'],
    [[...list, '-x'], 'unknown option -x'],
    [[...list, '--__proto__'], 'unknown option --__proto__'],
    [[...list, '--json=yes'], '--json takes no value'],
  ] as const) {
    const name = args.slice(0, 2).join(' ');
    const refused = await sendwright({ DATA_DIR: '/nowhere' }, ...args);
    t.strictSame(refused.said, `sendwright ${name}: ${said}\nSee sendwright ${name} --help.`);
    t.strictSame([refused.code, refused.printed], [2, ''], args.join(' '));
  }
  const send = ['send', '--from', 'a@b.test', '--to', 'a@b.test', '--subject', '-5 °C', '--text', '- one'];
  t.match(
    await sendwright({ DATA_DIR: '/nowhere' }, ...send),
    { code: 1, said: /DATA_DIR/ },
    'a value may begin with a dash',
  );
});

t.test('output that cannot be written is an error', async (t) => {
  if (!existsSync('/dev/full')) return void t.pass('this system has no file that is always full');
  const full = openSync('/dev/full', 'w');
  const cli = fileURLToPath(new URL('../../src/cli.ts', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, ['--disable-warning=ExperimentalWarning', cli, '--help'], {
    stdio: ['ignore', full, 'pipe'],
    encoding: 'utf8',
  });
  closeSync(full);
  t.equal(status, 1);
  t.match(stderr, /^sendwright: cannot write to standard output \(ENOSPC: [^\n]*\)\n$/);
});

t.test('the documentation has exactly the commands that exist', async (t) => {
  const page = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
  const rows = [...page.matchAll(/^\| `sendwright ([a-z]+(?: [a-z-]+)?)/gm)].map(([, name]) => name);
  t.strictSame(rows.sort(), Object.keys(commands).sort());
});

t.test('accounts: created, found by address, suspended, resumed, put on another plan', async (t) => {
  const { node, env } = await machine();
  const email = `ann-${Date.now()}@shop.test`;
  const made = await told(env, 'accounts', 'create', '--name', 'Shop', '--email', email.toUpperCase());
  t.match(made, { code: 0, account: { name: 'Shop', plan: 'free', suspended_at: null }, user: { email } });
  const logIn = async () =>
    (await node.call('POST', '/api/v1/auth/login', { body: { email, password: made.user.password } })).status;
  t.equal(await logIn(), 200);
  t.match(await sendwright(env, 'accounts', 'suspend', email), {
    code: 0,
    printed: new RegExp(`^The account is suspended\\.\n.*\n${made.account.id} .* suspended$`),
  });
  t.equal(await logIn(), 403);
  t.match(await told(env, 'accounts', 'resume', made.account.id), { code: 0, account: { suspended_at: null } });
  t.match(await told(env, 'accounts', 'plan', email, 'pro'), { account: { plan: 'pro' } });
  const { accounts } = await told(env, 'accounts', 'list', '--limit', '1');
  t.match(await sendwright(env, 'accounts', 'list', '--limit', '1'), {
    said: /^\d+ more accounts? (is|are) not shown: see --limit, --offset and --q\.$/,
  });
  t.match(accounts, [{ id: made.account.id, plan: 'pro' }]);
  t.match(await sendwright(env, 'accounts', 'list'), {
    code: 0,
    printed: new RegExp(`${made.account.id} +Shop +pro +0 +0 +0\\.00 +active\n`),
  });
  const byUsage = (await told(env, 'accounts', 'list', '--sort', 'usage')).accounts;
  const sent = byUsage.map(({ accepted }: { accepted: { month: number } }) => accepted.month);
  t.strictSame(
    sent,
    sent.toSorted((one: number, other: number) => other - one),
  );
  const failing = () => sendwright(env, 'accounts', 'list', '--webhooks', 'failing', '--q', email);
  t.match(await failing(), { code: 0, printed: /No such account has a webhook that fails/ });
  const row = { accountId: made.account.id, url: 'https://a.test/', events: [], secret: Buffer.of(0) };
  await node.db.prisma.webhook.create({ data: { id: newId(), ...row, failingSince: new Date() } });
  t.match(await failing(), { code: 0, printed: new RegExp(`^${made.account.id} +Shop +pro`, 'm') });
  t.match(await sendwright(env, 'accounts', 'list', '--sort', 'size'), { code: 2, said: /sort: must be one of/ });
  const again = await sendwright(env, 'accounts', 'create', '--name', 'Shop', '--email', email);
  t.match(again, { code: 1, said: 'sendwright: email: belongs to a user already' });
  t.match(await sendwright(env, 'accounts', 'plan', email, 'gold'), { code: 2, said: /plan: must be one of/ });
  t.match(await sendwright(env, 'accounts', 'suspend', 'nobody@x.test'), { code: 1, said: /there is none called/ });
  t.match(await told(env, 'accounts', 'plan', email, 'unlimited'), { account: { usage: { day: null, month: null } } });
  t.match(await sendwright(env, 'accounts', 'resume', email), { printed: /unlimited +not counted +not counted +/ });
  const listed = await sendwright(env, 'accounts', 'list');
  t.match(listed.printed, new RegExp(`${made.account.id} +Shop +unlimited +0 +0 `));
  for (const page of [
    ['--limit', '0'],
    ['--offset', '1000'],
  ])
    t.match(await sendwright(env, 'accounts', 'list', ...page), {
      printed: /^No accounts on this page; \d+ in total\.$/,
    });
  const bob = `bob-${Date.now()}@bakery.test`;
  const bakery = ['--name', 'Bakery', '--email', bob, '--plan', 'pro', '--password-stdin'];
  const other = await toldWith('a password of his own\r\n', env, 'accounts', 'create', ...bakery);
  t.strictSame([other.code, other.account.plan, other.user], [0, 'pro', { email: bob }], 'the password is not shown');
  const ofBob = { email: bob, password: 'a password of his own' };
  t.match((await node.call('POST', '/api/v1/auth/login', { body: ofBob })).body, { account: { id: other.account.id } });
  for (const text of ['SHOP', email]) {
    const { count, accounts } = await told(env, 'accounts', 'list', '--q', text);
    t.match({ count, accounts }, { count: 1, accounts: [{ id: made.account.id }] }, text);
  }
  t.match(await told(env, 'accounts', 'list', '--q', 'bakery'), { count: 1, accounts: [{ id: other.account.id }] });
  t.match(await sendwright(env, 'accounts', 'list', '--q', 'nobody'), { printed: /^No account has this text in/ });
});

t.test('accounts: that of the only admin cannot be suspended', async (t) => {
  const { node, env } = await machine();
  const suspend = () => sendwright(env, 'accounts', 'suspend', 'admin@example.test');
  t.match(await suspend(), { code: 1, said: /^sendwright: this is the account of the only admin: / });
  const { id } = await node.db.prisma.account.findUniqueOrThrow({
    where: { id: node.admin.accountId, suspendedAt: null },
  });
  const other = await told(env, 'accounts', 'create', '--name', 'Ops', '--email', `ops-${Date.now()}@shop.test`);
  await node.db.prisma.user.updateMany({ where: { accountId: other.account.id }, data: { role: 'admin' } });
  t.match(await suspend(), { code: 0 }, 'if there is another admin, who can resume it');
  t.match(await sendwright(env, 'accounts', 'suspend', other.account.id), { code: 1, said: /the only admin/ });
  t.match(await told(env, 'accounts', 'resume', id), { account: { suspended_at: null } });
  await node.db.prisma.user.updateMany({ where: { accountId: other.account.id }, data: { role: 'member' } });
});

t.test('keys: a new one works at once, a revoked one does not', async (t) => {
  const { node, env, sender } = await machine();
  const mine = ['--account', sender.account.email];
  const made = await sendwright(env, 'keys', 'create', '--name', 'ci', '--scope', 'read', ...mine);
  t.match(made, { code: 0, printed: /^sk_live_\w{43}$/, said: /shown only once/ });
  const call = async () => (await node.call('GET', '/api/v1/emails', { key: made.printed })).status;
  t.equal(await call(), 200);
  const { api_keys: keys } = await told(env, 'keys', 'list', ...mine);
  t.match(keys[0], { name: 'ci', scopes: ['read'], account_id: sender.account.id });
  t.notMatch(JSON.stringify(keys), made.printed);
  t.match(await told(env, 'keys', 'revoke', keys[0].id), { api_key: { revoked_at: String } });
  t.equal(await call(), 401);
  // Whoever finds a key in a repository knows neither its id nor its account.
  const leaked = (await sendwright(env, 'keys', 'create', '--name', 'leaked', ...mine)).printed;
  const revoking = await sendwright(env, 'keys', 'revoke', leaked);
  t.match(revoking, {
    code: 0,
    printed: / leaked .* revoked$/m,
    said: /^Mail that it sent and that waits still goes out/,
  });
  t.equal((await node.call('GET', '/api/v1/emails', { key: leaked })).status, 401);
  t.match(await sendwright(env, 'keys', 'revoke', 'x'), { code: 1, said: 'sendwright: "x": not found' });
  t.match(await sendwright(env, 'keys', 'create', '--name', 'a', '--scope', 'all'), { code: 2, said: /scopes\[0\]/ });

  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const narrow = ['keys', 'create', '--name', 'narrow', '--domain', sender.domain, '--expires-at', expires_at, ...mine];
  const { api_key: limited } = await told(env, ...narrow);
  t.match(limited, { scopes: ['send'], domains: [sender.domain], expires_at, account_id: sender.account.id });
  const listed = async () => (await sendwright(env, 'keys', 'list', ...mine)).printed;
  t.match(await listed(), new RegExp(`^${limited.id} .* send +${sender.domain} +active until ${expires_at}$`, 'm'));
  t.match(await listed(), new RegExp(`^${keys[0].id} .* ci +sk_live_.* read +any +revoked$`, 'm'));
  await node.db.prisma.apiKey.update({ where: { id: limited.id }, data: { expiresAt: new Date(Date.now() - 1) } });
  t.match(await listed(), new RegExp(`^${limited.id} .* expired$`, 'm'));
  for (const option of ['--domain', '--scope', '--expires-at'])
    t.match(
      await sendwright(env, 'keys', 'create', '--name', 'a', option, '', ...mine),
      { code: 2, printed: '' },
      `an unset variable of a script in ${option} does not widen the key`,
    );
});

t.test('domains: added with the records to publish, as the API does it', async (t) => {
  const { node, env, sender } = await machine();
  const name = `fig-${Date.now()}.test`;
  const account = ['--account', sender.account.id];
  const added = await sendwright(env, 'domains', 'add', name.toUpperCase(), ...account);
  t.match(added, { code: 0, said: `Publish these records, then run sendwright domains check ${name} --verify` });
  const row = await node.db.prisma.domain.findFirstOrThrow({ where: { domain: name } });
  t.match(row, { accountId: sender.account.id, status: 'pending' });
  const records = Object.values(dnsRecords(row, 'mail.sendwright.test', [])).map(({ type, name, value }) => [
    type,
    name,
    value,
  ]);
  const lines = added.printed.split('\n').map((line) => line.split(/ {2,}/));
  t.strictSame(lines, [['TYPE', 'NAME', 'VALUE'], ...records]);
  t.match(await told(env, 'domains', 'add', `news.${name}`, ...account, '--tls', 'required'), {
    code: 0,
    domain: { domain: `news.${name}`, tls: 'required', account_id: sender.account.id },
    dns_records: { spf: { name: `news.${name}`, type: 'TXT' } },
    recommended_records: [{ name: `_dmarc.news.${name}` }, { type: 'MX' }],
  });
  t.match(await sendwright(env, 'domains', 'add', name, ...account), {
    code: 1,
    said: /^sendwright: domain: this account already has /,
  });
  t.match(await sendwright(env, 'domains', 'add', 'https://a.test', ...account), { code: 1, said: /without https/ });
  t.match(await sendwright(env, 'domains', 'add', 'a.test', '--tls', 'on'), { code: 2, said: /tls: must be one of/ });
  t.match(await sendwright({ ...env, ENCRYPTION_KEY: testKey(9).toString('hex') }, 'domains', 'add', 'a.test'), {
    code: 1,
    said: /^sendwright: ENCRYPTION_KEY is not the key of this database/,
  });
});

t.test('domains: listed with their accounts, checked as a node does, verified on request', async (t) => {
  const { node, env, sender } = await machine();
  await node.db.prisma.domain.updateMany({ where: { id: sender.domainId }, data: { status: 'pending' } });
  const { domains } = await told(env, 'domains', 'list');
  t.match(
    domains.find(({ domain }: { domain: string }) => domain === sender.domain),
    { status: 'pending', account_id: sender.account.id },
  );
  const own = await told(env, 'domains', 'list', '--account', sender.account.email);
  t.strictSame(
    own.domains.map(({ id }: { id: string }) => id),
    [sender.domainId],
  );
  t.match(
    await sendwright(env, 'domains', 'check', sender.domain, '--account', 'admin@example.test'),
    { code: 1, said: `sendwright: "${sender.domain}": not found` },
    'of that account only',
  );
  const looked = await sendwright(env, 'domains', 'check', sender.domain);
  t.match(looked, { code: 0, printed: /is pending\nok +verification\nok +dkim\nok +spf$/ });
  t.ok(looked.progress.length > 0);
  t.match(await told(env, 'domains', 'check', sender.domain, '--verify'), {
    code: 0,
    domain: { status: 'verified' },
    checks: { spf: { ok: true } },
  });
  const { dkimSelector: selector } = await node.db.prisma.domain.findUniqueOrThrow({ where: { id: sender.domainId } });
  const second = { accountId: sender.account.id, domainId: sender.domainId, selector, publicKey: 'of another' };
  await node.db.prisma.dkimKey.create({ data: { id: newId(), ...second, algorithm: 'rsa' } });
  t.match(
    await sendwright(env, 'domains', 'check', sender.domain),
    {
      code: 1,
      printed:
        /\nok +verification\nproblem +dkim: there is more than one DKIM key.*\n +at .*\n( +found: v=DKIM1.*\n){2}ok +spf$/,
    },
    'one wrong record is enough, and what is published is shown',
  );
  await node.db.prisma.domain.updateMany({ where: { id: sender.domainId }, data: { domain: 'nxdomain.test' } });
  for (const more of [[], ['--verify']]) {
    const found = await sendwright(env, 'domains', 'check', 'nxdomain.test', ...more);
    t.match(found, { code: 1, printed: /problem +dkim: there is no TXT record/ });
    t.notMatch(found.printed, /found: /);
  }
  const wrongKey = { ...env, ENCRYPTION_KEY: testKey(9).toString('hex') };
  for (const args of [['domains', 'check', 'nxdomain.test'], ['doctor']])
    t.match(await sendwright(wrongKey, ...args), {
      code: 1,
      said: /^sendwright: ENCRYPTION_KEY is not the key of this database/,
    });
  for (const args of [
    ['domains', 'list'],
    ['domains', 'check', sender.domain],
  ])
    t.match(
      await sendwright(env, ...args, '--account', ''),
      { code: 1, printed: '', said: /there is none called/ },
      'an unset variable of a script does not mean all accounts',
    );
  t.match(await sendwright(env, 'domains', 'check', 'unknown.test'), {
    code: 1,
    said: 'sendwright: "unknown.test": not found',
  });
});

t.test('send: a running node delivers it, by the same rules as the API', async (t) => {
  const { node, env, sender } = await machine();
  const from = ['--from', sender.from, '--account', sender.account.id];
  const hello = [...from, '--to', 'a@anywhere.test', '--subject', 's', '--text', 't'];
  const sent = await told(env, 'send', ...hello, '--tag', 'one, two', '--wait');
  t.match(sent, { code: 0, email: { status: 'sent', tags: ['one', 'two'] } });
  const seen = await node.call('GET', `/api/v1/emails/${sent.email.id}`, { key: sender.key });
  t.match(seen.body.email.recipients, [{ status: 'delivered', attempts: 1 }]);
  const scheduled_at = new Date(Date.now() + 3_600_000).toISOString();
  const to = ['--to', 'a@b.test', '--to', 'c@b.test', '--cc', 'd@b.test', '--bcc', 'e@b.test'];
  const rest = ['--type', 'marketing', '--scheduled-at', scheduled_at, '--wait'];
  const bodies = ['--html', '<p>h</p>', '--text', '-'];
  const { code, email } = await toldWith(
    'from a pipe',
    env,
    'send',
    ...from,
    ...to,
    '--subject',
    's',
    ...bodies,
    ...rest,
  );
  t.match(
    { code, ...email },
    { code: 0, to: 'a@b.test', cc: ['d@b.test'], bcc: ['e@b.test'], type: 'marketing', scheduled_at },
  );
  const { body } = await node.call('GET', `/api/v1/emails/${email.id}`, { key: sender.key });
  t.strictSame(body.email.recipients.map(({ address }: { address: string }) => address).sort(), [
    'a@b.test',
    'c@b.test',
    'd@b.test',
    'e@b.test',
  ]);
  t.match((await node.call('GET', `/api/v1/emails/${email.id}/content`, { key: sender.key })).body, {
    html: '<p>h</p>',
    text: 'from a pipe',
  });
  const dash = [...from, '--to', 'a@b.test', '--subject', '-', '--text', '-'];
  t.match(await toldWith('from a pipe', env, 'send', ...dash), { code: 0, email: { subject: '-' } });
  const once = ['--idempotency-key', `${Date.now()}${'😀'.repeat(200)}`];
  const first = await told(env, 'send', ...hello, ...once);
  t.equal((await told(env, 'send', ...hello, ...once)).email.id, first.email.id);
  t.match(await sendwright(env, 'send', ...hello, '--cc', 'b@c.test', ...once), { code: 1, said: /another/ });
  const file = join(await makeFolder(t), 'email.json');
  const attachments = [{ filename: 'a.txt', content: 'aGk=' }];
  await writeFile(
    file,
    JSON.stringify({ from: sender.from, to: 'bounced@b.test', subject: 's', text: 't', attachments }),
  );
  const half = `${file}.half`;
  await writeFile(half, (await readFile(file, 'utf8')).slice(0, 9));
  const large = `${file}.large`;
  await writeFile(large, '');
  await truncate(large, 40 * 1024 * 1024 + 1);
  const bounced = await told(env, 'send', '--file', file, '--account', sender.account.id, '--wait');
  t.match(bounced, { code: 1, email: { status: 'failed', error: /^550 / } });
  const again = await told(env, 'send', '--file', file, '--account', sender.account.id);
  t.match(again, { code: 1, email: { status: 'suppressed' } });
  t.match(
    await sendwright(env, 'send', ...hello, '--account', 'nobody@b.test'),
    { code: 1, said: /^sendwright: .*there is none called "nobody@b\.test/ },
    'no other account sends instead',
  );
  const other = await sendwright(env, 'send', '--from', 'a@other.test', ...hello.slice(2));
  t.match(other, {
    code: 1,
    said: 'sendwright: from: other.test is not a verified domain of this account: add it first, then verify it',
  });
  for (const [args, said] of [
    [[...from, '--subject', 's', '--text', 't'], /to: must name at least one recipient/],
    [[...from, '--to', 'a@b.test', '--subject', 's'], /: neither --text nor --html has a body\n/],
    [[...from, '--to', 'a@b.test', '--subject', 's', '--text', ''], /: neither --text nor --html has a body\n/],
    [[...hello, '--scheduled-at', 'tomorrow'], /--scheduled-at: must be an RFC 3339 timestamp/],
    [[...from, '--to', 'a@b.test', '--subject', 's', '--text', '-', '--html', '-'], /only one of --text and --html/],
    [[...hello, '--idempotency-key', ''], /--idempotency-key must have 1 to 256 characters/],
    [[...hello, '--idempotency-key', 'k'.repeat(257)], /--idempotency-key must have 1 to 256 characters/],
    [['--file', half], /^sendwright send: --file is not JSON \(/],
    [['--file', '/nowhere.json'], /cannot read \/nowhere\.json/],
    [['--file', large], /cannot read .*\.large \(it is larger than 40 MB\)/],
    // Otherwise the recipients of the file would get what was meant for somebody else.
    [['--file', file, ...hello.slice(4)], /^sendwright send: --subject, --text, --to: cannot be combined with --file/],
    [
      ['--file', file, '--cc', 'a@b.test', '--scheduled-at', ''],
      /: --cc, --scheduled-at: cannot be combined with --file/,
    ],
  ] as const)
    t.match(await sendwright(env, 'send', ...args), { code: 2, said });
  t.match(await sendwright(env, 'send', ...hello), { code: 0, said: '' });
  await node.db.prisma.account.updateMany({ where: { id: sender.account.id }, data: { suspendedAt: new Date() } });
  t.match(await sendwright(env, 'send', ...hello), { code: 1, said: 'sendwright: the account is suspended' });
});

t.test('send: mail to a paused destination is not waited for, and is said to wait for the resume', async (t) => {
  const { env, sender } = await machine();
  const domain = `${newId()}.paused.test`;
  await sendwright(env, 'queue', 'pause', domain);
  const hello = ['--from', sender.from, '--account', sender.account.id, '--subject', 's', '--text', 't', '--wait'];
  const begun = performance.now();
  const sent = await sendwright(env, 'send', ...hello, '--to', `a@${domain}`);
  t.match(sent, {
    code: 1,
    printed: new RegExp(` is queued, after \\d+ s: paused: ${domain}$`),
    said: `The destination is paused: the email was accepted, and waits until sendwright queue resume ${domain}.`,
  });
  t.ok(performance.now() - begun < 40_000);
});

t.test('send: if no node delivers, or all is on hold, it says so and does not wait', async (t) => {
  const url = await createDatabase();
  const db = connect(url, silentLog);
  t.teardown(() => db.close());
  const sender = await buildSender(db, encryptionKey);
  const env = testEnv(url, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const hello = ['--from', sender.from, '--account', sender.account.id, '--to', 'a@b.test', '--subject', 's'];
  const sent = await sendwright(env, 'send', ...hello, '--text', 't');
  t.match(sent, {
    code: 0,
    printed: / is queued$/,
    said: /^No node that delivers mail is running: .* waits for one\.$/,
  });
  t.match(await sendwright(env, 'release', '--waiting', 'fail'), { code: 0, printed: 'The service is not on hold.' });
  t.match(await sendwright(env, 'hold'), {
    code: 0,
    printed: /; 1 recipient was due then and is waiting\. Nodes react within five seconds, /,
  });
  t.match(await sendwright(env, 'send', ...hello, '--text', 'accepted on hold'), { code: 0 });
  t.match(await sendwright(env, 'queue', 'list'), {
    printed:
      /^The service has been on hold since 2.*Z: nothing is sent until sendwright release --waiting send\|fail\.\n/,
  });
  t.match(await sendwright(env, 'release'), { code: 2, said: /--waiting must be send or fail/ });
  const hook = { accountId: sender.account.id, url: 'https://a.test/', events: ['email.failed'], secret: Buffer.of(0) };
  const { id: webhookId } = await db.prisma.webhook.create({ data: { id: newId(), ...hook } });
  const released = await sendwright(env, 'release', '--waiting', 'fail');
  t.match(released, { code: 0, printed: /^Released: 1 recipient failed, 1 recipient is due now\. Nodes start / });
  t.equal(released.progress[0], '1 of 1 recipients failed');
  t.equal(await db.prisma.webhookDelivery.count({ where: { webhookId } }), 1, 'which is reported');
  await hold.begin(db);
  t.match(await sendwright(env, 'send', ...hello, '--text', 'accepted on hold'), { code: 0 });
  const all = await sendwright(env, 'release', '--waiting', 'send');
  t.match(all, { code: 0, printed: /^Released: 2 recipients are due now\. Nodes start / });
  await hold.begin(db);
  t.match(await sendwright(env, 'release', '--waiting', 'send', '--json'), { code: 0, printed: /"due": 2/ });
  const later = ['--text', 't', '--scheduled-at', new Date(Date.now() + 3_600_000).toISOString()];
  t.match(await sendwright(env, 'send', ...hello, ...later), { code: 0, said: '' });

  const waiting = ['--text', 't', '--wait'];
  const waited = await sendwright(env, 'send', ...hello, ...waiting);
  t.match(waited, { code: 1, printed: / is queued$/, said: /^No node that delivers mail is running/ });
  t.strictSame(waited.progress, [''], 'it does not begin to wait');
  const nodeId = newId();
  await buildNode(db, nodeId, ['mta']);
  // Seen just now, for as long as this takes.
  await db.query({ text: `UPDATE nodes SET seen_at = now() + interval '1 hour'` });
  const away = {
    backoffUntil: new Date(Date.now() + 60_000),
    reason: 'it is away',
    lastReply: null,
    lastSuccessAt: null,
  };
  const idle = { running: 0, waiting: 0, connections: 0, mostConnections: 4, perMinute: null };
  await report(db, nodeId, [{ site: 'b.test', destinations: ['b.test'], ...idle, ...away }]);
  const site = async (...command: string[]) => (await sendwright(env, 'queue', ...command)).printed;
  t.match(await site('list'), /^b\.test .* 0\/4 +it is away$/m, 'a back-off with its reason');
  const retried = await db.query({
    text: `UPDATE recipients SET attempts = 1, status = 'deferred', job_id = NULL, next_attempt_at = now() + interval '1 hour'
            WHERE destination = 'b.test' AND next_attempt_at <= now() RETURNING email_id`,
  });
  t.match(await site('flush', 'b.test'), new RegExp(`^${retried.length} more recipients are due now\\.\nSITE`));
  t.match(await site('resume', 'b.test'), /^SITE/);
  const { progress, ended } = begin(env, 'send', ...hello, ...waiting);
  await eventually(async () => progress.length > 0);
  await hold.begin(db);
  const stopped = await ended;
  t.match(stopped, { code: 1, printed: / is queued, after \d{1,2} s$/, said: /^The service has been on hold since 2/ });
  t.match(stopped.progress[0], / is queued, \d{1,2} s left$/);
  t.ok(stopped.progress.length > 1, 'a hold that begins meanwhile ends the wait');
  const onHold = await sendwright(env, 'send', ...hello, ...waiting);
  t.match(onHold, {
    code: 1,
    printed: / is queued$/,
    said: /^The service has been on hold since .* until sendwright release --waiting send\|fail\.$/,
  });
  t.strictSame(onHold.progress, ['']);

  // The clock of the database is ahead of this one.
  const [ahead] = await db.query<{ start: Date }>({
    text: `UPDATE service_hold SET starts = ARRAY[date_trunc('milliseconds', now() + interval '1 minute')] RETURNING starts[1] AS start`,
  });
  const dueBy = ['--due-by', ahead?.start.toISOString() ?? ''];
  const failed = await sendwright(env, 'release', '--waiting', 'fail', ...dueBy);
  t.match(failed, { code: 0, said: '' }, 'the time of a start is taken all the same');
  const [, many] = failed.printed.match(/^Released: (\d+) recipients failed, 0 recipients are due now\./) ?? [];
  t.equal(failed.progress[0], `${many} of ${many} recipients failed`);
  t.match(await told(env, 'release', '--waiting', 'send'), { code: 0, released: false, failed: 0 });
});

t.test('queue: orders for a destination are what nodes go by', async (t) => {
  const { node, env, sender } = await machine();
  const name = `d${Date.now()}.test`;
  const { body } = await node.call('POST', '/api/v1/auth/login', {
    body: { email: 'admin@example.test', password: node.adminPassword },
  });
  const known = async () => {
    const { destinations } = (await node.call('GET', '/api/v1/admin/destinations', { token: body.token })).body;
    return destinations.find(({ site }: { site: string }) => site === name);
  };
  t.match(await told(env, 'queue', 'pause', name), { code: 0, destination: { paused_at: String } });
  t.match(await known(), { paused_at: String });
  t.match(await sendwright(env, 'queue', 'list'), { code: 0, printed: new RegExp(`^${name} .* paused$`, 'm') });
  t.match(await sendwright(env, 'queue', 'list', '--limit', '0'), { code: 0, printed: /^None was requested\.$/ });
  const part = name.slice(0, -5).toUpperCase();
  t.match(await told(env, 'queue', 'list', '--q', part, '--state', 'paused'), {
    count: 1,
    destinations: [{ site: name }],
  });
  t.match(await told(env, 'queue', 'list', '--q', part, '--state', 'open'), { code: 0, count: 0, destinations: [] });
  t.match(await sendwright(env, 'queue', 'list', '--q', 'nowhere'), {
    code: 0,
    printed: /^There are no destinations\.$/,
  });
  t.match(await sendwright(env, 'queue', 'list', '--state', 'gone'), {
    code: 2,
    said: /state: must be one of paused, /,
  });
  const other = `other.${name}`;
  const paused = await sendwright(env, 'queue', 'pause', other);
  t.match(paused, { code: 0, printed: /^Nodes react within a second, and finish the work in progress\.\nSITE/ });
  const noMail = `No mail waits for ${other}, and no node reports any within the last hour: check the name. Mail that comes later waits.`;
  t.equal(paused.said, noMail, 'a typo is noticed');
  t.match(await sendwright(env, 'queue', 'list', '--q', name, '--limit', '1'), {
    printed: /\n1 more destination is not shown: see --limit, --offset, --q and --state\.$/,
  });
  t.match(await told(env, 'queue', 'list', '--q', name, '--limit', '1', '--offset', '1'), {
    count: 2,
    destinations: [{ site: String }],
  });
  t.match(await sendwright(env, 'queue', 'list', '--q', name, '--offset', '2'), {
    printed: /^No destinations on this page; 2 in total\.$/,
  });
  t.equal((await sendwright(env, 'queue', 'resume', other)).said, '');
  t.match(await told(env, 'queue', 'flush', name), { code: 0, flushed: 0 });
  t.match(await told(env, 'queue', 'resume', name), { code: 0, destination: { paused_at: null } });
  t.equal(await known(), undefined);
  const scheduled_at = new Date(Date.now() + 3_600_000).toISOString();
  const email = { from: `a@${sender.domain}`, to: `a@${name}`, subject: 's', text: 't', scheduled_at };
  t.equal((await node.call('POST', '/api/v1/emails', { key: sender.key, body: email })).status, 200);
  t.match(await sendwright(env, 'queue', 'pause', name), { code: 0, said: /^$/ }, 'scheduled mail waits for it');
  await told(env, 'queue', 'resume', name);
  t.match(await sendwright(env, 'queue', 'pause', 'no such'), { code: 1, said: 'sendwright: "no such": not found' });
});
