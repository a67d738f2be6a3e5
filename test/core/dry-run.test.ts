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
