import type { Database } from '../../db/client.ts';
import type { Email, Recipient } from '../../generated/prisma/client.ts';
import { objectionTo } from './objection.ts';

/** Why an email would not be sent if it were due now; null: it would, or none of its recipients waits. */
export async function objectionOutlook(
  db: Database,
  { email, recipients }: { email: Email; recipients: Recipient[] },
): Promise<string | null> {
  if (recipients.every(({ nextAttemptAt }) => nextAttemptAt === null)) return null;
  const { accountId, domainId, apiKeyId, scheduledAt } = email;
  const [account, signing, key] = await Promise.all([
    db.prisma.account.findUnique({ where: { id: accountId }, select: { suspendedAt: true } }),
    db.prisma.domain.findFirst({ where: { id: domainId, accountId, status: 'verified' }, select: { id: true } }),
    apiKeyId === null ? null : db.prisma.apiKey.findUnique({ where: { id: apiKeyId }, select: { revokedAt: true } }),
  ]);
  const revoked = scheduledAt !== null && (key?.revokedAt ?? null) !== null;
  return objectionTo({ signing, suspended: (account?.suspendedAt ?? null) !== null, revoked });
}
