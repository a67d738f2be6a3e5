import t from 'tap';
import { newId } from '../../src/ids.ts';
import { sealReader } from '../../src/mail/links/unsubscribe-link.ts';
import { bounces } from '../mail/bounces/index.ts';
import {
  bounce,
  complaint,
  host,
  keys,
  oldReturnPath,
  returnPath,
  startReturns,
  unsubscribeAddress,
} from './returned.ts';

const scene = await startReturns(t);
const { deliver } = scene;
const taken = /^250 2\.0\.0 taken/;

t.test('a late bounce is recorded, suppresses the address, and is reported, each once', async (t) => {
  const { send, read, explain, suppressed, events } = await scene.sender();
  const id = await send('Jane@example.com');
  t.match(await deliver(returnPath(id), bounce({})), taken);
  const email = await read(id);
  t.equal(email.status, 'sent', 'QUE-19: the status from then stays');
  t.match(email.recipients, [{ status: 'delivered' }]);
  t.match(email.returns, [
    {
      recipient: 'Jane@example.com',
      kind: 'bounce',
      classification: 'bad_mailbox',
      enhanced_code: '5.1.1',
      diagnostic: '550 5.1.1 no such user',
      received_at: /Z$/,
    },
  ]);
  t.strictSame(await suppressed(), ['jane@example.com bounce']);
  const told = [{ type: 'email.bounced', data: { email_id: id, status: 'sent' } }];
  t.match(await events(), told);
  t.strictSame((await events())[0].data.recipients, [
    { address: 'Jane@example.com', status: 'bounced', response: '550 5.1.1 no such user' },
  ]);
  const { recipients } = await explain(id);
  t.match(recipients, [
    { status: 'delivered', classification: 'bad_mailbox', sentence: /It came back on .*: 550 5\.1\.1 no such user\.$/ },
  ]);
  t.match(recipients[0].advice, /The mailbox does not exist/);

  t.match(await deliver(returnPath(id), bounce({})), taken, 'S14: again');
  await Promise.all([1, 2, 3].map(() => deliver(returnPath(id), bounce({ said: '550 5.1.1 other words' }))));
  t.equal((await events()).length, 1);
  t.equal((await read(id)).returns.length, 1);
});

t.test('a failure that does not mean a missing mailbox suppresses nobody', async (t) => {
  const { send, read, suppressed, events } = await scene.sender();
  const cases: [Parameters<typeof bounce>[0], Record<string, string>][] = [
    [
      { status: '5.2.2', said: '552 5.2.2 mailbox full' },
      { kind: 'bounce', classification: 'mailbox_full' },
    ],
    [
      { status: '4.4.7', said: '450 4.4.7 expired' },
      { kind: 'bounce', classification: 'network' },
    ],
    [
      { status: '4.1.1', said: '450 4.1.1 no such user' },
      { kind: 'bounce', classification: 'bad_mailbox' },
    ],
    [
      { status: '5.7.1', said: '550 5.7.1 your IP is blocked' },
      { kind: 'bounce', classification: 'policy' },
    ],
    [
      { action: 'delayed', status: '4.4.1', said: '' },
      { kind: 'delay', classification: 'network' },
    ],
  ];
  for (const [group, expected] of cases) {
    const id = await send('jane@example.com');
    t.match(await deliver(returnPath(id), bounce(group)), taken);
    t.match((await read(id)).returns, [expected]);
  }
  t.strictSame(await suppressed(), []);
  t.equal((await events()).length, 4, 'failures are reported all the same, a delay is not');
});

t.test('a full mailbox that turns out to be gone counts as gone', async (t) => {
  const { send, read, suppressed, events } = await scene.sender();
  const id = await send('jane@example.com');
  for (const [group, suppressedNow] of [
    [{ status: '5.2.2', said: '552 5.2.2 mailbox full' }, []],
    [{}, ['jane@example.com bounce']],
    [{ status: '5.2.2', said: '552 5.2.2 mailbox full' }, ['jane@example.com bounce']],
  ] as const) {
    t.match(await deliver(returnPath(id), bounce(group)), taken);
    t.strictSame(await suppressed(), suppressedNow);
  }
  t.match((await read(id)).returns, [{ kind: 'bounce', classification: 'bad_mailbox' }]);
  t.equal((await events()).length, 2);
});

t.test('of what one report says several times about a recipient, what suppresses the address counts', async (t) => {
  const { send, read, suppressed, events } = await scene.sender();
  const [full, gone] = [{ status: '5.2.2', said: '552 5.2.2 mailbox full' }, {}];
  const all: [Parameters<typeof bounce>, string][] = [
    [[full, gone], 'bad_mailbox'],
    [[gone, full], 'bad_mailbox'],
    [[full, { status: '4.4.7', said: '450 4.4.7 expired' }], 'mailbox_full'],
  ];
  for (const [at, [groups, classification]] of all.entries()) {
    const to = `${at}@example.com`;
    const id = await send(to);
    t.match(await deliver(returnPath(id), bounce(...groups.map((group) => ({ ...group, to })))), taken);
    t.strictSame(
      (await read(id)).returns.map((one: { classification: string }) => one.classification),
      [classification],
    );
  }
  t.strictSame((await suppressed()).sort(), ['0@example.com bounce', '1@example.com bounce']);
  t.equal((await events()).length, 3);
});

t.test(
  'a mailbox that is said to be gone for now hides neither that it is gone for good, nor that it is full',
  async (t) => {
    const { send, read, suppressed, events } = await scene.sender();
    const forNow = bounce({ status: '4.1.1', said: '450 4.1.1 no such user' });
    const [gone, full] = [await send('jane@example.com'), await send('ann@example.com')];
    await deliver(returnPath(gone), forNow);
    t.strictSame(await suppressed(), []);
    await deliver(returnPath(gone), bounce({}));
    t.strictSame(await suppressed(), ['jane@example.com bounce']);
    t.match((await read(gone)).returns, [{ classification: 'bad_mailbox', enhanced_code: '5.1.1' }]);
    await deliver(returnPath(full), bounce({ to: 'ann@example.com', status: '5.2.2', said: '552 5.2.2 mailbox full' }));
    await deliver(returnPath(full), forNow.replaceAll('jane@', 'ann@'));
    t.match((await read(full)).returns, [{ classification: 'mailbox_full', enhanced_code: '5.2.2' }]);
    t.equal((await events()).length, 3);
  },
);

t.test('MAIL-05: delivered, relayed, automatic and unknown messages change nothing', async (t) => {
  const { send, read, suppressed, events } = await scene.sender();
  const id = await send('jane@example.com');
  for (const action of ['delivered', 'relayed', 'expanded'])
    t.match(await deliver(returnPath(id), bounce({ action, status: '2.0.0', said: '250 ok' })), taken);
  for (const { name, message, kind } of bounces) {
    if (kind === 'auto_reply' || kind === 'unknown' || kind === 'relayed')
      t.match(await deliver(returnPath(id), message, 'jane@example.com'), taken, name);
  }
  t.strictSame([(await read(id)).returns, await suppressed(), await events()], [[], [], []]);
});

t.test('MAIL-05: what a person writes to a return path is not a bounce, whatever its words are', async (t) => {
  const { send, read, suppressed, events } = await scene.sender();
  const id = await send('jane@example.com');
  const said = 'Final-Recipient: rfc822; jane@example.com\nAction: failed\nStatus: 5.1.1';
  const messages = [
    'Subject: Re: Undeliverable? rejected\n\nyour last mail was rejected, user unknown\n',
    `Subject: Fwd: failure notice\n\nlook what I got:\n\n${said}\n`,
    'Subject: Mail delivery failed\n\n<jane@example.com>: 550 5.1.1 no such user\n',
  ];
  for (const message of messages)
    t.match(await deliver(returnPath(id), `From: Jane <jane@example.com>\n${message}`, 'jane@example.com'), taken);
  t.strictSame([(await read(id)).returns, await suppressed(), await events()], [[], [], []]);
  const [, , last = ''] = messages;
  await deliver(returnPath(id), `From: Mail Delivery Subsystem <x@mx.test>\n${last}`, 'x@mx.test');
  t.strictSame(await suppressed(), ['jane@example.com bounce'], 'a server may use an envelope sender');
  const other = await send('ann@example.com');
  await deliver(returnPath(other), `From: it@mx.test\n${last.replace('jane@', 'ann@')}`, '');
  t.equal((await suppressed()).length, 2, 'or any name that it likes');
});

t.test('MAIL-05: a return path of several recipients counts for those that the bounce names', async (t) => {
  const { send, read, suppressed } = await scene.sender();
  const to = ['ann@one.test', 'bob@one.test', 'cid@two.test'];
  const id = await send(to);
  const whoIs = async () => (await read(id)).returns.map(({ recipient }: { recipient: string }) => recipient);
  await deliver(returnPath(id, 0, false), bounce({ to: 'cid@two.test' }));
  await deliver(returnPath(id, 0, false), bounce({ to: 'stranger@one.test' }));
  await deliver(returnPath(id, 0, false), 'From: mailer-daemon@x\nSubject: failure notice\n\n550 5.1.1 no such user\n');
  t.strictSame(await whoIs(), [], 'of another destination, unknown, or not named');
  const reached = { to: 'ann@one.test', action: 'delivered', status: '2.0.0', said: '250 ok' };
  await deliver(returnPath(id, 0, false), bounce({ to: 'BOB@one.test' }, { to: 'cid@two.test' }, reached));
  t.strictSame(await whoIs(), ['bob@one.test']);
  await deliver(oldReturnPath(id), bounce({ to: 'cid@two.test' }));
  t.strictSame(await whoIs(), ['bob@one.test', 'cid@two.test']);
  await deliver(returnPath(id, 0, true), bounce({ to: 'bob@one.test' }));
  t.strictSame((await suppressed()).sort(), ['bob@one.test bounce', 'cid@two.test bounce']);
});

t.test('a report may write a domain in Unicode that we write in A-labels: RFC 6533', async (t) => {
  const { send, suppressed } = await scene.sender();
  const to = ['ann@müller.example', 'bob@müller.example', 'cid@müller.example'];
  const id = await send(to);
  const global = bounce({ to: 'ann@MÜLLER.example' })
    .replace('rfc822;', 'utf-8;')
    .replace('message/delivery-status', 'message/global-delivery-status');
  await deliver(returnPath(id, 0, false), Buffer.from(global));
  await deliver(
    returnPath(id, 0, false),
    Buffer.from(bounce({ to: 'bob@m\\x{FC}ller.example' }).replace('rfc822;', 'utf-8;')),
  );
  await deliver(
    `fbl@${host}`,
    Buffer.from(complaint(`Return-Path: <${returnPath(id, 0, false)}>`, 'Original-Rcpt-To: cid@müller.example\n')),
  );
  t.strictSame((await suppressed()).sort(), [
    'ann@xn--mller-kva.example bounce',
    'bob@xn--mller-kva.example bounce',
    'cid@xn--mller-kva.example complaint',
  ]);
});

t.test('a forwarder is not suppressed because a mailbox behind it is gone', async (t) => {
  const { send, read, suppressed } = await scene.sender();
  const passed = await send('list@example.com');
  await deliver(returnPath(passed), bounce({ to: 'member@elsewhere.test' }));
  t.match((await read(passed)).returns, [
    { recipient: 'list@example.com', kind: 'bounce', diagnostic: 'for member@elsewhere.test: 550 5.1.1 no such user' },
  ]);
  t.strictSame(await suppressed(), []);
  await deliver(returnPath(passed), bounce({ to: 'list@example.com' }));
  t.strictSame(
    await suppressed(),
    ['list@example.com bounce'],
    'an earlier bounce of another address does not hide it',
  );
  const team = await send('team@example.com');
  const forMember = bounce({ to: 'bob@gone.example' });
  const expanded = forMember.replace('Action: failed', 'Original-Recipient: rfc822;team@example.com\nAction: failed');
  t.not(expanded, forMember);
  await deliver(returnPath(team), expanded);
  // As Sendmail says it.
  const both = await send('both@example.com');
  const elsewhere = '\nX-Actual-Recipient: rfc822; bob@gone.example\nAction: failed';
  await deliver(returnPath(both), bounce({ to: 'both@example.com' }).replace('\nAction: failed', elsewhere));
  const inWords = (words: string) => `From: MAILER-DAEMON@mx.other.test\nSubject: failure notice\n\n${words}\n`;
  const others = await send('readers@example.com');
  for (const words of [
    'Your message to readers@example.com was passed on, and could not be delivered to member@gone.example. The server said: 550 5.1.1 no such user',
    'We could not deliver to the list members one@gone.example and two@gone.example: 550 5.1.1 no such user',
  ])
    await deliver(returnPath(others), inWords(words));
  t.strictSame(await suppressed(), ['list@example.com bounce'], 'nor if the notice names the original recipient');
  t.match((await read(team)).returns, [{ recipient: 'team@example.com', diagnostic: /^for bob@gone\.example: 550/ }]);
  t.match((await read(both)).returns, [{ recipient: 'both@example.com', diagnostic: /^for bob@gone\.example: 550/ }]);
  t.match((await read(others)).returns, [{ diagnostic: /^for \S+@\S+ or \S+@\S+: / }]);
  const forwards = await send('jane@a.example');
  for (const to of ['"j d"@b.example', '"jane doe"@a.example', '/s=doe/o=x', '|/usr/bin/procmail'])
    await deliver(returnPath(forwards), bounce({ to }));
  t.strictSame(await suppressed(), ['list@example.com bounce'], 'nor if the address cannot be read');
  t.match((await read(forwards)).returns, [{ diagnostic: /^for "j d"@b\.example: 550/ }]);
  const alias = await send('alias@example.com');
  const byExim = bounce({ to: 'alias@example.com' });
  const named = '  member@gone.example\n    (generated from alias@example.com)\n    550 5.1.1 no such user\n';
  t.match(byExim, /^It failed\.\n/m);
  await deliver(returnPath(alias), byExim.replace('It failed.\n', named));
  t.strictSame(await suppressed(), ['list@example.com bounce'], 'nor if only the text names it, as with Exim');
  t.match((await read(alias)).returns, [{ diagnostic: 'for member@gone.example: 550 5.1.1 no such user' }]);
  const renamed = await send('jane+news@example.com');
  await deliver(returnPath(renamed), bounce({ to: 'jane@internal.example.net' }));
  t.ok((await suppressed()).includes('jane+news@example.com bounce'));
});

t.test('a refusal by the policy of a server suppresses nobody, whatever it says about a domain', async (t) => {
  const { send, suppressed } = await scene.sender();
  for (const said of [
    '550 5.7.25 Reverse host name not found',
    '554 5.7.1 Client host unknown',
    '550 5.7.1 Domain shop.example does not exist',
  ])
    await deliver(returnPath(await send('jane@example.com')), bounce({ said }));
  t.strictSame(await suppressed(), []);
});

t.test('INJ-13: what PostgreSQL cannot store, and what a terminal obeys, is left out', async (t) => {
  const { send, read } = await scene.sender();
  const id = await send('list@example.com');
  const evil = bounce({ to: 'mem=1B=07ber@elsewhere.test', said: '550 5.1.1 no=1B[2J=00 such user' });
  const type = 'Content-Type: message/delivery-status';
  const encoded = evil.replace(type, `${type}\nContent-Transfer-Encoding: quoted-printable`);
  t.match(await deliver(returnPath(id), encoded), taken);
  t.match((await read(id)).returns, [{ diagnostic: 'for member@elsewhere.test: 550 5.1.1 no[2J such user' }]);
});

t.test('MAIL-04: only for our own emails, of the last 90 days', async (t) => {
  const { send, read, suppressed } = await scene.sender();
  const id = await send('jane@example.com');
  t.match(await deliver(returnPath(newId()), bounce({})), taken, 'an email that no longer exists');
  t.match(await deliver(returnPath(id, 7), bounce({})), taken, 'a recipient that the email does not have');
  const age = (days: number) =>
    scene.node.db.query({
      text: 'UPDATE emails SET created_at = now() - make_interval(days => $2) WHERE id = $1',
      values: [id, days],
    });
  await age(91);
  t.match(await deliver(returnPath(id), bounce({})), taken);
  t.strictSame([(await read(id)).returns, await suppressed()], [[], []]);
  await age(89);
  await deliver(returnPath(id), bounce({}));
  t.strictSame(await suppressed(), ['jane@example.com bounce']);
  const complained = (to: string) => deliver(to, complaint(`Return-Path: <${returnPath(id)}>`), 'x@provider.test');
  const kinds = async () => (await read(id)).returns.map(({ kind }: { kind: string }) => kind);
  await age(91);
  for (const to of [`fbl@${host}`, returnPath(id), unsubscribeAddress(id)]) t.match(await complained(to), taken);
  t.strictSame(await kinds(), ['bounce'], 'nor a complaint');
  await age(89);
  await complained(`fbl@${host}`);
  t.strictSame((await kinds()).sort(), ['bounce', 'complaint']);
  const scheduled = await send('ann@example.com');
  await scene.node.db.query({
    text: `UPDATE emails SET created_at = now() - interval '300 days', scheduled_at = now() - interval '1 day' WHERE id = $1`,
    values: [scheduled],
  });
  await deliver(returnPath(scheduled), bounce({ to: 'ann@example.com' }));
  t.equal((await suppressed()).length, 2, 'of one that was scheduled, from its time on');
});

t.test('what comes back for an account that is gone is taken and changes nothing', async (t) => {
  const { send, account } = await scene.sender();
  const id = await send('jane@example.com');
  await scene.node.db.query({ text: 'DELETE FROM accounts WHERE id = $1', values: [account.id] });
  t.match(await deliver(returnPath(id), bounce({})), taken);
  t.match(await deliver(returnPath(id), bounce({ status: '5.2.2', said: '552 5.2.2 full' })), taken);
  t.match(await deliver(`fbl@${host}`, complaint(`Return-Path: <${returnPath(id)}>`), 'x@provider.test'), taken);
  t.match(await deliver(unsubscribeAddress(id), 'Subject: unsubscribe\n\n', 'jane@example.com'), taken);
  const returned = { text: 'SELECT FROM returns WHERE email_id = $1', values: [id] };
  t.strictSame(await scene.node.db.query(returned), []);
});

t.test('a complaint is recognized by whichever token is left in it', async (t) => {
  const { send, read, suppressed, events } = await scene.sender();
  const cases: [what: string, to: (id: string) => string, header: (id: string) => string][] = [
    ['the return path', () => `fbl@${host}`, (id) => `Return-Path: <${returnPath(id)}>`],
    ['the link', () => `abuse@${host}`, (id) => `List-Unsubscribe: <https://x.test/unsubscribe/${linkOf(id)}>`],
    [
      'a link of an older release',
      () => `abuse@${host}`,
      (id) => `List-Unsubscribe: <https://x.test/unsubscribe/${tokenOf(id)}>`,
    ],
    [
      'the address',
      () => `Postmaster@${host}`,
      (id) => `List-Unsubscribe: <mailto:${unsubscribeAddress(id)}?subject=u>`,
    ],
    ['where it was sent', (id) => returnPath(id), () => 'Subject: s'],
  ];
  for (const [index, [what, to, header]] of cases.entries()) {
    const address = `reader${index}@example.com`;
    const id = await send(address);
    t.match(await deliver(to(id), complaint(header(id)), 'feedback@provider.test'), taken, what);
    t.match(await deliver(to(id), complaint(header(id)), 'feedback@provider.test'), taken, 'again');
    t.match(
      (await read(id)).returns,
      [{ recipient: address, kind: 'complaint', diagnostic: 'reported as abuse' }],
      what,
    );
  }
  t.strictSame(
    (await suppressed()).sort(),
    cases.map((_, index) => `reader${index}@example.com complaint`),
  );
  t.strictSame(
    (await events()).map(({ type }) => type),
    cases.map(() => 'email.complained'),
  );
});

const linkOf = (id: string) =>
  sealReader(keys.unsubscribe, { accountId: newId(), emailId: id, position: 0, address: 'whoever@example.com' });
const tokenOf = (id: string) => unsubscribeAddress(id).slice('unsubscribe+'.length).split('@')[0];

t.test('MAIL-04: a complaint that could be about anybody counts for nobody', async (t) => {
  const { send, read, suppressed } = await scene.sender();
  const to = ['ann@one.test', 'bob@one.test', 'cid@two.test'];
  const id = await send(to);
  const toOne = await send('dan@one.test');
  const names = (address: string) => `Original-Rcpt-To: ${address}\n`;
  for (const [header, fields] of [
    [`Message-ID: <${id}@x.test>`, names('ann@one.test')],
    [`Message-ID: <${toOne}@x.test>`, names('dan@one.test')],
    [`Message-ID: <${toOne}@x.test>`, ''],
    [`Return-Path: <${returnPath(id, 0, false)}>`, ''],
    [`Return-Path: <${returnPath(id, 0, false)}>`, names('cid@two.test')],
    [`Return-Path: <${returnPath(id).replace(/\+.{5}/, '+aaaaa')}>`, names('ann@one.test')],
    ['Message-ID: <0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001@x.test>', ''],
    ['Subject: s', names('ann@one.test')],
  ] as const) {
    t.match(await deliver(`fbl@${host}`, complaint(header, fields)), taken, `${header} ${fields}`);
  }
  t.strictSame([(await read(id)).returns, (await read(toOne)).returns, await suppressed()], [[], [], []]);
  await deliver(`fbl@${host}`, complaint(`Return-Path: <${returnPath(id, 0, false)}>`, names('bob@one.test')));
  t.strictSame(await suppressed(), ['bob@one.test complaint']);
});

t.test('a report that is no complaint is taken, and changes nothing', async (t) => {
  const { send, read, suppressed, events } = await scene.sender();
  const id = await send('jane@example.com');
  for (const type of ['not-spam', 'auth-failure'])
    t.match(await deliver(`fbl@${host}`, complaint(`Return-Path: <${returnPath(id)}>`, '', type)), taken, type);
  t.match(await deliver(`fbl@${host}`, bounce({})), /^554 5\.6\.0 this address accepts only feedback reports/);
  t.same([await suppressed(), await events(), (await read(id)).returns], [[], [], []]);
});

t.test('an opt-out report unsubscribes', async (t) => {
  const { send, suppressed, events } = await scene.sender();
  const id = await send('jane@example.com', { type: 'marketing' });
  await deliver(`fbl@${host}`, complaint(`Return-Path: <${returnPath(id)}>`, '', 'opt-out'));
  t.strictSame(await suppressed(), ['jane@example.com unsubscribe']);
  t.match(await events(), [{ type: 'email.unsubscribed' }]);
});

t.test('a mail to the address in List-Unsubscribe unsubscribes', async (t) => {
  const { send, read, suppressed, events, token } = await scene.sender();
  const id = await send(['ann@example.com', 'bob@example.com'], { type: 'marketing' });
  const mail = (header = '') => `From: whoever@elsewhere.test\nSubject: unsubscribe\n${header}\n\n`;
  for (const [message, from] of [
    [mail(), ''],
    [mail('Auto-Submitted: auto-replied\n'), 'bob@example.com'],
    [bounce({}), 'mailer-daemon@x.test'],
    [complaint('', '', 'not-spam'), 'feedback@provider.test'],
    [complaint('', '', 'auth-failure').replace('multipart/report', 'multipart/mixed'), 'dmarc@provider.test'],
  ] as const) {
    t.match(await deliver(unsubscribeAddress(id, 1), message, from), taken);
  }
  t.strictSame(await suppressed(), [], 'MAIL-03: automatic mail does not');
  t.match(await deliver(unsubscribeAddress(id, 1), mail(), 'bob@gmail.test'), taken);
  t.strictSame(await suppressed(), ['bob@example.com unsubscribe']);
  t.match((await read(id)).returns, [{ recipient: 'bob@example.com', kind: 'unsubscribe', diagnostic: null }]);
  await scene.node.call('DELETE', '/api/v1/suppressions/bob%40example.com', { token });
  t.match(await deliver(unsubscribeAddress(id, 1), mail(), 'bob@gmail.test'), taken);
  t.strictSame(await suppressed(), ['bob@example.com unsubscribe'], 'asking again counts again');
  const written = mail('Auto-Submitted: auto-generated');
  t.match(await deliver(unsubscribeAddress(id, 0), written, 'ann@example.com'), taken);
  t.equal((await suppressed()).length, 2, 'a mail program may call itself automatic');
  t.equal((await events()).length, 2);
  // As iCloud sends it for Apple Mail.
  const apple = mail('Auto-Submitted: auto-replied\nX-Apple-Unsubscribe: true\n');
  const byApple = await send('eve@example.com', { type: 'marketing' });
  t.match(await deliver(unsubscribeAddress(byApple, 0), apple, ''), taken);
  t.equal((await suppressed()).length, 2);
  t.match(await deliver(unsubscribeAddress(byApple, 0), apple, 'eve@example.com'), taken);
  t.equal((await suppressed()).length, 3, 'Apple Mail calls it a reply');
});
