import { gunzipSync } from 'node:zlib';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import t from 'tap';
import { readHeader } from '../../src/mail/headers/raw-header.ts';
import type { StsPolicy } from '../../src/smtp/policies/mta-sts.ts';
import { type PublishedPolicy, TlsPolicies } from '../../src/smtp/policies/tls-policies.ts';
import { TlsResults } from '../../src/smtp/reports/tls-results.ts';
import { buildAccount, buildVerifiedDomain } from '../support/build.ts';
import { type SinkOptions, startSink } from '../support/mx.ts';
import { startReportHost } from '../support/report-host.ts';
import type { ZoneEntry } from '../support/zone.ts';
import { addResults, contact, day, encryptionKey, keepingLog, type Scene, startScene } from './scene.ts';

type Test = Parameters<typeof startScene>[0];

/** A scene in which `a.test` wants its reports by mail, at a server of `inbox.test`. */
async function startMail(t: Test, rua = 'mailto:tls%2Drpt@inbox.test?subject=x', sinkOptions: SinkOptions = {}) {
  const sink = await startSink(sinkOptions);
  t.teardown(() => sink.close());
  const zone: Record<string, ZoneEntry> = { 'inbox.test': { MX: [[10, 'mx.test']] } };
  const scene = await startScene(t, { 'a.test': [`v=TLSRPTv1; rua=${rua}`] }, zone, sink.port);
  await addResults(scene.db, ['a.test']);
  return { sink, ...scene };
}

/** Has some account verify the domain, and publishes its key. */
async function addKey({ db, zone }: Pick<Scene, 'db' | 'zone'>, domain: string): Promise<void> {
  const { id: accountId } = await buildAccount(db);
  const { id } = await buildVerifiedDomain(db, accountId, encryptionKey, domain);
  const { dkimSelector, dkimPublicKey } = await db.prisma.domain.findFirstOrThrow({ where: { id } });
  zone.set(`${dkimSelector}._domainkey.${domain}`, { TXT: [`v=DKIM1; k=rsa; p=${dkimPublicKey}`] });
}

const verify = async (raw: Buffer, { zone }: Pick<Scene, 'zone'>) => {
  const { results } = await dkimVerify(raw, { resolver: (name, type) => zone.resolver.resolve(name, type) as never });
  return results;
};

t.test('a report by mail is a multipart/report, signed by the domain above', async (t) => {
  const scene = await startMail(t);
  await addKey(scene, 'sender.test');
  await scene.node().round();
  const [message] = scene.sink.messages;
  t.equal(scene.sink.messages.length, 1);
  t.match(message, { from: '', to: ['tls-rpt@inbox.test'] }, 'a bounce would go nowhere');
  const raw = message?.raw ?? Buffer.alloc(0);

  const [verdict, ...more] = await verify(raw, scene);
  t.equal(verdict?.status.result, 'pass');
  t.equal(verdict?.signingDomain, 'sender.test');
  t.match(verdict?.signingHeaders?.keys, /TLS-Report-Domain.*TLS-Report-Submitter/i);
  t.same(more, []);

  const { fields, body } = readHeader(raw);
  const header = new Map(
    fields.map(({ name, raw }) => [
      name.toLowerCase(),
      raw
        .toString()
        .slice(name.length + 1)
        .replace(/\s+/g, ' ')
        .trim(),
    ]),
  );
  const id = `${day}.a.test@out.sender.test`;
  t.equal(header.get('subject'), `Report Domain: a.test Submitter: out.sender.test Report-ID: <${id}>`);
  t.equal(header.get('tls-report-domain'), 'a.test');
  t.equal(header.get('tls-report-submitter'), 'out.sender.test');
  t.equal(header.get('from'), contact);
  t.equal(header.get('to'), 'tls-rpt@inbox.test');
  t.equal(header.get('auto-submitted'), 'auto-generated');
  const type = /^multipart\/report; report-type="tlsrpt"; boundary="(.+)"$/.exec(header.get('content-type') ?? '');
  const [, text, packed, end] = raw.subarray(body).toString().split(`--${type?.[1]}`);
  t.match(
    text,
    /^\r\nContent-Type: text\/plain; charset=us-ascii\r\n[\s\S]*about the mail servers of a\.test on 2026-11-21/,
  );
  t.equal(end, '--\r\n');
  const [head = '', base64 = ''] = (packed ?? '').split('\r\n\r\n');
  t.match(head, /^\r\nContent-Type: application\/tlsrpt\+gzip\r\nContent-Transfer-Encoding: base64\r\n/);
  const begin = Date.parse(`${day}T00:00:00Z`) / 1_000;
  t.match(head, `filename="out.sender.test!a.test!${begin}!${begin + 86_399}.json.gz"`);
  const json = JSON.parse(gunzipSync(Buffer.from(base64, 'base64')).toString());
  t.match(json, { 'report-id': id, 'contact-info': contact, policies: [{ policy: { 'policy-domain': 'a.test' } }] });
  t.match(await scene.tasks(), [{ uri: 'mailto:tls-rpt@inbox.test', state: 'done' }]);
  t.same(await scene.db.query({ text: 'SELECT id FROM emails' }), [], "it is in nobody's log");
});

t.test('the nearest verified domain above signs', async (t) => {
  const scene = await startMail(t);
  for (const domain of ['sender.test', 'out.sender.test', 'a.out.sender.test']) await addKey(scene, domain);
  await scene.node().round();
  const [verdict] = await verify(scene.sink.messages[0]?.raw ?? Buffer.alloc(0), scene);
  t.match(verdict, { signingDomain: 'out.sender.test', status: { result: 'pass' } });
});

t.test('a report by mail arrives whatever TLS policies say, and is not counted itself', async (t) => {
  const scene = await startMail(t);
  await addKey(scene, 'sender.test');
  const policy: StsPolicy = {
    id: '1',
    mx: ['other.test'],
    maxAgeSeconds: 1_000,
    fetchedAt: new Date(),
    mode: 'enforce',
  };
  const tlsPolicies = new TlsPolicies({ sts: { find: async () => ({ policy, problem: null }) } });
  const tlsResults = new TlsResults();
  const published: PublishedPolicy = { type: 'sts', domain: 'b.test', lines: [], mx: [], rule: null, problem: null };
  tlsResults.host(published, 'mx.b.test', { failure: 'validation-failure', reason: '' });
  await scene.node({}, { tlsPolicies, tlsResults }).round();
  t.match(scene.sink.messages, [{ tls: false }]);
  t.same(
    tlsResults.take().map(({ domain }) => domain),
    ['b.test'],
  );
});

t.test('without a key nothing goes by mail, which is logged once, and https goes on', async (t) => {
  const host = await startReportHost(t);
  const scene = await startMail(t, `mailto:a@inbox.test,${host.url},mailto:b@inbox.test`);
  await addKey(scene, 'elsewhere.test');
  const { log, lines } = keepingLog();
  const reports = scene.node({ log });
  await reports.round();
  await addResults(scene.db, ['a.test'], '2026-11-22');
  scene.clock.at = new Date('2026-11-23T06:00:00Z');
  await reports.round();
  t.equal(scene.sink.connections, 0);
  t.equal(host.posts.length, 2);
  const said = lines.filter(({ level }) => level === 'warn');
  t.match(said, [{ message: /must be signed: add and verify this domain/, fields: { submitter: 'out.sender.test' } }]);
  t.equal(said.length, 1);
  t.match(await scene.tasks(), [
    { state: 'done' },
    { state: 'done' },
    ...Array(4).fill({ state: 'failed', last_error: 'there is no DKIM key for out.sender.test' }),
  ]);
});

t.test('temporarily refused mail is retried, permanently refused mail is not', async (t) => {
  const replies = ['450 4.2.0 later', '550 5.1.1 nobody'];
  const scene = await startMail(t, undefined, { onMessage: () => replies.shift() ?? null });
  await addKey(scene, 'sender.test');
  const reports = scene.node();
  await reports.round();
  t.match(await scene.tasks(), [{ state: 'waiting', tries: 1, last_error: /later/ }]);
  scene.clock.forward(5 * 60_000);
  await reports.round();
  t.match(await scene.tasks(), [{ state: 'failed', tries: 2, last_error: /nobody/, next_try_at: null }]);
});

t.test('reports do not use up the cap of a new address', async (t) => {
  const scene = await startMail(t);
  await addKey(scene, 'sender.test');
  const fresh = { ip: '127.0.0.2', pool: 'default', firstDay: '2026-11-21' };
  const plan = [50, 100, 200];
  await scene.node({ pools: { addresses: [fresh], plan } }).round();
  t.match(await scene.tasks(), [{ state: 'waiting', last_error: /all sending addresses are in warm-up/ }]);
  t.equal(scene.sink.connections, 0);
  scene.clock.forward(5 * 60_000);
  const settled = { ip: '127.0.0.1', pool: 'other', firstDay: '2026-11-01' };
  await scene.node({ pools: { addresses: [fresh, settled], plan } }).round();
  t.equal(scene.sink.messages.length, 1);
});

t.test('internal addresses are not contacted', async (t) => {
  const host = await startReportHost(t);
  const { port } = new URL(host.url);
  const inside = [`https://127.0.0.1:${port}/`, `https://reports.test:${port}/`, 'mailto:a@inbox.test'];
  const scene = await startMail(t, inside.join(','));
  await addKey(scene, 'sender.test');
  await scene.node({}, { allowPrivate: false }).round();
  t.equal(host.connections, 0);
  t.equal(scene.sink.connections, 0);
  const tasks = await scene.tasks();
  t.match(
    tasks.map(({ uri, last_error }) => [uri, last_error]),
    [
      [inside[0], /public internet/],
      [inside[1], /public internet/],
      [inside[2], /mx\.test/],
    ],
  );
});

t.test('a node that has lost its claim meanwhile does not send', async (t) => {
  let forward = () => {};
  const scene = await startMail(t, undefined, {
    onRecipient: () => {
      forward();
      return null;
    },
  });
  forward = () => scene.clock.forward(11 * 60_000);
  await addKey(scene, 'sender.test');
  await scene.node().round();
  t.equal(scene.sink.connections, 1);
  t.equal(scene.sink.messages.length, 0);
  t.match(await scene.tasks(), [{ state: 'waiting', tries: 1 }]);
});
