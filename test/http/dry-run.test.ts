import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import t from 'tap';
import { tokenKeys } from '../../src/core/secrets/service-secrets.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import { dnsValue } from '../../src/mail/compose/dkim-key.ts';
import { parseReturnPath } from '../../src/mail/links/token.ts';
import { buildKey, buildVerifiedDomain } from '../support/build.ts';
import { mailHostname, startDirectNode } from '../support/direct.ts';
import { testKey } from '../support/keys.ts';
import { dayLasting } from '../support/midnight.ts';
import { startSink } from '../support/mx.ts';

t.test('a dry run says what would happen, and changes nothing', async (t) => {
  await dayLasting(60_000);
  const sink = await startSink();
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, {
    zone: {
      'one.test': {
        MX: [
          [20, 'b.one.test'],
          [10, 'a.one.test'],
        ],
      },
      'a.one.test': { A: ['127.0.0.1'] },
      'b.one.test': 'SERVFAIL',
      'null.test': { MX: [[0, '.']] },
      'lost.test': { MX: [[10, 'gone.lost.test']] },
      'broken.test': {
        MX: [
          [10, 'gone.lost.test'],
          [20, 'b.one.test'],
        ],
      },
      [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
    },
    mxPort: sink.port,
  });
  const dry = (fields: object, key = node.key, query = 'dry_run=true') =>
    node.call('POST', `/api/v1/emails?${query}`, {
      key,
      body: { from: `Ann <${node.from}>`, subject: 'dry', text: 'run', ...fields },
    });
  const rows = async () => [
    await node.db.prisma.email.count(),
    await node.db.prisma.recipient.count(),
    await node.db.prisma.attachment.count(),
    await node.db.query({ text: `SELECT id FROM pgboss.job WHERE name = 'deliver'` }),
  ];
  const later = new Date(Date.now() + 3_600_000).toISOString();
  const wet = await dry({ to: 'x@one.test', scheduled_at: later }, node.key, 'dry_run=false');
  t.match(wet, { status: 200, body: { email: { status: 'queued' } } });
  const before = await rows();
  t.equal(before[0], 1, 'what is asked not to be one is no dry run');

  const domain = await node.db.prisma.domain.findUniqueOrThrow({ where: { id: node.domainId } });
  node.zone.set(`${domain.dkimSelector}._domainkey.${domain.domain}`, { TXT: [dnsValue(domain.dkimPublicKey)] });
  const { status, body } = await dry({
    to: ['x@one.test', 'y@one.test'],
    cc: ['z@null.test', 'z@lost.test', 'z@broken.test'],
    bcc: 'hidden@missing.test',
    attachments: [{ filename: 'a.txt', content: 'YQ==' }],
  });
  t.equal(status, 200);
  t.match(body, {
    dry_run: true,
    would: 'be_queued',
    suppressed: [],
    return_path: new RegExp(`^bounces\\+[a-z2-7]+@${mailHostname}$`),
  });
  const { returnPath: key } = await tokenKeys(node.db, new Keyring(testKey(7)));
  const named = (path: string) => parseReturnPath(key, path, mailHostname)?.recipient;
  t.strictSame(named(body.return_path), { position: 0, alone: false }, 'as of the first transaction');
  for (const fields of [{ type: 'marketing' }, { to: ['x@one.test', 'y@null.test'] }]) {
    const { body } = await dry({ to: ['x@one.test', 'y@one.test'], ...fields });
    t.strictSame(named(body.return_path), { position: 0, alone: true }, JSON.stringify(fields));
  }
  t.match(body.destinations, [
    {
      domain: 'one.test',
      recipients: ['x@one.test', 'y@one.test'],
      hosts: [
        { name: 'a.one.test', preference: 10, addresses: ['127.0.0.1'], problem: null },
        { name: 'b.one.test', preference: 20, addresses: [], problem: /SERVFAIL/ },
      ],
      problem: null,
      tls: { policy: 'opportunistic' },
    },
    { domain: 'null.test', hosts: [], problem: { permanent: true, reason: String } },
    { domain: 'lost.test', hosts: [{ name: 'gone.lost.test' }], problem: { permanent: true, reason: /no address/ } },
    { domain: 'broken.test', problem: { permanent: false, reason: /no address/ } },
    { domain: 'missing.test', hosts: [], problem: { permanent: true } },
  ]);
  t.match(body.authentication, {
    dkim: { domain: node.domain, selector: domain.dkimSelector, aligned: true, problem: null },
    spf: { domain: mailHostname, results: [{ ip: '127.0.0.1', result: 'pass' }], aligned: false },
    dmarc: { record: null, would_pass: true },
  });
  t.notMatch(body.message.raw, /hidden@/);
  const resolver = async (name: string, type: string) => (await node.zone.resolver.resolve(name, type)) as string[][];
  const { results } = await dkimVerify(Buffer.from(body.message.raw), { resolver });
  t.equal(results[0]?.status.result, 'pass', 'the message is signed as it would be sent');
  t.equal(body.message.size, Buffer.byteLength(body.message.raw));

  t.equal(
    (await dry({ to: 'x@one.test', scheduled_at: new Date(Date.now() + 60_000).toISOString() })).body.would,
    'be_scheduled',
  );
  const { body: login } = await node.call('POST', '/api/v1/auth/login', { body: node.account });
  await node.call('POST', '/api/v1/suppressions', { token: login.token, body: { address: 'x@one.test' } });
  t.match((await dry({ to: 'X@one.test' })).body, {
    would: 'be_suppressed',
    suppressed: [{ address: 'X@one.test', reason: 'manual' }],
  });

  await node.db.query({
    text: `UPDATE accounts SET plan = 'free', usage_day = (now() AT TIME ZONE 'UTC')::date, usage_day_count = 99 WHERE id = $1`,
    values: [node.account.id],
  });
  t.equal((await dry({ to: 'y@one.test' })).body.would, 'be_queued');
  t.equal((await dry({ to: 'y@one.test' })).body.would, 'be_queued', 'a dry run uses up nothing');
  await node.db.query({ text: 'UPDATE accounts SET usage_day_count = 100 WHERE id = $1', values: [node.account.id] });
  t.equal((await dry({ to: 'y@one.test' })).body.would, 'exceed_quota');

  t.match(await dry({ to: 'nonsense' }), { status: 400, body: { error: 'invalid request', detail: /^to/ } });
  t.match(await dry({ to: 'y@one.test', from: 'a@unknown.test' }), {
    status: 400,
    body: { error: 'from domain not verified' },
  });
  t.match(await dry({ to: 'y@one.test' }, node.key, 'dry_run=yes'), {
    status: 400,
    body: { detail: 'dry_run: must be one of true, false' },
  });
  const reader = await buildKey(node.db, node.account.id, { scopes: ['read'] });
  t.equal((await dry({ to: 'y@one.test' }, reader)).status, 403);

  t.same(await rows(), before, 'nothing was stored');
  t.equal(sink.connections, 0, 'no server was contacted');
});

t.test('the records of the sender are looked up as receivers do', async (t) => {
  const node = await startDirectNode(t, { zone: {}, mxPort: 1 });
  const shop = `shop.${node.domain}`;
  await buildVerifiedDomain(node.db, node.account.id, testKey(7), shop);
  const authenticationOf = async (domain: string) => {
    const fields = { from: `a@${domain}`, to: 'b@one.test', subject: 's', text: 't' };
    const { body } = await node.call('POST', '/api/v1/emails?dry_run=true', { key: node.key, body: fields });
    return body.authentication;
  };
  const recordFor = async (domain: string) => (await authenticationOf(domain)).dmarc.record;
  t.equal(await recordFor(shop), null);
  node.zone.set(`_dmarc.${node.domain}`, { TXT: ['v=DMARC1; p=reject'] });
  t.equal(await recordFor(node.domain), 'v=DMARC1; p=reject');
  t.equal(await recordFor(shop), 'v=DMARC1; p=reject', 'that of the organisation, if the domain has none');
  node.zone.set(`_dmarc.${shop}`, { TXT: ['v=DMARC1; p=none', 'v=DMARC10; p=reject'] });
  t.equal(await recordFor(shop), 'v=DMARC1; p=none');
  node.zone.set(`_dmarc.${shop}`, { TXT: ['v=DMARC1; p=none', 'v=DMARC1; p=reject'] });
  t.equal(await recordFor(shop), null, 'two count as none');

  // The domain was verified once, so that mail still leaves.
  const { dkimSelector, dkimPublicKey } = await node.db.prisma.domain.findFirstOrThrow({ where: { domain: shop } });
  const name = `${dkimSelector}._domainkey.${shop}`;
  const seen = async (entry: Parameters<typeof node.zone.set>[1]) => {
    node.zone.set(name, entry);
    const { dkim, dmarc } = await authenticationOf(shop);
    return [dkim.problem, dmarc.would_pass];
  };
  const record = dnsValue(dkimPublicKey);
  t.match(await seen({ A: ['127.0.0.1'] }), [/^there is no TXT record at sw/, false]);
  t.match(await seen('SERVFAIL'), [/failed temporarily/, false]);
  t.match(await seen({ TXT: [record.slice(0, -20)] }), ['the published key (p=) is not ours', false]);
  t.strictSame(await seen({ TXT: [record] }), [null, true]);
});
