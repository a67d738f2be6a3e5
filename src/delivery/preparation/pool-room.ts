import { objectionTo } from '../../core/outgoing/objection.ts';
import * as outgoing from '../../core/outgoing/outgoing.ts';
import { isPersonal } from '../../core/outgoing/outgoing-message.ts';
import type { Claim } from '../../core/recipients/recipients.ts';
import type { Database } from '../../db/client.ts';
import type { ClaimsInHand } from '../claims/claims-in-hand.ts';
import type { RetryRules } from '../outcome/attempt-record.ts';
import { afterOpening, isOver } from '../outcome/schedule.ts';
import type { Choice, Closed, SourceAddresses } from '../pools/source-addresses.ts';

/** A claim that its pool of sending addresses has no room for now. */
export interface WithoutRoom {
  claim: Claim;
  dueAt: Date;
  closed: Closed;
}

/**
 * The claims known to have no room in their pools today, found with one statement, or without any while no pool is full.
 * Claims past their time are not among them: they get their last try.
 */
export async function findWithoutRoom(
  db: Database,
  sources: SourceAddresses,
  { policy, clock }: RetryRules,
  claims: Claim[],
): Promise<WithoutRoom[]> {
  if (claims.length === 0 || !sources.someClosed) return [];
  const now = clock.now();
  const emailIds = [...new Set(claims.map(({ emailId }) => emailId))];
  // If the streams cannot be read, the claims find out when their sources are chosen, as all do.
  const streams = await outgoing.loadStreams(db, emailIds).catch(() => new Map<string, never>());
  return claims.flatMap((claim) => {
    const stream = streams.get(claim.emailId);
    const closed = stream ? sources.closedFor(stream) : null;
    return stream && closed && !isOver(policy, stream.dueAt, now) ? [{ claim, dueAt: stream.dueAt, closed }] : [];
  });
}

/** Chooses what each of these claims leaves from, in their order; those that must not be sent need no address. */
export async function chooseSources(
  sources: SourceAddresses,
  claims: Claim[],
  emails: ReadonlyMap<string, outgoing.OutgoingEmail>,
): Promise<Choice[]> {
  const wanted = claims.flatMap(({ emailId, recipients }, index) => {
    const email = emails.get(emailId);
    if (!email || objectionTo(email) !== null) return [];
    return [{ index, want: { stream: email, messages: isPersonal(email) ? recipients.length : 1 } }];
  });
  const chosen = await sources.choose(wanted.map(({ want }) => want));
  const choices = claims.map((): Choice => ({ source: null }));
  for (const [at, { index }] of wanted.entries()) choices[index] = chosen[at] ?? { source: null };
  return choices;
}

/** Parks these claims until their pools may have room; those that go on together are parked together. */
export function parkWithoutRoom(inHand: ClaimsInHand, { policy, clock }: RetryRules, some: WithoutRoom[]): void {
  const now = clock.now();
  const random = Math.random();
  const timed = some.map(({ claim, dueAt, closed }) => ({
    claim,
    until: afterOpening(policy, closed.opensAt, dueAt, now, () => random),
    reason: closed.reason,
  }));
  const groups = Map.groupBy(timed, ({ until, reason }) => `${until.getTime()} ${reason}`).values();
  for (const alike of groups) {
    const [first] = alike;
    const claims = alike.map(({ claim }) => claim);
    if (first) inHand.park(claims, first.until, first.reason);
  }
}
