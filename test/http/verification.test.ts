import t, { type Test } from 'tap';
import { verify } from '../../src/core/domains/verification.ts';
import { buildKey } from '../support/build.ts';
import { mailHostname, startDirectNode } from '../support/direct.ts';
import { eventually } from '../support/node.ts';
import type { ZoneEntry } from '../support/zone.ts';
import { manageDomains } from './scene.ts';

type Records = Record<'verification' | 'dkim' | 'spf', { name: string; value: string }>;

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

async function startVerifying(t: Test) {
  const node = await startDirectNode(t, {
    zone: { [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] } },
    mxPort: 1,
  });
  const set = (name: string, entry: ZoneEntry | string | string[] | undefined) =>
    node.zone.set(
      name,
      typeof entry === 'string' && !/^[A-Z]+$/.test(entry)
        ? { TXT: [entry] }
        : Array.isArray(entry)
          ? { TXT: entry }
          : (entry as ZoneEntry),
    );
  const publish = (records: Records) => {
    for (const { name, value } of Object.values(records)) set(name, value);
  };
  const register = async (domain: string) => {
    const { call, id: accountId } = await manageDomains(node);
    const { body } = await call('POST', '', { domain });
    const id: string = body.domain.id;
    return {
      id,
      accountId,
      domain,
      records: body.dns_records as Records,
      selector: body.domain.dkim_selector as string,
      verify: () => call('POST', `/${id}/verify`),
      lookUp: () => call('GET', `/${id}?checks=true`),
      read: async () => (await call('GET', `/${id}`)).body.domain,
    };
  };
  return { node, set, publish, register };
}

t.test('a record whose name got the domain twice is found there, and what to enter instead is said', async (t) => {
  const { set, register } = await startVerifying(t);
  const shop = await register('shop.test');
  const news = await register('news.mango.test');
  const add = (records: Records, zone: string) => {
    for (const { name, value } of Object.values(records)) set(`${name}.${zone}`, value);
  };
  const found = async ({ verify, selector }: typeof shop) => {
    const { checks } = (await verify()).body;
    const problems = Object.values(checks as Record<string, { problem: string }>).map(({ problem }) => problem);
    return problems.map((problem) => problem.replaceAll(selector, 'sw1'));
  };
  const words = (name: string, zone: string, enter: string) =>
    `there is no TXT record at ${name}, but it is at ${name}.${zone}: your DNS provider appends ${zone} to what you enter, so enter ${enter} as the name`;
  add(shop.records, 'shop.test');
  t.strictSame(await found(shop), [
    words('_sendwright.shop.test', 'shop.test', '_sendwright'),
    words('sw1._domainkey.shop.test', 'shop.test', 'sw1._domainkey'),
    words('shop.test', 'shop.test', '@'),
  ]);

  add(news.records, 'mango.test');
  t.strictSame(await found(news), [
    words('_sendwright.news.mango.test', 'mango.test', '_sendwright.news'),
    words('sw1._domainkey.news.mango.test', 'mango.test', 'sw1._domainkey.news'),
    words('news.mango.test', 'mango.test', 'news'),
  ]);

  for (const entry of ['another record', 'SERVFAIL', undefined]) {
    set('_sendwright.shop.test.shop.test', entry);
    t.match((await found(shop))[0], /^there is no TXT record at _sendwright\.shop\.test; /, String(entry));
  }
});

t.test('verifying checks each of the three records', async (t) => {
  const { set, publish, register } = await startVerifying(t);
  const shop = await register('shop.test');
  const { verification, dkim, spf } = shop.records;
  const all = await shop.verify();
  t.match(
    [all.status, all.body],
    [400, { error: 'dns verification failed', missing: ['verification', 'dkim', 'spf'] }],
  );
  t.strictSame(Object.keys(all.body), ['error', 'detail', 'missing', 'checks']);
  t.match(all.body.detail, /^verification: there is no TXT record at _sendwright\.shop\.test.*; dkim: .*; spf: /);

  const otherKey = (await register('other.test')).records.dkim.value;
  const lookUps = Array.from({ length: 11 }, (_, n) => `include:i${n}.test`).join(' ');
  for (let n = 0; n < 11; n += 1) set(`i${n}.test`, 'v=spf1 ip4:192.0.2.9 -all');
  set('outer.test', `v=spf1 include:${mailHostname} -all`);
  set('a.shop.test', { A: ['127.0.0.1'] });
  set('broken.test', 'SERVFAIL');
  set('loop.test', 'v=spf1 include:loop.test -all');
  const include = `include:${mailHostname}`;
  const cases: [
    missing: keyof Records | null,
    entry: Parameters<typeof set>[1],
    problem: RegExp,
    of?: keyof Records,
  ][] = [
    ['verification', undefined, /^there is no TXT record at _sendwright\.shop\.test; .*48 hours/],
    ['verification', { A: ['127.0.0.1'] }, /^there is no TXT record/],
    ['verification', 'SERVFAIL', /^the lookup of _sendwright\.shop\.test failed temporarily \(ESERVFAIL\): try again$/],
    ['verification', 'REFUSED', /^the lookup .* failed temporarily/],
    ['verification', verification.value.slice(0, -1), /none of the TXT records found there has the expected value/],
    ['verification', verification.value.toUpperCase(), /none of the TXT records found there has the expected value/],
    ['verification', `"${verification.value}"`, /none of the TXT records found there has the expected value/],
    [null, ['another-verification=1', verification.value, ''], /./, 'verification'],
    ['dkim', undefined, /^there is no TXT record at sw[0-9a-f]{8}\._domainkey\.shop\.test/],
    ['dkim', 'SERVFAIL', /failed temporarily/],
    ['dkim', 'something else', /^none of the TXT records found there is a DKIM key$/],
    ['dkim', otherKey, /^the published key \(p=\) is not ours$/],
    ['dkim', 'v=DKIM1; k=rsa; p=', /^the published key \(p=\) is not ours$/],
    ['dkim', dkim.value.slice(0, -20), /^the published key \(p=\) is not ours$/],
    ['dkim', [dkim.value, otherKey], /^there is more than one DKIM key/],
    ['dkim', dkim.value.replace('k=rsa', 'k=ed25519'), /does not verify against the published record/],
    ['dkim', dkim.value.replace('k=rsa', 'k=rsa; h=sha1'), /does not verify against the published record/],
    [null, dkim.value.replaceAll('; ', ';').replace('p=', 'p= '), /./, 'dkim'],
    [null, [dkim.value, 'something else'], /./, 'dkim'],
    [
      'dkim',
      ['something else', dkim.value],
      /does not verify against .*: there are other TXT records at this name, so remove them$/,
    ],
    ['spf', undefined, /^there is no TXT record at shop\.test/],
    ['spf', 'SERVFAIL', /failed temporarily/],
    ['spf', ['v=spf10 include:x', 'text'], /^none of the TXT records found there is an SPF policy$/],
    ['spf', [spf.value, 'v=spf1 -all'], /^there is more than one SPF policy/],
    ...[
      'v=spf1 -all',
      'v=spf1 ~all',
      'v=spf1 ?all',
      'v=spf1',
      'v=spf1 ip4:127.0.0.2 -all',
      `v=spf1 -all ${include}`,
      `v=spf1 -${include} ?all`,
    ].map((value): (typeof cases)[number] => [
      'spf',
      value,
      new RegExp(`^the policy answers \\w+ for 127\\.0\\.0\\.1: add ${include} to it, before its "all"$`),
    ]),
    ...[
      `v=spf1 ${lookUps} ${include} -all`,
      'v=spf1 include:nowhere.test -all',
      'v=spf1 nonsense:x -all',
      'v=spf1 include:loop.test -all',
    ].map((value): (typeof cases)[number] => ['spf', value, /^receivers cannot evaluate the policy \(.+\)/]),
    ['spf', 'v=spf1 include:broken.test -all', /^a lookup of the policy failed temporarily \(.*\): try again$/],
    ...[
      spf.value,
      `V=SPF1 ${include} -all`,
      'v=spf1 include:outer.test ~all',
      'v=spf1 redirect=outer.test',
      'v=spf1 ip4:127.0.0.0/8 -all',
      'v=spf1 a:a.shop.test -all',
      `v=spf1 ip4:192.0.2.1 ${include} ~all`,
    ].map((value): (typeof cases)[number] => [null, ['unrelated', value], /./, 'spf']),
  ];
  const times = new Set<string>();
  for (const [missing, entry, problem, of = missing] of cases) {
    const what = `${of} ${JSON.stringify(entry ?? null).slice(0, 90)}`;
    publish(shop.records);
    set(shop.records[of ?? 'spf'].name, entry);
    const { status: known } = await shop.read();
    const looked = (await shop.lookUp()).body;
    const { status, body } = await shop.verify();
    t.strictSame([looked.domain.status, looked.checks], [known, body.checks], `${what}: looking finds the same`);
    if (missing === null) {
      t.match([status, body.domain?.status], [200, 'verified'], `${what} ${body.detail}`);
      t.match([body.domain.verified_at, body.domain.dns_warning], [instant, null]);
      t.strictSame(body.dns_records, shop.records);
      times.add(body.domain.verified_at);
    } else {
      const before = await shop.read();
      t.strictSame([status, body.error, body.missing], [400, 'dns verification failed', [missing]], what);
      t.match(body.checks[missing].problem, problem, what);
      t.equal(body.detail, `${missing}: ${body.checks[missing].problem}`, what);
      t.strictSame(await shop.read(), before);
    }
    for (const [name, check] of Object.entries(body.checks as Record<keyof Records, object>)) {
      const { value, ...expected } = shop.records[name as keyof Records];
      t.match(check, { ok: name !== missing, ...expected, type: 'TXT', expected: value }, what);
      t.strictSame(Object.keys(check), ['ok', 'name', 'type', 'expected', 'found', 'problem'], what);
    }
    if (Array.isArray(entry) && of === 'verification') t.strictSame(body.checks.verification.found, entry);
  }
  const { status, verified_at: since, created_at: made } = await shop.read();
  t.equal(status, 'verified');
  t.strictSame([...times], [since], 'it says when it was verified first');
  t.ok(since > made);

  const hostile = [
    '\x1b[31mred\x07',
    'a\r\nX-Evil: 1',
    'nul\0nul',
    '<script>alert(1)</script>',
    '\u202eabc',
    'x'.repeat(255),
    ...Array.from({ length: 30 }, (_, n) => `text ${n}`),
  ];
  set(verification.name, hostile);
  const { body } = await shop.verify();
  t.equal(body.checks.verification.found.length, 20);
  for (const text of body.checks.verification.found) t.match(text, /^[^\u0000-\u001f\u007f-\u009f]{0,500}$/);
  t.notMatch(body.detail, /Evil|script/);
});

t.test('only one account holds a name, as long as it publishes its record: SSRF-13', async (t) => {
  const { node, set, publish, register } = await startVerifying(t);
  const [first, second] = [await register('shared.test'), await register('shared.test')];
  const both = [first.records.verification.value, second.records.verification.value];
  publish({ ...first.records, dkim: second.records.dkim });
  publish(first.records);
  t.equal((await first.verify()).status, 200);
  publish(second.records);
  set(first.records.verification.name, both);
  const refused = await second.verify();
  t.match(
    [refused.status, refused.body],
    [
      400,
      {
        error: 'dns verification failed',
        missing: ['verification'],
        detail: /^verification: another account has this domain verified/,
      },
    ],
  );
  t.strictSame(Object.keys(refused.body.checks), ['verification', 'dkim', 'spf']);

  // The record is not gone just because a name server fails to answer at that moment.
  let asked = 0;
  const resolve = async (name: string, type: string) => {
    if (name === first.records.verification.name) asked += 1;
    if (asked > 1 && name === first.records.verification.name)
      throw Object.assign(new Error('x'), { code: 'ESERVFAIL' });
    return node.surroundings.resolve(name, type);
  };
  const unsure = verify(node.db, second.accountId, second.id, { ...node.surroundings, resolve });
  await t.rejects(unsure, new Error('dns verification failed'));
  t.strictSame([(await first.read()).status, (await second.read()).status, asked], ['verified', 'pending', 2]);

  const key = await buildKey(node.db, first.accountId);
  const send = () =>
    node.call('POST', '/api/v1/emails', {
      key,
      body: { from: 'a@shared.test', to: 'a@b.test', subject: 's', text: 't' },
    });
  t.equal((await send()).status, 200);
  publish(second.records);
  t.equal((await second.verify()).body.domain?.status, 'verified');
  t.match(await first.read(), {
    status: 'pending',
    verified_at: null,
    dns_warning: 'another account has verified this domain',
  });
  t.equal((await send()).body.error, 'from domain not verified');

  const many = await Promise.all(Array.from({ length: 6 }, () => register('race.test')));
  for (const { records } of many) publish(records);
  set(
    '_sendwright.race.test',
    many.map(({ records }) => records.verification.value),
  );
  const answers = await Promise.all(many.map(({ verify }) => verify()));
  t.strictSame(
    answers.map((answer) => answer.status).sort(),
    [200, ...Array(5).fill(400)],
    'of several at once, one gets it and the others are told',
  );
  const holders = await node.db.prisma.domain.count({ where: { domain: 'race.test', status: 'verified' } });
  t.equal(holders, 1);
});

t.test('the other reads of an account do not wait while it looks records up', async (t) => {
  const { node } = await startVerifying(t);
  const { call } = await manageDomains(node);
  /** Whether a read was answered while as many look-ups as an account has turns were waiting for a slow name server. */
  const isAnswered = async (round: number) => {
    const names = ['a', 'b', 'c'].map((name) => `${name}${round}.test`);
    const ids: string[] = [];
    for (const domain of names) ids.push((await call('POST', '', { domain })).body.domain.id);
    node.zone.delay(3_000);
    let ended = 0;
    const lookUps = ids.map((id) => call('GET', `/${id}?checks=true`).finally(() => (ended += 1)));
    await eventually(async () => names.every((name) => node.zone.queries.includes(`txt _sendwright.${name}`)));
    t.equal((await call('GET', '')).status, 200);
    const isMeanwhile = ended === 0;
    node.zone.delay(0);
    for (const { status, body } of await Promise.all(lookUps))
      t.match([status, Object.keys(body.checks)], [200, ['verification', 'dkim', 'spf']]);
    return isMeanwhile;
  };
  let isMeanwhile = false;
  // A machine that stalls for seconds shows nothing.
  for (let round = 0; round < 5 && !isMeanwhile; round += 1) isMeanwhile = await isAnswered(round);
  t.ok(isMeanwhile);
});
