import type { Database } from '../../db/client.ts';
import type { Email } from '../../generated/prisma/client.ts';
import { type SendingPools, type SourceOutlook, sourceOutlook } from '../../smtp/connections/sending-pools.ts';

/** The source that an email leaves from next; null once it is settled, or if the system chooses. */
export async function sourceOf(
  db: Database,
  email: Email,
  pools: SendingPools,
  now: Date,
): Promise<SourceOutlook | null> {
  if (email.status !== 'queued' || pools.addresses.length === 0) return null;
  const domain = await db.prisma.domain.findFirst({
    where: { id: email.domainId, accountId: email.accountId },
    select: { pool: true },
  });
  return sourceOutlook(pools, { type: email.type, pool: domain?.pool ?? null }, now);
}
