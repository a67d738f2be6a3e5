import type { Database } from '../../db/client.ts';
import type { Email, Recipient } from '../../generated/prisma/client.ts';
import { within } from '../../pace/within.ts';
import { type LookUpOptions, resolveDestination } from '../../smtp/dns/mx.ts';
import type { TlsDescription, TlsPolicies } from '../../smtp/policies/tls-policies.ts';
import { demandOf } from './outgoing.ts';

/** The TLS that one destination is going to be asked for, and who asks. */
export type TlsOutlook = Omit<TlsDescription, 'refused'>;

/** The most destinations that are looked up for one answer: each may need DNS queries and a policy file. */
const mostDestinations = 10;

/** Whoever asks what became of an email often does so because name servers do not answer. */
const usualPatienceMs = 10_000;

/**
 * The TLS that will be demanded of the destinations that an email still has to reach, ten at most, by domain. Leaves out those
 * whose policies are not known in time.
 */
export async function tlsOutlook(
  db: Database,
  { email, recipients }: { email: Email; recipients: Recipient[] },
  { lookUp, tlsPolicies }: { lookUp: LookUpOptions; tlsPolicies: Pick<TlsPolicies, 'describe'> },
  patienceMs = usualPatienceMs,
): Promise<Map<string, TlsOutlook>> {
  const waiting = new Set(recipients.flatMap((row) => (row.nextAttemptAt === null ? [] : [row.destination])));
  const domains = [...waiting].slice(0, mostDestinations);
  if (domains.length === 0) return new Map();
  const sender = await db.prisma.domain.findFirst({
    where: { id: email.domainId, accountId: email.accountId },
    select: { domain: true, tls: true },
  });
  const demand = demandOf(email.tls, sender?.domain ?? null, sender?.tls ?? null);
  const outlooks = new Map<string, TlsOutlook>();
  const looking = domains.map(async (domain) => {
    const found = await resolveDestination(domain, lookUp);
    const hosts = found.kind === 'hosts' ? found.hosts.map(({ name }) => name) : [];
    const { refused: _, ...outlook } = await tlsPolicies.describe(domain, demand, hosts);
    outlooks.set(domain, outlook);
  });
  await within(patienceMs, Promise.all(looking), null);
  return new Map(outlooks);
}
