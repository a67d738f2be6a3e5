import type { Database } from '../../db/client.ts';
import { notFound } from '../../errors.ts';
import type { Queue } from '../../queue.ts';
import { canBeGivenUp, type GivenUp, type Giving, giveUpThose, type LeftAlone } from '../recipients/giving-up.ts';
import { stoppedForAll } from '../recipients/settlement.ts';
import { isUnsettled, queryAllWaiting } from '../recipients/waiting.ts';
import { heldNotesInSql } from '../recipients/waiting-for.ts';
import { domainOf } from './destinations.ts';

/** Gives up all mail that waits for one domain, whoever sent it, such as for a domain that is gone or was mistyped. */

/** The recipients at a domain that are not settled. Scheduled ones count only from their time on. */
export interface Waiting extends LeftAlone {
  domain: string;
  /** Those that would be given up. */
  waiting: number;
}

/** What one call did for a domain, and what it left. */
export interface GivenUpThere extends GivenUp {
  domain: string;
}

/** SQL: a recipient `r` at `$1`. */
const isThere = 'r.destination = $1';

/**
 * @param name a domain, and not the name of a site: what cannot be undone is never done for all domains of a provider
 * @throws ApiError 404 if it is not a domain
 */
export async function findWaiting(db: Database, name: string): Promise<Waiting> {
  const domain = domainIn(name);
  const [row] = await queryAllWaiting<Omit<Waiting, 'domain'>>(db, {
    text: `SELECT count(*) FILTER (WHERE ${canBeGivenUp})::int AS waiting,
                  count(*) FILTER (WHERE r.claimed_by IS NOT NULL)::int AS "inHand",
                  count(*) FILTER (WHERE r.claimed_by IS NULL AND r.waiting_for IN (${heldNotesInSql}))::int AS held
             FROM recipients r
            WHERE ${isUnsettled} AND ${isThere}`,
    values: [domain],
  });
  return { domain, ...(row ?? { waiting: 0, inHand: 0, held: 0 }) };
}

/**
 * Gives up what waits for this domain.
 *
 * @param name as for `findWaiting`
 * @param reason is shown to the owners of the mail, after what was done
 * @param giving with `isTyped` if that was on the command line
 * @throws ApiError 404 if it is not a domain
 */
export async function giveUp(
  db: Database,
  queue: Queue,
  name: string,
  reason: string | null,
  { isTyped = false, ...giving }: Giving & { isTyped?: boolean } = {},
): Promise<GivenUpThere> {
  const domain = domainIn(name);
  const concerned = { of: isThere, values: [domain] };
  return { domain, ...(await giveUpThose(db, queue, concerned, stoppedForAll(domain, reason, isTyped), giving)) };
}

/** @throws ApiError 404 */
function domainIn(name: string): string {
  const domain = domainOf(name);
  if (domain === null) throw notFound();
  return domain;
}
