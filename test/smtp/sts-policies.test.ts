import t from 'tap';
import type { StsPolicy } from '../../src/smtp/policies/mta-sts.ts';
import { fetchStsFile, type StsFetchOptions } from '../../src/smtp/policies/sts-fetch.ts';
import { StsPolicies } from '../../src/smtp/policies/sts-policies.ts';
import { createAuthority } from '../support/authority.ts';
import { type PolicyHost, policyFile, startPolicyHost } from '../support/policy-host.ts';
import { startZone, type ZoneEntry } from '../support/zone.ts';

type Test = { teardown(work: () => Promise<void>): void };

const authority = createAuthority();
const credentials = authority.issue(['mta-sts.a.test']);
const enforce = policyFile('mode: enforce', 'mx: mx.a.test', 'max_age: 1000');
const never = new AbortController().signal;

async function start(t: Test, { answer = enforce as PolicyHost['answer'], cert = credentials } = {}) {
  const zone = await startZone({
    '_mta-sts.a.test': { TXT: ['v=STSv1; id=1;'] },
    'mta-sts.a.test': { A: ['127.0.0.1'] },
  });
  t.teardown(() => zone.close());
  const host = await startPolicyHost(t, cert, answer);
  const options: StsFetchOptions = { resolver: zone.resolver, allowPrivate: true, ca: authority.cert, port: host.port };
  const stored = new Map<string, StsPolicy>();
  const clock = { now: 1_000_000 };
  const store = {
    load: async (domain: string) => stored.get(domain) ?? null,
    save: async (domain: string, policy: StsPolicy) => void stored.set(domain, policy),
  };
  const open = () =>
    new StsPolicies({
      resolver: zone.resolver,
      fetch: (domain, signal) => fetchStsFile(options, domain, signal),
      store,
      clock: { now: () => new Date(clock.now) },
    });
  const fetchOnce = (more: Partial<StsFetchOptions> = {}) => fetchStsFile({ ...options, ...more }, 'a.test', never);
  const seconds = (s: number) => {
    clock.now += s * 1_000;
  };
  return { zone, host, stored, open, fetchOnce, seconds, policies: open() };
}

t.test('a policy is fetched over HTTPS from its host, once for everybody who asks, and kept', async (t) => {
  const { policies, host, stored } = await start(t);
  const found = await Promise.all([policies.find('a.test'), policies.find('a.test'), policies.find('a.test')]);
  for (const { policy, problem } of found) {
    t.match(policy, { id: '1', mode: 'enforce', mx: ['mx.a.test'], maxAgeSeconds: 1_000 });
    t.equal(problem, null);
  }
  t.same(host.requests, [`mta-sts.a.test:${host.port} /.well-known/mta-sts.txt`]);
  t.match(stored.get('a.test'), { id: '1', mode: 'enforce' });
  t.match(await policies.find('b.test'), { policy: null, problem: null }, 'no record, no policy');
  t.equal(host.requests.length, 1);
});

t.test('the record is checked each minute, and the file fetched if its id has changed', async (t) => {
  const { policies, host, zone, seconds } = await start(t);
  await policies.find('a.test');
  zone.set('_mta-sts.a.test', { TXT: ['v=STSv1; id=2'] });
  host.answer = policyFile('mode: testing', 'mx: mx.a.test', 'max_age: 1000');
  seconds(59);
  t.match(await policies.find('a.test'), { policy: { id: '1', mode: 'enforce' } });
  seconds(2);
  t.match(await policies.find('a.test'), { policy: { id: '2', mode: 'testing' } });
  t.equal(host.requests.length, 2);
});

t.test('SMG-07: a policy outlives its record, its host and this process, until max_age is over', async (t) => {
  const { policies, host, zone, seconds, open } = await start(t);
  await policies.find('a.test');
  host.answer = (response) => response.socket?.destroy();
  const entries: (ZoneEntry | undefined)[] = [undefined, 'SERVFAIL', { TXT: ['v=STSv1; id=9'] }, { TXT: ['nothing'] }];
  for (const entry of entries) {
    zone.set('_mta-sts.a.test', entry);
    seconds(61);
    t.match(await policies.find('a.test'), { policy: { id: '1', mode: 'enforce' } }, JSON.stringify(entry));
  }
  const restarted = open();
  t.match(await restarted.find('a.test'), { policy: { id: '1', mode: 'enforce' } }, 'after a restart');
  seconds(1_000);
  t.match(await restarted.find('a.test'), { policy: null });
});

t.test('SMG-07: a policy that another node has fetched holds here if the record is hidden from this one', async (t) => {
  const { policies, zone, seconds, open } = await start(t);
  const record = { TXT: ['v=STSv1; id=1'] };
  zone.set('_mta-sts.a.test', undefined);
  t.match(await policies.find('a.test'), { policy: null });
  zone.set('_mta-sts.a.test', record);
  await open().find('a.test');
  zone.set('_mta-sts.a.test', undefined);
  seconds(61);
  t.match(await policies.find('a.test'), { policy: { id: '1', mode: 'enforce' } });
});

t.test(
  'a policy that has passed half its max_age is fetched again, and nobody waits for that',
  { timeout: 60_000 },
  async (t) => {
    const { policies, host, seconds, stored } = await start(t);
    await policies.find('a.test');
    const first = stored.get('a.test')?.fetchedAt;
    seconds(400);
    await policies.find('a.test');
    seconds(101);
    let release = () => {};
    const asked = new Promise<void>((resolve) => {
      host.answer = (response) => {
        release = () => response.writeHead(200, { 'Content-Type': 'text/plain' }).end(enforce);
        resolve();
      };
    });
    t.match(await policies.find('a.test'), { policy: { id: '1' } });
    await asked;
    t.same(stored.get('a.test')?.fetchedAt, first, 'the answer came before the file');
    release();
    while (stored.get('a.test')?.fetchedAt === first) await new Promise((resume) => setTimeout(resume, 5));
    t.equal(host.requests.length, 2, 'not before half of it was over');
    seconds(998);
    t.match(await policies.find('a.test'), { policy: { mode: 'enforce' } }, 'counted from then');
  },
);

t.test('a policy that could not be fetched is tried again after five minutes, or if its id changes', async (t) => {
  const { policies, host, zone, seconds } = await start(t, { answer: (response) => response.writeHead(404).end() });
  t.match(await policies.find('a.test'), { policy: null, problem: { failure: 'sts-policy-fetch-error' } });
  seconds(61);
  t.match(await policies.find('a.test'), { policy: null, problem: { reason: /status was 404/ } });
  t.equal(host.requests.length, 1);
  zone.set('_mta-sts.a.test', { TXT: ['v=STSv1; id=2'] });
  seconds(61);
  await policies.find('a.test');
  t.equal(host.requests.length, 2, 'another id');
  seconds(301);
  host.answer = enforce;
  t.match(await policies.find('a.test'), { policy: { id: '2' }, problem: null });
});

t.test('a clock that is set back puts off no check and no fetch', async (t) => {
  const { policies, host, zone, seconds } = await start(t, { answer: (response) => response.writeHead(404).end() });
  await policies.find('a.test');
  seconds(-86_400);
  host.answer = enforce;
  t.match(await policies.find('a.test'), { policy: { id: '1' } }, 'after a failure');
  seconds(-86_400);
  zone.set('_mta-sts.a.test', { TXT: ['v=STSv1; id=2'] });
  t.match(await policies.find('a.test'), { policy: { id: '2' } });
});

t.test('a policy with a max_age of 0 is valid for the mail it was fetched for', async (t) => {
  const answer = policyFile('mode: enforce', 'mx: mx.a.test', 'max_age: 0');
  const { policies, seconds, zone } = await start(t, { answer });
  t.match(await policies.find('a.test'), { policy: { mode: 'enforce' } });
  zone.set('_mta-sts.a.test', undefined);
  seconds(61);
  t.match(await policies.find('a.test'), { policy: null });
});

t.test('a policy that expires before its record is looked up again counts until then, for all mail', async (t) => {
  for (const maxAge of [0, 30]) {
    const answer = policyFile('mode: enforce', 'mx: mx.a.test', `max_age: ${maxAge}`);
    const { policies, seconds, host } = await start(t, { answer });
    for (const requests of [1, 2]) {
      t.match(await policies.find('a.test'), { policy: { mode: 'enforce' } });
      seconds(59);
      t.match(await policies.find('a.test'), { policy: { mode: 'enforce' } });
      t.equal(host.requests.length, requests, 'not fetched for each message');
      seconds(1);
    }
  }
});

t.test('hostile policy hosts', async (t) => {
  const { host, fetchOnce } = await start(t);
  const text = { 'Content-Type': 'text/plain' };
  const answers: Record<string, [PolicyHost['answer'], failure: string, reason: RegExp]> = {
    'a redirect': [(r) => r.writeHead(302, { Location: '/x' }).end(enforce), 'sts-policy-fetch-error', /302.*redirect/],
    'an error': [(r) => r.writeHead(500, text).end(enforce), 'sts-policy-fetch-error', /500/],
    'another type': [
      (r) => r.writeHead(200, { 'Content-Type': 'text/html' }).end(enforce),
      'sts-policy-invalid',
      /type/,
    ],
    'no type': [(r) => r.writeHead(200).end(enforce), 'sts-policy-invalid', /type/],
    compressed: [
      (r) => r.writeHead(200, { ...text, 'Content-Encoding': 'gzip' }).end(enforce),
      'sts-policy-invalid',
      /compressed/,
    ],
    endless: [(r) => r.writeHead(200, text).end(enforce.repeat(2_000)), 'sts-policy-invalid', /64 kB/],
    'half of it': [
      (r) => r.writeHead(200, { ...text, 'Content-Length': '5000' }).write(enforce, () => r.socket?.destroy()),
      'sts-policy-fetch-error',
      /closed/,
    ],
    nothing: [(r) => r.socket?.destroy(), 'sts-policy-fetch-error', /closed/],
    'not a policy': ['hello', 'sts-policy-invalid', /line/],
  };
  for (const [name, [answer, failure, reason]] of Object.entries(answers)) {
    host.answer = answer;
    t.match(await fetchOnce(), { failure, reason }, name);
  }
  host.answer = (r) => r.writeHead(200, { ...text, 'Content-Encoding': 'Identity' }).end(enforce);
  t.match(await fetchOnce(), { mode: 'enforce' }, 'names of codings are the same in any case');
  host.answer = (response) => response.writeHead(200, text).write('version: STSv1\n');
  t.match(await fetchOnce({ timeoutMs: 150 }), { failure: 'sts-policy-fetch-error', reason: /within 0.15 seconds/ });
});

t.test('a policy host must prove its identity', async (t) => {
  const expired = authority.issue(['mta-sts.a.test'], { to: new Date(Date.now() - 1_000) });
  const certificates = {
    'of another name': authority.issue(['www.a.test']),
    'of a stranger': createAuthority('Stranger').issue(['mta-sts.a.test']),
    'that has expired': expired,
  };
  for (const [name, cert] of Object.entries(certificates)) {
    const { fetchOnce, host } = await start(t, { cert });
    t.match(await fetchOnce(), { failure: 'sts-webpki-invalid', reason: /certificate is not valid/ }, name);
    t.same(host.requests, [], 'it was not even called');
  }
});

t.test('SSRF-03: a policy host at a private address is not called', async (t) => {
  const { fetchOnce, host, zone } = await start(t);
  t.match(await fetchOnce({ allowPrivate: false }), { failure: 'sts-policy-fetch-error', reason: /public internet/ });
  for (const address of ['10.0.0.1', '169.254.169.254', '192.168.1.1']) {
    zone.set('mta-sts.a.test', { A: [address] });
    t.match(await fetchOnce({ allowPrivate: false }), { reason: /public internet/ }, address);
  }
  t.same(host.requests, []);
});

t.test('if nobody can tell whether there is a policy, that is an error and not "none"', async (t) => {
  const { zone } = await start(t);
  const store = { load: () => Promise.reject(new Error('away')), save: async () => {} };
  const policies = new StsPolicies({
    resolver: zone.resolver,
    fetch: async () => ({ failure: 'sts-policy-fetch-error', reason: 'no' }),
    store,
  });
  await t.rejects(policies.find('a.test'), { message: 'away' });
});

t.test('the number of cached domains is bounded', async (t) => {
  const { zone } = await start(t);
  const loads: string[] = [];
  const load = async (domain: string) => {
    loads.push(domain);
    return null;
  };
  const store = { load, save: async () => {} };
  const fetch = async () => ({ failure: 'sts-policy-fetch-error' as const, reason: 'no' });
  const policies = new StsPolicies({ resolver: zone.resolver, fetch, store, maxEntries: 2 });
  for (const domain of ['x.test', 'y.test', 'z.test', 'z.test', 'x.test']) await policies.find(domain);
  t.same(loads, ['x.test', 'y.test', 'z.test', 'x.test'], 'the oldest was forgotten, the newest was not');
});
