import t from 'tap';
import { lookUp, reversed } from '../../src/smtp/dns/blocklists.ts';
import { startZone, type ZoneEntry } from '../support/zone.ts';

const test4 = '2.0.0.127.bl.test';
const ours = '5.113.0.203.bl.test';
const listed: ZoneEntry = { A: ['127.0.0.2'] };

t.test('what a blocklist says about an address (RFC 5782)', async (t) => {
  const cases: [why: string, zone: Record<string, ZoneEntry>, expected: object][] = [
    ['the address is not on the list', { [test4]: listed }, { kind: 'clean' }],
    [
      'it is listed, with a reason',
      { [test4]: listed, [ours]: { A: ['127.0.0.4'], TXT: ['see https://bl.test/\u0007q'] } },
      { kind: 'listed', code: '127.0.0.4', reason: 'see https://bl.test/q' },
    ],
    ['it is listed, without a reason', { [test4]: listed, [ours]: listed }, { kind: 'listed', reason: null }],
    ['the list is dead: it does not list its own test address', {}, { kind: 'unknown', reason: /test address/ }],
    [
      'queries through public resolvers are refused',
      { [test4]: { A: ['127.255.255.254'] }, [ours]: { A: ['127.255.255.254'] } },
      { kind: 'unknown', reason: /refuses queries .*127\.255\.255\.254/ },
    ],
    [
      'only the test address is refused',
      { [test4]: { A: ['127.255.255.255'] } },
      { kind: 'unknown', reason: /refuses/ },
    ],
    [
      'a resolver that invents answers, or a domain that was sold',
      { [test4]: { A: ['198.51.100.1'] }, [ours]: { A: ['198.51.100.1'] } },
      { kind: 'unknown', reason: /198\.51\.100\.1 is not that of a blocklist/ },
    ],
    ['127.0.0.1 is never a listing', { [test4]: listed, [ours]: { A: ['127.0.0.1'] } }, { kind: 'unknown' }],
    ['the name server fails', { [test4]: listed, [ours]: 'SERVFAIL' }, { kind: 'unknown', reason: /SERVFAIL/ }],
    ['it refuses', { [test4]: 'REFUSED', [ours]: 'REFUSED' }, { kind: 'unknown', reason: /refused/ }],
  ];
  for (const [why, literal, expected] of cases) {
    const zone = await startZone(literal);
    t.match(await lookUp('bl.test', '203.0.113.5', zone.resolver), expected, why);
    await zone.close();
  }
});

t.test('an IPv6 address is looked up by its nibbles', async (t) => {
  t.equal(reversed('2001:db8::5'), '5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2');
  const test6 = `${reversed('::ffff:7f00:2')}.bl.test`;
  const zone = await startZone({ [test6]: listed, [`${reversed('2001:db8::5')}.bl.test`]: listed });
  t.teardown(() => zone.close());
  t.match(await lookUp('bl.test', '2001:db8::5', zone.resolver), { kind: 'listed' });
  t.match(await lookUp('bl.test', '2001:db8::6', zone.resolver), { kind: 'clean' });
});
