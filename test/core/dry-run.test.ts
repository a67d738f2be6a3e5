import t from 'tap';
import type { Surroundings } from '../../src/core/domains/record-checks.ts';
import { authenticate } from '../../src/core/outgoing/dry-authentication.ts';
import { lookUpDestination } from '../../src/core/outgoing/dry-destination.ts';
import type { Domain } from '../../src/generated/prisma/client.ts';
import type { Resolver } from '../../src/smtp/dns/resolver.ts';
import { TlsPolicies } from '../../src/smtp/policies/tls-policies.ts';
import { opportunistic } from '../../src/smtp/policies/tls-policy.ts';

const never = new Promise<never>(() => {});
const over = Promise.resolve();
const silent = () => never;
const silence: Resolver = {
  resolveMx: silent,
  resolve4: silent,
  resolve6: silent,
  resolveTxt: silent,
  resolve: silent,
};
const to = { domain: 'one.test', recipients: ['x@one.test'] };

t.test('a dry run waits for DNS only so long', async (t) => {
  const tools = { lookUp: { resolver: silence }, tlsPolicies: new TlsPolicies() };
  const tls = { policy: 'opportunistic', source: 'default', notes: [/not known in time/] };
  const later = { permanent: false, reason: /one\.test, did not answer in time\.$/ };
  t.match(await lookUpDestination(to, opportunistic, tools, over), { ...to, hosts: [], problem: later, tls });
  const demand = { level: 'verified', by: 'the email itself' } as const;
  const demanded = await lookUpDestination(to, demand, tools, over);
  t.match(demanded.tls, { policy: 'verified', source: 'the email itself' });

  const where = { mailHostname: 'us.test', sendingIps: ['192.0.2.1'], resolve: silent } as unknown as Surroundings;
  const signing = { domain: 'sender.test', dkimSelector: 'sw1', dkimPublicKey: 'MIIB' } as Domain;
  t.match(await authenticate('sender.test', signing, where, over), {
    dkim: { aligned: true, problem: 'the lookup of the key did not answer in time' },
    spf: { results: [{ ip: '192.0.2.1', result: 'temperror' }] },
    dmarc: { record: null, wouldPass: false },
  });
});

t.test('a policy can ask that the return path is at the very domain of the sender', async (t) => {
  const signing = { domain: 'sender.test', dkimSelector: 'sw1', dkimPublicKey: 'MIIB' } as Domain;
  const seen = async (policy: string | null, mailHostname = 'mail.sender.test') => {
    const texts: Record<string, string | null> = {
      [mailHostname]: 'v=spf1 ip4:192.0.2.1 -all',
      '_dmarc.sender.test': policy,
    };
    const resolve = async (name: string) => {
      const text = texts[name] ?? null;
      if (text === null) throw Object.assign(new Error('no records'), { code: 'ENOTFOUND' });
      return [[text]];
    };
    const where = { mailHostname, sendingIps: ['192.0.2.1'], resolve } as unknown as Surroundings;
    const { spf, dmarc } = await authenticate('sender.test', signing, where, never);
    t.match(spf.results, [{ result: 'pass' }]);
    return [spf.aligned, dmarc.wouldPass];
  };
  for (const policy of [null, 'v=DMARC1; p=reject', 'v=DMARC1; p=reject; aspf=r', 'v=DMARC1; p=reject; adkim=s'])
    t.strictSame(await seen(policy), [true, true], `${policy}`);
  for (const policy of ['v=DMARC1; p=reject; aspf=s', 'v=DMARC1;p=none;aspf = S;rua=mailto:d@sender.test'])
    t.strictSame(await seen(policy), [false, false], policy);
  t.strictSame(await seen('v=DMARC1; p=reject; aspf=s', 'sender.test'), [true, true]);
  t.strictSame(await seen(null, 'mail.other.test'), [false, false]);
});

t.test('a dry run names no host past one that has our own address, as mail is not sent there', async (t) => {
  const addresses: Record<string, string[]> = { 'us.test': ['9.9.9.10'], 'us-too.test': ['9.9.9.10', '8.8.4.4'] };
  const lookUp = (...exchanges: string[]) => {
    const resolver: Resolver = {
      ...silence,
      resolveMx: async () => exchanges.map((exchange, priority) => ({ exchange, priority })),
      resolve4: async (name) => addresses[name] ?? ['8.8.8.8'],
      resolve6: async () => [],
    };
    const tools = { lookUp: { resolver, ownAddresses: ['9.9.9.10'] }, tlsPolicies: new TlsPolicies() };
    return lookUpDestination(to, opportunistic, tools, never);
  };
  const notPast = (name: string) => ({
    addresses: [],
    problem: `Mail is not sent past ${name}, which has the address of this server.`,
  });
  t.match(await lookUp('better.test', 'us.test', 'worse.test'), {
    hosts: [
      { name: 'better.test', addresses: ['8.8.8.8'], problem: null },
      { name: 'us.test', addresses: [], problem: /address of this server/ },
      { name: 'worse.test', ...notPast('us.test') },
    ],
    problem: null,
  });
  t.match(await lookUp('us-too.test', 'worse.test'), {
    hosts: [
      { name: 'us-too.test', addresses: ['8.8.4.4'], problem: null },
      { name: 'worse.test', ...notPast('us-too.test') },
    ],
    problem: null,
  });
  t.match(await lookUp('us.test', 'worse.test'), {
    problem: { permanent: true, reason: 'The host us.test has the address of this server.' },
  });
});
