import t from 'tap';
import { isPublicAddress, isReachable, parseNetwork } from '../../src/ip.ts';

const publicOnes = [
  '8.8.8.8',
  '1.1.1.1',
  '193.0.6.139',
  '100.63.255.255',
  '172.32.0.1',
  '2606:4700::1111',
  '2a00:1450:4001::1a',
  '2001:4860:4860::8888',
];

const privateOnes = [
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.1',
  '100.64.0.1',
  '100.127.255.255',
  '127.0.0.1',
  '127.255.0.1',
  '169.254.169.254',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.1',
  '192.0.2.1',
  '192.88.99.1',
  '192.168.1.1',
  '198.18.0.1',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '239.1.1.1',
  '240.0.0.1',
  '255.255.255.255',
  '168.63.129.16',
  '::',
  '::1',
  '::127.0.0.1',
  '::8.8.8.8',
  '::ffff:127.0.0.1',
  '::ffff:8.8.8.8',
  '::ffff:0:127.0.0.1',
  '64:ff9b::7f00:1',
  '64:ff9b::8.8.8.8',
  '64:ff9b:1::1',
  '100::1',
  '2001::1',
  '2001:0:4136:e378:8000:63bf:3fff:fdd2',
  '2001:10::1',
  '2001:20::1',
  '2001:db8::1',
  '2002:7f00:1::',
  '2002:808:808::1',
  '3fff::1',
  '4000::1',
  '5f00::1',
  'fc00::1',
  'fd00:ec2::254',
  'fe80::1',
  'fe80::1%eth0',
  'fec0::1',
  'ff02::1',
  '2606:4700::1111%eth0',
];

const noAddresses = [
  '',
  'localhost',
  '8.8.8',
  '0x8.8.8.8',
  '010.8.8.8',
  '134744072',
  '8.8.8.8 ',
  '8.8.8.8:53',
  '[2606:4700::1111]',
  '1.2.3.4.5',
  '2606:4700::g',
];

t.test('only global unicast is public', async (t) => {
  for (const ip of publicOnes) t.equal(isPublicAddress(ip), true, ip);
  for (const ip of privateOnes) t.equal(isPublicAddress(ip), false, ip);
});

t.test('what is not exactly an address is not public', async (t) => {
  for (const text of noAddresses) t.equal(isPublicAddress(text), false, JSON.stringify(text));
});

t.test('an address that is let in is dialled as it is, however it is written: SSRF-08', async (t) => {
  const allowed = ['10.1.0.0/16', '192.168.7.9/32', 'fd00::/8', '64:ff9b::/96'].map(parseNetwork);
  const within = ['10.1.0.0', '10.1.255.255', '192.168.7.9', 'fd00::1', 'FDFF:0::9', '::ffff:10.1.2.3', '64:ff9b::1'];
  for (const ip of [...publicOnes, ...within]) t.equal(isReachable(ip, allowed), true, ip);
  const outside = [
    '10.0.255.255',
    '10.2.0.0',
    '192.168.7.8',
    'fc00::1',
    '::ffff:10.2.0.1',
    '::10.1.2.3',
    '::1',
    '127.0.0.1',
  ];
  for (const ip of [...outside, 'fd00::1%eth0', '10.1.2', '10.1.2.3/32', ...noAddresses])
    t.equal(isReachable(ip, allowed), false, ip);
  for (const ip of privateOnes) {
    t.equal(isReachable(ip, false), false, ip);
    t.equal(isReachable(ip, []), false, ip);
    t.equal(isReachable(ip, true), true, ip);
  }
  const all = ['0.0.0.0/1', '128.0.0.0/1'].map(parseNetwork);
  t.notOk(isReachable('fd00::1', all), 'an IPv4 range lets in no IPv6');
  t.notOk(isReachable('10.0.0.1', ['::/1', '8000::/1'].map(parseNetwork)), 'and an IPv6 range no IPv4');
  t.notOk(isReachable('::ffff:10.0.0.1', ['::/1'].map(parseNetwork)), 'even written as IPv6');
});
