import { loadDue } from '../core/outgoing.ts';
import type { Claim } from '../core/recipients.ts';
import type { Database } from '../db/client.ts';

/** In ms, between last tries at a site that is left alone. */
export const nextLastTryMs = 30_000;

/**
 * Which of these claims are tried although their site is left alone, as nothing waits for ever without being tried: those
 * whose time is over, as many as there is room for, and the others of them soon. Of an email that was scheduled it began when it was due, long after it was accepted. Where that cannot be read none is
 * over, and they are looked at again later.
 */
export async function lastTries(
  db: Database,
  claims: Claim[],
  { isOver, room }: { isOver: (dueAt: Date) => boolean; room: () => number },
): Promise<{ now: Claim[]; soon: Claim[]; rest: Claim[] }> {
  const emailIds = [...new Set(claims.map(({ emailId }) => emailId))];
  const due = await loadDue(db, emailIds).catch(() => new Map<string, never>());
  const kind = ({ emailId }: Claim) => {
    const email = due.get(emailId);
    return email && isOver(email.dueAt) ? 'over' : 'rest';
  };
  const { over = [], rest = [] } = Object.groupBy(claims, kind);
  const many = room();
  return { now: over.slice(0, many), soon: over.slice(many), rest };
}
