import t from 'tap';
import { TokenBuckets } from '../../src/pace/rate-limit.ts';
import { buildKey, buildVerifiedDomain } from '../support/build.ts';
import { encryptionKey, plain, startSubmitter } from './scene.ts';

const scene = await startSubmitter(t);
const { node, dial } = scene;

t.test('MAIL-02: no login without TLS, and no mail without a login', async (t) => {
  const { key, from } = await scene.sender();
  const dialog = await dial('submission');
  const features = await dialog.ask('EHLO client.test');
  t.match(features, 'STARTTLS');
  t.match(features, /250[ -]SIZE 41943040/);
  // A client without TLS must not be invited to send a key in clear.
  for (const absent of ['AUTH', 'CHUNKING', 'XCLIENT', 'XFORWARD', 'DSN', 'REQUIRETLS']) t.notMatch(features, absent);
  t.match(await dialog.ask(`AUTH PLAIN ${plain(key)}`), /^538 5\.7\./);
  t.match(await dialog.ask('AUTH LOGIN'), /^538 5\.7\./);
  const tlsFirst = '530 5.7.0 Must issue a STARTTLS command first';
  for (const command of [`MAIL FROM:<${from}>`, 'RCPT TO:<a@b.test>', 'DATA'])
    t.equal(await dialog.ask(command), tlsFirst);
  await dialog.startTls();
  t.match(await dialog.ask('EHLO client.test'), /^250[ -]AUTH PLAIN LOGIN\r?$/m);
  t.match(await dialog.ask(`MAIL FROM:<${from}>`), /^530 5\.7\.0 Authentication required: /);
  t.match(await dialog.ask(`AUTH PLAIN ${plain(key)}`), /^235 2\.7\.0 /);
  t.match(await dialog.envelope(from), /^354 /);
});

t.test('AUTH LOGIN accepts the key as the password too', async (t) => {
  const { key, from } = await scene.sender();
  const dialog = await dial('submissions');
  await dialog.ask('EHLO client.test');
  t.match(await dialog.ask('AUTH LOGIN'), /^334 /);
  t.match(await dialog.ask(Buffer.from('anybody').toString('base64')), /^334 /);
  t.match(await dialog.ask(Buffer.from(key).toString('base64')), /^235 /);
  t.match(await dialog.envelope(from), /^354 /);
});

t.test('MAIL-02: after three failed logins the server hangs up', async (t) => {
  const dialog = await dial('submissions');
  await dialog.ask('EHLO client.test');
  for (const nth of [1, 2, 3]) {
    t.equal(
      await dialog.ask(`AUTH PLAIN ${plain(`sk_live_${nth}`)}`),
      '535 5.7.8 the password must be a valid API key',
    );
  }
  t.equal(await dialog.rest(), '421 4.7.0 too many failed logins\r\n');
});

t.test('a key that may not send cannot log in, and is told why', async (t) => {
  const { account } = await scene.sender();
  const suspended = await scene.sender();
  await node.db.prisma.account.update({ where: { id: suspended.account.id }, data: { suspendedAt: new Date() } });
  const cases: [key: string, reply: string][] = [
    [
      await buildKey(node.db, account.id, { scopes: ['read'] }),
      '535 5.7.8 this API key lacks the scope send: use another key, or create one with this scope',
    ],
    [
      await buildKey(node.db, account.id, { expiresAt: new Date(Date.now() - 1_000) }),
      '535 5.7.8 the password must be a valid API key',
    ],
    [suspended.key, '535 5.7.8 the account is suspended'],
  ];
  for (const [key, reply] of cases) {
    const dialog = await dial('submissions');
    await dialog.ask('EHLO client.test');
    t.equal(await dialog.ask(`AUTH PLAIN ${plain(key)}`), reply);
  }
});

t.test('a key that is revoked while its connection is open sends nothing more', async (t) => {
  const { account, from, logIn, count } = await scene.sender();
  const dialog = await logIn();
  t.match(await dialog.message(from, `From: ${from}\r\nSubject: s\r\n\r\nt`), /^250 /);
  t.match(await dialog.envelope(from), /^354 /);
  await node.db.prisma.apiKey.updateMany({ where: { accountId: account.id }, data: { revokedAt: new Date() } });
  t.match(await dialog.ask(`From: ${from}\r\nSubject: s\r\n\r\nt\r\n.`), /^535 5\.7\.8 /);
  t.match(await dialog.ask(`MAIL FROM:<${from}>`), /^535 5\.7\.8 /);
  await node.db.prisma.apiKey.updateMany({ where: { accountId: account.id }, data: { revokedAt: null } });
  t.equal(await count(), 1);
});

t.test('MAIL-02: nobody can send for a domain that is not verified for them, wherever they name it', async (t) => {
  const { account, from, domain, logIn, count } = await scene.sender();
  const stranger = await scene.sender();
  const dialog = await logIn();
  const foreign = [stranger.from, 'a@unknown.test', `a@sub.${domain}`];
  for (const address of foreign) {
    t.match(
      await dialog.ask(`MAIL FROM:<${address}>`),
      /^550 5\.7\.1 MAIL FROM: \S+ is not a verified domain of this account: add it first/,
      address,
    );
    const offered = await dialog.message(from, `From: ${address}\r\nSubject: s\r\n\r\nt`);
    t.match(offered, /^550 5\.7\.1 From: \S+ is not a verified domain/, address);
    const sender = await dialog.message(from, `From: ${from}\r\nSender: ${address}\r\nSubject: s\r\n\r\nt`);
    t.match(sender, /^550 5\.7\.1 Sender: \S+ is not a verified domain/, address);
  }
  const malformed = [
    `From: ${from}\r\nFrom: ${stranger.from}`,
    `From: ${stranger.from}, ${from}`,
    `From: friends: ${from};`,
    `From: friends: ${from}, ${stranger.from};`,
    `Sender: ${from}\r\nSender: ${from}\r\nFrom: ${from}`,
    `From: <@${domain}:${stranger.from}>`,
    `From: ${stranger.from}(@${domain})`,
    `From: "${stranger.from}" x@${domain}`,
    'From: nobody',
    'From:',
    'X-From: missing',
  ];
  for (const header of malformed) {
    t.match(await dialog.message(from, `${header}\r\nSubject: s\r\n\r\nt`), /^550 5\.[67]\./, header);
  }
  t.equal(await count(), 0);

  const { domain: second } = await buildVerifiedDomain(node.db, account.id, encryptionKey);
  const key = await buildKey(node.db, account.id, { domains: [domain] });
  const restricted = await scene.logIn(key);
  t.match(
    await restricted.ask(`MAIL FROM:<a@${second}>`),
    `550 5.7.1 MAIL FROM: this API key may not send for ${second}`,
  );
  const refused = await restricted.message(from, `From: a@${second}\r\nSubject: s\r\n\r\nt`);
  t.equal(refused, `550 5.7.1 From: this API key may not send for ${second}`);
  t.match(await restricted.message('', `From: ${from}\r\nSubject: s\r\n\r\nt`), /^250 /, 'without an envelope sender');
});

t.test('the plan counts submitted mail too', async (t) => {
  const { account, from, logIn } = await scene.sender();
  await node.db.prisma.account.update({ where: { id: account.id }, data: { plan: 'free' } });
  await node.db.query({
    text: `UPDATE accounts SET usage_day = (now() AT TIME ZONE 'UTC')::date, usage_day_count = 99,
                  usage_month = date_trunc('month', now() AT TIME ZONE 'UTC')::date, usage_month_count = 99 WHERE id = $1`,
    values: [account.id],
  });
  const dialog = await logIn();
  const content = `From: ${from}\r\nSubject: s\r\n\r\nt`;
  t.match(await dialog.message(from, content), /^250 /);
  t.match(await dialog.message(from, content), /^452 4\.3\.1 quota exceeded: the free plan/);
});

t.test('a key may send as many messages as it may make requests, and is told when to continue', async (t) => {
  const limiter = new TokenBuckets({ perSecond: 0.01, burst: 2 });
  const slow = await startSubmitter(t, { limiter });
  const { from, logIn } = await slow.sender();
  const dialog = await logIn();
  const content = `From: ${from}\r\nSubject: s\r\n\r\nt`;
  t.match(await dialog.message(from, content), /^250 /);
  t.match(await dialog.message(from, content), /^250 /);
  t.match(await dialog.message(from, content), /^450 4\.7\.1 this API key sends too many .* try again in \d+ s$/);
});

t.test(
  'MAIL-02: after many failed logins each further one ends its connection, but a good key is let in',
  async (t) => {
    const { dial: dialOther, sender } = await startSubmitter(t);
    const { key, from } = await sender();
    const guess = async () => {
      const guesser = await dialOther('submissions');
      await guesser.ask('EHLO client.test');
      t.match(await guesser.ask(`AUTH PLAIN ${plain('guess')}`), /^535 5\.7\.8 /);
      return guesser;
    };
    for (let failed = 1; failed <= 10; failed++) {
      const guesser = await guess();
      t.match(await guesser.ask('NOOP'), /^250 /, `${failed}`);
      guesser.end();
    }
    t.match(await (await guess()).rest(), /^421 4\.7\.0 .*\r\n$/);
    const good = await dialOther('submissions');
    await good.ask('EHLO client.test');
    t.match(await good.ask(`AUTH PLAIN ${plain(key)}`), /^235 /);
    t.match(await good.envelope(from), /^354 /);
  },
);
