import type { Database } from '../../db/client.ts';
import type { Email, Recipient } from '../../generated/prisma/client.ts';
import { type LookUpOptions, resolveDestination } from '../../smtp/mx.ts';
import type { TlsDescription, TlsPolicies } from '../../smtp/tls-policies.ts';
import { demandOf } from './outgoing.ts';

export type TlsOutlook = Omit<TlsDescription, 'refused'>;

/** The most destinations that are looked up for one answer: each may need DNS queries and a policy file. */
const mostDestinations = 10;

/** The TLS that will be demanded of the destinations that an email still has to reach, ten at most, by domain. */
export async function tlsOutlook(
  db: Database,
  { email, recipients }: { email: Email; recipients: Recipient[] },
  { lookUp, tlsPolicies }: { lookUp: LookUpOptions; tlsPolicies: TlsPolicies },
): Promise<Map<string, TlsOutlook>> {
  const waiting = new Set(recipients.flatMap((row) => (row.nextAttemptAt === null ? [] : [row.destination])));
  const domains = [...waiting].slice(0, mostDestinations);
  if (domains.length === 0) return new Map();
  const sender = await db.prisma.domain.findFirst({
    where: { id: email.domainId, accountId: email.accountId },
    select: { domain: true, tls: true },
  });
  const demand = demandOf(email.tls, sender?.domain ?? null, sender?.tls ?? null);
  const described = domains.map(async (domain): Promise<[string, TlsOutlook]> => {
    const found = await resolveDestination(domain, lookUp);
    const hosts = found.kind === 'hosts' ? found.hosts.map(({ name }) => name) : [];
    const { refused: _, ...outlook } = await tlsPolicies.describe(domain, demand, hosts);
    return [domain, outlook];
  });
  return new Map(await Promise.all(described));
}
