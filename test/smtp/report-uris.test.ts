import t from 'tap';
import { findReportUris, parseReportUri, readReportUris } from '../../src/smtp/reports/report-uris.ts';
import { startZone } from '../support/zone.ts';

const long = (length: number) => `https://a.test/${'x'.repeat(length - 'https://a.test/'.length)}`;

t.test('RFC 8460 section 3: where reports go', async (t) => {
  const wanted: [record: string, uris: string[]][] = [
    ['v=TLSRPTv1;rua=mailto:reports@example.com', ['mailto:reports@example.com']],
    ['v=TLSRPTv1; rua=https://reporting.example.com/v1/tlsrpt', ['https://reporting.example.com/v1/tlsrpt']],
    ['v=TLSRPTv1 ;\trua=mailto:a@b.test , https://c.test;', ['mailto:a@b.test', 'https://c.test/']],
    ['v=TLSRPTv1; ext-1=mailto:c@d.test; rua=mailto:a@b.test', ['mailto:a@b.test']],
    [
      'v=TLSRPTv1; rua=MAILTO:Ann%2Bx@B.Test?subject=no,HTTPS://C.Test/P#f',
      ['mailto:Ann%2Bx@b.test', 'https://c.test/P'],
    ],
    ['v=TLSRPTv1; rua=mailto:a@b.test,mailto:a@b.test?x', ['mailto:a@b.test']],
    ['v=TLSRPTv1; rua=https://a.test/%21%3B%2C', ['https://a.test/%21%3B%2C']],
    ['v=TLSRPTv1; rua=http://a.test/,ftp://a.test,mailto:a@b.test', ['mailto:a@b.test']],
    [
      'v=TLSRPTv1; rua=https://1.test,https://2.test,https://3.test,https://4.test,https://5.test',
      ['1', '2', '3', '4'].map((n) => `https://${n}.test/`),
    ],
    [`v=TLSRPTv1; rua=${long(1_000)}`, [long(1_000)]],
  ];
  for (const [record, uris] of wanted) {
    t.same(readReportUris([record]), uris, record);
    for (const uri of uris) t.ok(parseReportUri(uri), 'the stored form reads the same');
  }
  t.match(parseReportUri('mailto:Ann%2Bx@b.test'), { by: 'mail', to: { address: 'Ann+x@b.test' } });
});

t.test('a malformed record asks for nothing', async (t) => {
  const good = 'v=TLSRPTv1; rua=mailto:a@b.test';
  const bad = [
    'v=TLSRPTv2; rua=mailto:a@b.test',
    'V=TLSRPTv1; rua=mailto:a@b.test',
    ' v=TLSRPTv1; rua=mailto:a@b.test',
    'rua=mailto:a@b.test; v=TLSRPTv1',
    'v=TLSRPTv1',
    'v=TLSRPTv1;',
    'v=TLSRPTv1; rua',
    'v=TLSRPTv1; rua=',
    'v=TLSRPTv1; rua=mailto:a@b.test; nonsense',
    'v=TLSRPTv1; ru\u00e4=x; rua=mailto:a@b.test',
    'v=TLSRPTv1; rua=mailto:a@b.test\r\nBcc: c@d.test',
    `v=TLSRPTv1; rua=mailto:a@b.test; x=${'y'.repeat(5_000)}`,
  ];
  for (const record of bad) t.same(readReportUris([record]), [], record.slice(0, 60));
  t.same(readReportUris([good, good]), [], 'two records');
  t.same(readReportUris(['v=spf1 -all', good]), ['mailto:a@b.test'], 'records of other kinds do not count');

  const places = [
    'mailto:',
    'mailto:a',
    'mailto:a@b',
    'mailto:%0D%0ARCPT@b.test',
    'mailto:a@b.test%0D%0A',
    'mailto:a%ZZ@b.test',
    'mailto:a@b.test%2Cc@d.test',
    'mailto:Ann%20%3Ca@b.test%3E',
    'mailto:%C3%A4@b.test',
    'mailto:a@b.test!10m',
    'https://',
    'https://a b.test/',
    'https://a.test/!10m',
    'file:///etc/passwd',
    long(1_001),
    `https://a.test/?${'"'.repeat(900)}`,
  ];
  for (const uri of places) t.same(readReportUris([`v=TLSRPTv1; rua=${uri}`]), [], uri.slice(0, 60));
});

t.test('what DNS says about it', async (t) => {
  const zone = await startZone({
    '_smtp._tls.alias.test': { CNAME: '_smtp._tls.real.test' },
    '_smtp._tls.real.test': { TXT: ['v=TLSRPTv1; rua=mailto:a@b.test', 'something else'] },
    '_smtp._tls.empty.test': {},
    '_smtp._tls.broken.test': 'SERVFAIL',
    '_smtp._tls.slow.test': 'drop',
  });
  t.teardown(() => zone.close());
  const find = (domain: string) => findReportUris(zone.resolver, domain);
  t.same(await find('alias.test'), { uris: ['mailto:a@b.test'] });
  const strings = async () => [['v=TLSRPTv1; rua=mail', 'to:a@b.test']];
  t.same(await findReportUris({ resolveTxt: strings }, 'a.test'), { uris: ['mailto:a@b.test'] }, 'strings are joined');
  t.same(await find('empty.test'), { uris: [] });
  t.same(await find('nowhere.test'), { uris: [] });
  t.same(await find(Array(4).fill('x'.repeat(61)).join('.')), { uris: [] }, 'a name that is too long to query');
  t.match(await find('broken.test'), { failure: /SERVFAIL/ });
  t.match(await find('slow.test'), { failure: /in time/ });
});
