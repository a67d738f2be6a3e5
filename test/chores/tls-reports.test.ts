import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import t from 'tap';
import * as hold from '../../src/core/operations/hold.ts';
import { claim } from '../../src/core/tls/tls-reports.ts';
import { forgetOld, record } from '../../src/core/tls/tls-results.ts';
import { deliver } from '../../src/smtp/deliver.ts';
import type { StsPolicy } from '../../src/smtp/policies/mta-sts.ts';
import { TlsPolicies } from '../../src/smtp/policies/tls-policies.ts';
import { TlsResults } from '../../src/smtp/reports/tls-results.ts';
import { createTransport } from '../../src/smtp/transport.ts';
import { startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import { startReportHost } from '../support/report-host.ts';
import { addResults, contact, day, keepingLog, startScene } from './scene.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const never = (): never => {
  throw new Error('no question is expected');
};

t.test(
  'a domain that asks for it gets a report by https of what its servers did, counted from real deliveries',
  async (t) => {
    const host = await startReportHost(t, 201);
    const sink = await startSink({ tls: true });
    t.teardown(() => sink.close());
    const { db, zone, node, tasks } = await startScene(
      t,
      { 'asks.test': [`v=TLSRPTv1; rua=${host.url}in?x=1`] },
      {
        'asks.test': { MX: [[10, 'mx.test']] },
        'silent.test': { MX: [[10, 'mx.test']] },
      },
      sink.port,
    );
    const policy: StsPolicy = {
      id: '1',
      mx: ['mx.test'],
      maxAgeSeconds: 1_000,
      fetchedAt: new Date(),
      mode: 'enforce',
    };
    const counted = new TlsResults();
    for (const sts of [null, { find: async () => ({ policy, problem: null }) }]) {
      const transport = createTransport({
        ehloName: 'out.sender.test',
        resolver: zone.resolver,
        mxPort: sink.port,
        allowPrivate: true,
        tlsPolicies: new TlsPolicies({ sts }),
        tlsResults: counted,
        pool: { maxIdle: 0 },
      });
      t.teardown(() => transport.close());
      for (const destination of ['asks.test', 'asks.test', 'silent.test']) {
        const envelope = { from: 'a@sender.test', recipients: [`b@${destination}`], smtpUtf8: false };
        await deliver(transport, {
          destination,
          envelope,
          message: [Buffer.from('A: b\r\n\r\n')],
          beforeDot: () => true,
        });
      }
    }
    t.equal(sink.messages.length, 3, 'a policy that the self-signed certificate does not match held the others back');
    await record(db, counted, new Date(`${day}T12:00:00Z`));

    const { log, lines } = keepingLog();
    const reports = node({ log });
    await reports.round();
    const { method, path, headers, json } = host.posts[0] ?? never();
    t.match([method, path], ['POST', '/in?x=1']);
    t.match(headers, { 'content-type': 'application/tlsrpt+gzip', host: new URL(host.url).host });
    t.notOk('transfer-encoding' in headers);
    t.same(json, {
      'organization-name': 'out.sender.test',
      'date-range': { 'start-datetime': '2026-11-21T00:00:00Z', 'end-datetime': '2026-11-21T23:59:59Z' },
      'contact-info': contact,
      'report-id': '2026-11-21.asks.test@out.sender.test',
      policies: [
        {
          policy: { 'policy-type': 'no-policy-found', 'policy-domain': 'asks.test' },
          summary: { 'total-successful-session-count': 2, 'total-failure-session-count': 0 },
        },
        {
          policy: {
            'policy-type': 'sts',
            'policy-string': ['version: STSv1', 'mode: enforce', 'mx: mx.test', 'max_age: 1000'],
            'policy-domain': 'asks.test',
            'mx-host': ['mx.test'],
          },
          summary: { 'total-successful-session-count': 0, 'total-failure-session-count': 2 },
          'failure-details': [
            {
              'result-type': 'certificate-not-trusted',
              'receiving-mx-hostname': 'mx.test',
              'receiving-ip': '127.0.0.1',
              'failed-session-count': 2,
              'failure-reason-code': json.policies[1]['failure-details'][0]['failure-reason-code'],
            },
          ],
        },
      ],
    });
    t.match(json.policies[1]['failure-details'][0]['failure-reason-code'], /no trusted authority/);
    t.match(await tasks(), [{ domain: 'asks.test', state: 'done', tries: 1, next_try_at: null, last_error: null }]);
    t.same(
      lines.map(({ level, message }) => [level, message]),
      [['info', 'a TLS report was sent']],
    );

    await reports.round();
    await node().round();
    t.equal(host.posts.length, 1, 'once');
    t.equal(zone.queries.filter((query) => query === 'txt _smtp._tls.asks.test').length, 1);
  },
);

t.test('days that were not reported are reported later, today not yet', async (t) => {
  const host = await startReportHost(t);
  const { db, clock, node } = await startScene(t, { 'a.test': [`v=TLSRPTv1;rua=${host.url}`] });
  for (const on of ['2026-11-07', '2026-11-08', '2026-11-20', day, '2026-11-22']) await addResults(db, ['a.test'], on);
  const reports = node();
  const days = () => host.posts.map(({ json }) => json['date-range']['start-datetime'].slice(0, 10)).sort();
  await reports.round();
  t.same(days(), ['2026-11-08', '2026-11-20', day], 'as far back as results are kept');
  clock.at = new Date('2026-11-23T00:04:00Z');
  await reports.round();
  t.equal(host.posts.length, 3, 'another node may still have results to record');
  clock.at = new Date('2026-11-23T00:06:00Z');
  await reports.round();
  t.same(days().at(-1), '2026-11-22');

  clock.at = new Date('2026-12-20T06:00:00Z');
  await forgetOld(db, clock.at);
  t.same(await db.query({ text: 'SELECT 1 FROM tls_results UNION ALL SELECT 1 FROM tls_reports' }), []);
});

t.test('several nodes at once send each report once', async (t) => {
  const host = await startReportHost(t);
  const domains = Array.from({ length: 25 }, (_, at) => `d${at}.test`);
  const record = `v=TLSRPTv1; rua=${host.url}, ${host.url}second`;
  const { db, node, tasks } = await startScene(t, Object.fromEntries(domains.map((each) => [each, [record]])));
  await addResults(db, domains);
  await Promise.all([node(), node(), node()].map((reports) => reports.round()));
  const got = host.posts.map(({ path, json }) => `${path} ${json['report-id']}`);
  t.equal(got.length, 50);
  t.equal(new Set(got).size, 50, 'to each of the places');
  t.ok((await tasks()).every(({ state, tries }) => state === 'done' && tries === 1));
});

t.test('a silent place, or a silent name server, holds up no other report', async (t) => {
  const host = await startReportHost(t);
  const open = new Set<Socket>();
  const silent = createServer((socket) => void open.add(socket.on('error', () => {})));
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.teardown(async () => {
    for (const socket of open) socket.destroy();
    silent.close();
    await once(silent, 'close');
  });
  const domains = Array.from({ length: 25 }, (_, at) => `d${at}.test`);
  const record = `v=TLSRPTv1; rua=${host.url}`;
  const { db, zone, clock, node, tasks } = await startScene(
    t,
    Object.fromEntries(domains.map((each) => [each, [record]])),
  );
  await addResults(db, [...domains, 'silent.test', 'unnamed.test']);
  await db.query({
    text: `INSERT INTO tls_reports (day, domain, uri, next_try_at)
           VALUES ($1, 'silent.test', $2, $3::timestamptz - interval '1 minute'), ($1, 'unnamed.test', '', $3::timestamptz - interval '1 minute')`,
    values: [day, `https://reports.test:${(silent.address() as AddressInfo).port}/`, clock.now()],
  });
  const answered = Promise.withResolvers<void>();
  const resolveTxt = async (name: string) => {
    if (name.endsWith('unnamed.test')) await answered.promise;
    return zone.resolver.resolveTxt(name);
  };
  const reports = node({}, { resolver: { ...zone.resolver, resolveTxt } });
  const round = reports.round();
  await eventually(async () => (await tasks()).filter(({ state }) => state === 'done').length === 25);
  t.match(
    (await tasks()).filter(({ domain }) => domain === 'silent.test'),
    [{ state: 'waiting', tries: 1, last_error: null }],
    'it is still waiting for one',
  );
  answered.resolve();
  for (const socket of open) socket.destroy();
  await round;
  t.match(
    (await tasks()).filter(({ domain }) => domain === 'silent.test'),
    [{ state: 'waiting', last_error: String }],
  );
});

t.test('a report claimed by a node that died is sent when its claim expires', async (t) => {
  const host = await startReportHost(t, 500);
  const { db, clock, node } = await startScene(t, { 'a.test': [`v=TLSRPTv1; rua=${host.url}`] });
  await addResults(db, ['a.test']);
  const reports = node();
  await reports.round();
  host.status = 200;
  clock.forward(5 * minuteMs);
  t.equal((await claim(db, 'sending', 10, clock.now())).length, 1, 'a node claims it and dies');
  clock.forward(9 * minuteMs);
  await reports.round();
  t.equal(host.posts.length, 1);
  clock.forward(2 * minuteMs);
  await reports.round();
  t.equal(host.posts.length, 2);
});

t.test('a refused report is retried at growing intervals, and given up after a day', async (t) => {
  const host = await startReportHost(t, 500);
  const { db, clock, node, tasks } = await startScene(t, { 'bad.test': [`v=TLSRPTv1; rua=${host.url}`] });
  await addResults(db, ['bad.test']);
  const { log, lines } = keepingLog();
  const reports = node({ log });
  const next = async () => (await tasks())[0]?.next_try_at?.getTime() ?? null;
  const pauses: number[] = [];
  for (const status of [500, 404, 302, 500, 500, 500, 500, 500, 503]) {
    host.status = status;
    await reports.round();
    const [task] = await tasks();
    t.equal(task?.last_error, `the status was ${status}, not 2xx`);
    t.equal(host.posts.length, task?.tries);
    const at = await next();
    if (at === null) break;
    pauses.push((at - clock.at.getTime()) / minuteMs);
    clock.at = new Date(at - 1);
    await reports.round();
    t.equal(host.posts.length, task?.tries, 'not before its time');
    clock.forward(1);
  }
  t.same(pauses, [5, 10, 20, 40, 80, 160, 320, 640]);
  const [task] = await tasks();
  t.match(task, { state: 'failed', tries: 9 });
  t.equal(host.posts.length, 9);
  t.same(
    new Set(host.posts.map(({ json }) => JSON.stringify(json))).size,
    1,
    'the same report each time, under the same id',
  );
  t.match(lines.at(-1), { level: 'warn', message: 'a TLS report could not be sent; giving up' });
  clock.forward(24 * hourMs);
  await reports.round();
  t.equal(host.posts.length, 9);
});

t.test('no report is sent while the service is on hold, nor is its place looked up', async (t) => {
  const host = await startReportHost(t, 201);
  const { db, zone, clock, node, tasks } = await startScene(t, { 'a.test': [`v=TLSRPTv1; rua=${host.url}a`] });
  await addResults(db, ['a.test']);
  await hold.begin(db);
  const reports = node();
  await reports.round();
  t.strictSame([host.posts.length, zone.queries.length, await tasks()], [0, 0, []]);
  await db.query({ text: 'DELETE FROM service_hold' });
  clock.forward(hourMs);
  await reports.round();
  t.equal(host.posts.length, 1);
  t.match(await tasks(), [{ state: 'done', tries: 1 }]);
});
