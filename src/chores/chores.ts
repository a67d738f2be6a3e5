import * as idempotency from '../core/accounts/idempotency.ts';
import * as loginAttempts from '../core/accounts/login-attempts.ts';
import * as sessions from '../core/accounts/sessions.ts';
import * as orders from '../core/destinations/destination-orders.ts';
import * as lastDeliveries from '../core/destinations/last-deliveries.ts';
import * as dkimKeys from '../core/domains/dkim-keys.ts';
import type { Surroundings } from '../core/domains/record-checks.ts';
import { recheckDue } from '../core/domains/verification.ts';
import * as emailCounts from '../core/log/email-counts.ts';
import * as sandboxMessages from '../core/operations/sandbox-messages.ts';
import { eraseDue } from '../core/privacy/erasing.ts';
import { takeBackAhead, wakeAhead, wakeTriedAhead } from '../core/recipients/ahead.ts';
import { pruneContents } from '../core/retention/content-retention.ts';
import { dropOld } from '../core/retention/retention.ts';
import { thinOut } from '../core/retention/retention-of-kept-weeks.ts';
import * as warmUp from '../core/sources/warm-up.ts';
import * as tlsPolicies from '../core/tls/tls-policies.ts';
import * as tlsResults from '../core/tls/tls-results.ts';
import { takeBackCallsAhead, wakeCallsAhead } from '../core/webhooks/calls-ahead.ts';
import type { Database } from '../db/client.ts';
import { databaseTime, noLater } from '../db/clocks.ts';
import { completeIndexes } from '../db/indexes.ts';
import { analyzeFresh, keepingPartitions } from '../db/partitions.ts';
import { whenSetBack } from '../db/set-back.ts';
import type { Logger } from '../log.ts';
import type { Rounds } from '../pace/rounds.ts';
import { sweeping } from '../queue.ts';

const secondMs = 1_000;
const minuteMs = 60_000;

/** Adds the periodic work that does not depend on mail. Several nodes may do it at once. */
export function addChores(
  rounds: Rounds,
  db: Database,
  surroundings: Surroundings,
  { isSandbox, log }: { isSandbox: boolean; log: Logger },
): void {
  const keepPartitions = keepingPartitions(db);
  rounds.every(5 * secondMs, 'partitions', () => keepPartitions(new Date()));
  rounds.every(minuteMs, 'indexes', (stop) => completeIndexes(db, stop));
  rounds.every(5 * secondMs, 'statistics of a new week', () => analyzeFresh(db, new Date()));
  rounds.every(5 * secondMs, 'done jobs', sweeping(db));
  rounds.every(60 * minuteMs, 'retention', async (stop) => void (await dropOld(db, new Date(), stop)));
  rounds.every(60 * minuteMs, 'retention of kept weeks', async (stop) => void (await thinOut(db, new Date(), stop)));
  rounds.every(60 * minuteMs, 'old contents', async (stop) => void (await pruneContents(db, new Date(), { stop })));
  rounds.every(minuteMs, 'mail of a clock that was ahead', async () => wakeAhead(db, await databaseTime(db)));
  const wakeTried = whenSetBack(db, async (time, stop) => {
    const isOver = () => stop.aborted;
    await takeBackAhead(db, time, isOver);
    await wakeTriedAhead(db, time, isOver);
    await takeBackCallsAhead(db, time, isOver);
    await wakeCallsAhead(db, time, isOver);
  });
  rounds.every(10 * secondMs, 'what was tried while the clock was ahead', wakeTried);
  rounds.every(secondMs, 'erasures', (stop) => eraseDue(db, surroundings.keyring, log, stop));
  rounds.every(2 * secondMs, 'email counts', () => emailCounts.addUp(db));
  rounds.every(60 * minuteMs, 'email counts of nothing', () => emailCounts.forgetZeros(db));
  rounds.every(15 * minuteMs, 'login failures', () => loginAttempts.forgetOld(db));
  rounds.every(60 * minuteMs, 'ended sessions', () => sessions.forgetExpired(db));
  rounds.every(15 * minuteMs, 'idempotency keys', (stop) => idempotency.forgetExpired(db, stop));
  rounds.every(minuteMs, 'domain checks', (stop) => recheckDue(db, surroundings, stop));
  rounds.every(60 * minuteMs, 'expired TLS policies', () => tlsPolicies.forgetExpired(db));
  // A node with a wrong clock must not delete days that are still to be reported.
  rounds.every(6 * 60 * minuteMs, 'old TLS results', async (stop) =>
    tlsResults.forgetOld(db, await noLater(db, new Date()), stop),
  );
  rounds.every(6 * 60 * minuteMs, 'days of warm-up', () => warmUp.forgetOld(db));
  rounds.every(60 * minuteMs, 'old orders for destinations', () => orders.forgetOld(db));
  rounds.every(6 * 60 * minuteMs, 'old deliveries to destinations', () => lastDeliveries.forgetOld(db));
  rounds.every(60 * minuteMs, 'retired DKIM keys', () => dkimKeys.forgetRetired(db));
  if (isSandbox) rounds.every(minuteMs, 'sandbox messages', () => sandboxMessages.trim(db));
}
