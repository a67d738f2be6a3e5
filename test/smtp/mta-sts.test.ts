import t from 'tap';
import { expiresAt, namesHost, readStsFile, readStsId } from '../../src/smtp/policies/mta-sts.ts';

t.test('the id of a TXT record', async (t) => {
  const found: [records: string[], id: string | null][] = [
    [['v=STSv1; id=20261121T090000;'], '20261121T090000'],
    [['v=STSv1;id=a'], 'a'],
    [['v=STSv1 ; x=y; id=7 ;'], '7'],
    [['v=spf1 -all', 'v=STSv1; id=1'], '1'],
    [[], null],
    [['v=STSv1'], null],
    [['v=STSv1;'], null],
    [['v=STSv1; id='], null],
    [['v=STSv1; id=a-b'], null],
    [[`v=STSv1; id=${'a'.repeat(33)}`], null],
    [['v=STSv10; id=1'], null],
    [['id=1; v=STSv1'], null],
    [['v=STSv1; id=1', 'v=STSv1; id=2'], null],
  ];
  for (const [records, id] of found) t.equal(readStsId(records), id, JSON.stringify(records));
});

t.test('a policy file', async (t) => {
  const enforced = { mode: 'enforce', mx: ['mx.a.test', '*.b.test'], maxAgeSeconds: 604_800 };
  const text = 'version: STSv1\r\nmode: enforce\r\nmx: mx.a.test\r\nmx: *.B.test\r\nmax_age: 604800\r\n';
  t.same(readStsFile(text), enforced);
  t.same(readStsFile(text.replaceAll('\r\n', '\n').trimEnd()), enforced, 'whatever the line ends are');
  t.same(readStsFile(`${text}later: 1\n\nmode: none\nmax_age: 1\n`), enforced, 'the first one counts');
  t.same(readStsFile('version: STSv1\nmode: none\nmax_age: 0\n'), { mode: 'none', mx: [], maxAgeSeconds: 0 });
  t.match(readStsFile(text.replace('604800', '9999999999')), { maxAgeSeconds: 31_557_600 }, 'at most a year');
});

t.test('what is not a policy file', async (t) => {
  const policy = { version: 'STSv1', mode: 'enforce', mx: 'mx.a.test', max_age: '86400' };
  const write = (fields: Record<string, string>) =>
    Object.entries({ ...policy, ...fields })
      .map(([name, value]) => `${name}: ${value}`)
      .join('\n');
  t.match(readStsFile(write({})), { mode: 'enforce' });
  const hostile: [text: string, reason: RegExp][] = [
    ['', /version/],
    [write({ version: 'STSv2' }), /version/],
    [write({ mode: 'Enforce' }), /mode/],
    [write({ mode: '' }), /mode/],
    [write({ max_age: '-1' }), /max_age/],
    [write({ max_age: '1e6' }), /max_age/],
    [write({ max_age: '12345678901' }), /max_age/],
    [write({ mx: '' }), /mx/],
    [write({ mx: '*' }), /mx/],
    [write({ mx: '*.*.a.test' }), /mx/],
    [write({ mx: 'mx.*.test' }), /mx/],
    [write({ mx: '.a.test' }), /mx/],
    [write({ mx: 'a test' }), /mx/],
    [write({ mx: 'ä.test' }), /mx/],
    [write({ mx: `${'a.'.repeat(150)}test` }), /mx/],
    ['version: STSv1\nmode: testing\nmax_age: 1', /no mx/],
    [write({}) + '\nmx: b.test'.repeat(200), /more than 200/],
    [`${write({})}\n<html>`, /line/],
    [`${write({})}\nx: a\u0000b`, /line/],
    ['<!doctype html><title>Not found</title>', /line/],
  ];
  for (const [text, reason] of hostile) t.throws(() => readStsFile(text), { message: reason }, text.slice(0, 60));
  t.throws(() => readStsFile(`a:${' '.repeat(60_000)}\u0001`), { message: /line/ }, 'and fast');
});

t.test('which hosts a policy names', async (t) => {
  const policy = { mx: ['mail.a.test', '*.b.test'] };
  for (const host of ['mail.a.test', 'MAIL.A.TEST', 'mail.a.test.', 'mx.b.test']) t.ok(namesHost(policy, host), host);
  for (const host of ['a.test', 'x.mail.a.test', 'b.test', 'x.y.b.test', 'xb.test', 'mail.a.test.evil.test', 'test'])
    t.notOk(namesHost(policy, host), host);
});

t.test('max_age counts from the time it was fetched', async (t) => {
  const policy = { id: '1', mode: 'enforce', mx: [], maxAgeSeconds: 60, fetchedAt: new Date(1_000) } as const;
  t.equal(expiresAt({ ...policy, mx: [] }).getTime(), 61_000);
});
