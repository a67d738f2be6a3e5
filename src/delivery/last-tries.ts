import { loadDue } from '../core/outgoing.ts';
import type { Claim } from '../core/recipients.ts';
import type { Database } from '../db/client.ts';

/**
 * Which of these claims are tried whatever their site does, as nothing waits for ever without being tried: those whose time is
 * over. Of an email that was scheduled it began when it was due, long after it was accepted. Where that cannot be read none is
 * over, and they are looked at again later.
 */
export async function lastTries(
  db: Database,
  claims: Claim[],
  isOver: (dueAt: Date) => boolean,
): Promise<{ over: Claim[]; rest: Claim[] }> {
  const emailIds = [...new Set(claims.map(({ emailId }) => emailId))];
  const due = await loadDue(db, emailIds).catch(() => new Map<string, never>());
  const kind = ({ emailId }: Claim) => {
    const email = due.get(emailId);
    return email && isOver(email.dueAt) ? 'over' : 'rest';
  };
  const { over = [], rest = [] } = Object.groupBy(claims, kind);
  return { over, rest };
}
