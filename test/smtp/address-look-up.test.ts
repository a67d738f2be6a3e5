import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { addressesOf } from '../../src/smtp/calls/checked-socket.ts';
import { withResolutionDelay } from '../../src/smtp/dns/address-look-up.ts';
import { resolveHost } from '../../src/smtp/dns/mx.ts';
import type { Answer, Resolver } from '../../src/smtp/dns/resolver.ts';

const none: Answer<string> = { kind: 'nodata' };
const of = (...records: string[]): Answer<string> => ({ kind: 'records', records });
const unanswered = { kind: 'temporary', reason: 'the name server did not answer in time', untried: false };

t.test('a name server that never answers for AAAA keeps nobody from the IPv4 addresses', async (t) => {
  const unused = async () => [];
  const resolver: Resolver = {
    resolve4: async () => ['8.8.8.8'],
    resolve6: () => new Promise(() => {}),
    resolveMx: unused,
    resolveTxt: unused,
    resolve: unused,
  };
  const expected = { kind: 'addresses', addresses: ['8.8.8.8'], ours: false };
  t.strictSame(await resolveHost('mx.test', { resolver }), expected, 'of an MX host');
  const poster = { resolver, allowPrivate: false };
  const never = new AbortController().signal;
  t.strictSame(await addressesOf('hooks.test', poster, never), ['8.8.8.8'], 'of an endpoint');
});

t.test('IPv6 addresses that come late', async (t) => {
  const late = () => sleep(50, of('2606:4700::1'));
  const soon = { delayMs: 1 };
  const ask = (ipv4: Answer<string>, options: Parameters<typeof withResolutionDelay>[1]) =>
    withResolutionDelay({ ipv4: Promise.resolve(ipv4), ipv6: late() }, options);
  const both = { ipv4: of('8.8.8.8'), ipv6: of('2606:4700::1') };
  t.strictSame(await ask(of('8.8.8.8'), soon), { ...both, ipv6: unanswered }, 'are done without');
  t.strictSame(await ask(of('8.8.8.8'), {}), both, 'are used if they are not too late');
  t.strictSame(await ask(none, soon), { ...both, ipv4: none }, 'are waited for if there are no others');
  const failed: Answer<string> = { kind: 'temporary', reason: 'the name server failed (SERVFAIL)', untried: false };
  t.strictSame(await ask(failed, soon), { ...both, ipv4: failed }, 'are waited for if the others are not known');
  t.strictSame(await ask(of('8.8.8.8'), { ...soon, onlyIpv6: true }), both, 'are waited for if others are of no use');
});

t.test('a defect in a look-up is not taken for silence', async (t) => {
  const defect = () => Promise.reject(new TypeError('a defect'));
  await t.rejects(withResolutionDelay({ ipv4: defect(), ipv6: Promise.resolve(none) }), TypeError);
  await t.rejects(withResolutionDelay({ ipv4: Promise.resolve(of('8.8.8.8')), ipv6: defect() }), TypeError);
  await t.rejects(withResolutionDelay({ ipv4: defect(), ipv6: defect() }), TypeError);
});
