import t from 'tap';
import { type PrivateNetworks, parseNetwork } from '../../src/ip.ts';
import { hostOf, refuseUrl } from '../../src/smtp/calls/endpoint.ts';

const refusal = (text: string, allowPrivate: PrivateNetworks = false) => refuseUrl(new URL(text), allowPrivate);

t.test(
  'addresses that are not on the public internet, in every form that a URL accepts: SSRF-01, SSRF-02',
  async (t) => {
    for (const host of [
      '127.0.0.1',
      '127.1',
      '127.0.1',
      '127.255.255.254',
      '0.0.0.0',
      '0',
      '2130706433',
      '017700000001',
      '0x7f000001',
      '0x7f.0.0.1',
      '0177.0.0.1',
      '0X7F.1',
      '127.0.0.1.',
      '127%2e0%2e0%2e1',
      '%31%32%37.0.0.1',
      '１２７.０.０.１',
      '①②⑦.⓪.⓪.①',
      '127。0。0。1',
      '10.0.0.1',
      '10.255.255.255',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.0.1',
      '192.168.255.255',
      '169.254.169.254',
      '169.254.0.1',
      '2852039166',
      '0xA9FEA9FE',
      '100.64.0.1',
      '100.127.255.254',
      '192.0.0.1',
      '192.0.2.1',
      '198.18.0.1',
      '198.51.100.1',
      '203.0.113.1',
      '224.0.0.1',
      '239.255.255.255',
      '240.0.0.1',
      '255.255.255.255',
      '[::1]',
      '[::]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[::127.0.0.1]',
      '[::ffff:0:127.0.0.1]',
      '[0:0:0:0:0:0:0:1]',
      '[64:ff9b::127.0.0.1]',
      '[64:ff9b:1::1]',
      '[2002:7f00:1::]',
      '[2001:0:7f00:1::]',
      '[fe80::1]',
      '[fec0::1]',
      '[fc00::1]',
      '[fd00:ec2::254]',
      '[ff02::1]',
      '[2001:db8::1]',
      '[100::1]',
      'localhost',
      'LOCALHOST',
      'LocalHost.',
      'foo.localhost',
      'ｌｏｃａｌｈｏｓｔ',
    ]) {
      for (const scheme of ['http', 'https']) t.ok(refusal(`${scheme}://${host}/hook`), host);
      t.equal(refusal(`http://${host}:8080/`, true), null, `${host} if it is allowed`);
    }
    for (const text of [
      'http:127.0.0.1',
      'http:\\\\127.0.0.1\\',
      'http:/127.0.0.1/',
      'HTTP://127.0.0.1',
      ' http://127.0.0.1 ',
    ])
      t.ok(refusal(text), text);
  },
);

t.test('only the allowed networks, in every form that a URL accepts: SSRF-08', async (t) => {
  const allowed = ['10.1.0.0/16', '127.0.0.1/32'].map(parseNetwork);
  for (const host of ['10.1.2.3', '10.66051', '0x0a010203', '127.1', '[::ffff:10.1.2.3]', 'localhost', 'a.localhost.'])
    t.equal(refusal(`http://${host}:8080/`, allowed), null, host);
  for (const host of ['10.2.2.3', '127.0.0.2', '0x0a020203', '[::ffff:10.2.2.3]', '[::1]', '169.254.169.254'])
    t.match(refusal(`http://${host}:8080/`, allowed), /this address is private/, host);
  t.match(refusal('http://localhost:8080/', allowed.slice(0, 1)), /the server itself/);
  t.equal(refusal('http://localhost:8080/', [parseNetwork('::1/128')]), null);
});

t.test('addresses and names that may be called', async (t) => {
  for (const text of [
    'https://example.com/hook',
    'http://example.com',
    'https://8.8.8.8/',
    'https://[2606:4700::1111]/',
    'https://example.com:8443/',
    'https://bücher.example/',
    'https://example.com/?to=http://127.0.0.1',
    'https://example.com/#@127.0.0.1',
    'https://127.0.0.1.example.com/',
    'https://localhost.example.com/',
  ])
    t.equal(refusal(text), null, text);
});

t.test('schemes, credentials and ports: SSRF-06', async (t) => {
  for (const text of [
    'ftp://example.com/',
    'file:///etc/passwd',
    'gopher://example.com/',
    'data:text/plain,x',
    'unix:/run/x.sock',
    'ws://example.com/',
    'javascript:1',
  ])
    t.match(refusal(text), /http/, text);
  for (const text of [
    'https://user@example.com/',
    'https://user:pass@example.com/',
    'https://:pass@example.com/',
    'http://example.com@127.0.0.1/',
  ])
    t.match(refusal(text), /user name|public internet/, text);
  for (const port of [
    1, 21, 22, 23, 25, 53, 110, 389, 445, 465, 587, 1023, 2375, 3306, 5432, 6379, 9200, 11211, 27017,
  ]) {
    for (const allowed of [true, false]) t.match(refusal(`https://example.com:${port}/`, allowed), /port/, `${port}`);
  }
  for (const port of [80, 443, 1024, 3000, 8080, 8443, 65535])
    t.equal(refusal(`https://example.com:${port}/`), null, `${port}`);
});

t.test('the host as it is looked up', async (t) => {
  t.equal(hostOf(new URL('http://[::1]:80/')), '::1');
  t.equal(hostOf(new URL('http://Example.COM./')), 'example.com');
});
