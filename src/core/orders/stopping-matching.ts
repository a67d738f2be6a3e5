import type { Database, Sql } from '../../db/client.ts';
import type { Queue } from '../../queue.ts';
import { conditions, type Filter } from '../log/email-filter.ts';
import { batchSize, type Concerned, callMs, type GivenUp, type Giving, giveUpThose } from '../recipients/giving-up.ts';
import { walk } from '../recipients/waiting.ts';
import { cancelThose, waitsForItsTime } from './scheduling.ts';

/** Which emails of an account: the filter of the log, without what only a list can be asked for. */
export type Wanted = Omit<Filter, 'accountId' | 'status' | 'held' | 'scheduled'>;

/** What one call did, and what it left. */
export interface Stopped extends GivenUp {
  /** How many emails were canceled that waited for their scheduled time. */
  canceled: number;
}

/** How much one call does, and who is told, also of emails that were canceled. */
export interface Stopping extends Giving {
  onCanceled?: (canceled: number) => void;
}

/**
 * Stops what waits of the account's emails that match: recipients in the queue or for another attempt fail for good, and emails
 * that wait for their scheduled time are canceled. Recipients that a node has in hand or that are held are left alone, and so is
 * what is accepted later.
 *
 * @param lastResponse of the recipients that are given up
 */
export async function stopMatching(
  db: Database,
  queue: Queue,
  accountId: string,
  wanted: Wanted,
  lastResponse: string,
  { onCanceled = () => {}, ...giving }: Stopping = {},
): Promise<Stopped> {
  const ms = (giving.ms ?? callMs) / 2;
  // At first, as what comes due meanwhile is given up then. Each has its own time: neither has to wait for all of the other.
  const scheduled = concernedBy(accountId, wanted, waitsForItsTime);
  const { canceled, isDone } = await cancelMany(db, scheduled, { ...giving, ms, onCanceled });
  const given = await giveUpThose(db, queue, concernedBy(accountId, wanted), lastResponse, { ...giving, ms });
  return { ...given, canceled, rest: given.rest || !isDone };
}

async function cancelMany(
  db: Database,
  { of, within = 'true', values }: Concerned,
  { size = batchSize, ms, onCanceled }: { size?: number; ms: number; onCanceled: (canceled: number) => void },
): Promise<{ canceled: number; isDone: boolean }> {
  let canceled = 0;
  const selection = { due: `${within} AND r.next_attempt_at > now()`, wanted: of, values };
  const isDone = await walk(db, selection, { size, ms }, async (keys) => {
    const ids = [...new Set(keys.map(({ emailId }) => emailId))];
    const some = await db.transaction((tx: Sql) => cancelThose(tx, ids));
    canceled += some;
    onCanceled(some);
    return some > 0;
  });
  return { canceled, isDone };
}

/** @param also SQL: what else an email `e` has to be */
function concernedBy(accountId: string, wanted: Wanted, also = 'true'): Concerned {
  const filter: Filter = { ...wanted, accountId, status: null, held: false, scheduled: false };
  const { where, values } = conditions(filter);
  return {
    within: 'r.account_id = $1',
    // Not EXISTS: PostgreSQL might read all emails of the account at first.
    of: `coalesce((SELECT true FROM emails e WHERE e.id = r.email_id AND ${where} AND ${also} LIMIT 1), false)`,
    values,
  };
}
