import { type LookUpOptions, resolveDestination, resolveHost } from '../../smtp/dns/mx.ts';
import type { TlsPolicies } from '../../smtp/policies/tls-policies.ts';
import { policyOf, shownPolicy, type TlsDemand } from '../../smtp/policies/tls-policy.ts';
import type { TlsPolicyName } from '../../smtp/replies/tls-names.ts';

/** How a delivery to the recipients of one domain would go. */
export interface DryDestination {
  domain: string;
  recipients: string[];
  /** In the order in which they would be tried. */
  hosts: { name: string; preference: number; addresses: string[]; problem: string | null }[];
  /** Why mail for this domain could not be delivered now; `permanent` says that trying later would not help. */
  problem: { permanent: boolean; reason: string } | null;
  tls: { policy: TlsPolicyName; source: string; notes: string[] };
}

export interface DestinationTools {
  lookUp: LookUpOptions;
  tlsPolicies: Pick<TlsPolicies, 'describe'>;
}

type Named = Pick<DryDestination, 'domain' | 'recipients'>;

/**
 * Looks up where a destination's mail would go, without asking any of its hosts.
 *
 * @param late when it resolves, what is not known yet is no longer waited for
 */
export function lookUpDestination(
  destination: Named,
  demand: TlsDemand,
  tools: DestinationTools,
  late: Promise<unknown>,
): Promise<DryDestination> {
  return Promise.race([lookUp(destination, demand, tools), late.then(() => unknown(destination, demand))]);
}

function unknown(destination: Named, demand: TlsDemand): DryDestination {
  const reason = `Name servers, or the host of the MTA-STS policy of ${destination.domain}, did not answer in time.`;
  return {
    ...destination,
    hosts: [],
    problem: { permanent: false, reason },
    tls: { ...shownPolicy(policyOf(demand)), notes: ['What the domain itself demands was not known in time.'] },
  };
}

async function lookUp(
  destination: Named,
  demand: TlsDemand,
  { lookUp, tlsPolicies }: DestinationTools,
): Promise<DryDestination> {
  const { domain } = destination;
  const found = await resolveDestination(domain, lookUp);
  const named = found.kind === 'hosts' ? found.hosts : [];
  const names = named.map(({ name }) => name);
  const [{ refused, ...tls }, reached] = await Promise.all([
    tlsPolicies.describe(domain, demand, names),
    Promise.all(named.map(async (host) => ({ ...host, at: await resolveHost(host.name, lookUp) }))),
  ]);
  if (found.kind !== 'hosts') {
    const problem = { permanent: found.kind === 'permanent', reason: found.reason };
    return { ...destination, hosts: [], tls, problem };
  }
  const ours = reached.findIndex(({ at }) => at.ours);
  const tried = ours === -1 ? reached : reached.slice(0, ours + 1);
  const past = reached.slice(tried.length).map(({ name, preference }) => {
    const problem = `Mail is not sent past ${names[ours]}, which has the address of this server.`;
    return { name, preference, addresses: [], problem };
  });
  const hosts = tried.map(({ name, preference, at }) =>
    at.kind === 'addresses'
      ? { name, preference, addresses: at.addresses, problem: refused.get(name) ?? null }
      : { name, preference, addresses: [], problem: at.reason },
  );
  const isReachable = hosts.some(({ problem }) => problem === null);
  // A policy that forbids a host may change.
  const permanent = refused.size === 0 && tried.every(({ at }) => at.kind === 'permanent');
  const problem = isReachable ? null : { permanent, reason: hosts[0]?.problem ?? 'no host can be reached' };
  return { ...destination, hosts: [...hosts, ...past], tls, problem };
}
