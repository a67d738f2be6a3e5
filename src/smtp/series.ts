import type { Connection } from './connection.ts';
import { CrowdedOut } from './crowded-out.ts';
import type { RecipientResult } from './result.ts';
import { type TransactionRequest, transact } from './transaction.ts';

export interface SeriesRequest extends TransactionRequest {
  /** The connection has carried mail of others before. */
  reused: boolean;
  /** Whether the connection may carry another message. */
  mayCarry: () => boolean;
}

export interface SeriesEnd {
  /** Those that this connection decided about. */
  results: RecipientResult[];
  /** Those that another host may take now; what was said meanwhile is among the results. */
  elsewhere: string[];
  /** Those whose turn did not come. */
  waiting: string[];
  /** The server has had enough of this connection. */
  limited: boolean;
  /** The connection has carried all that it may, putting off none of it, and somebody is left. */
  usedUp: boolean;
  /** `beforeDot` said no. */
  givenUp: boolean;
}

/** A kept connection that says nothing about a fresh one: it had died, or has carried enough, in these words. */
export interface Stale {
  stale: 'dead' | 'limited';
  reason: string;
}

// RFC 5321 section 4.5.3.1.8: every server takes this many, unless it says that it does not.
const maxRecipients = 100;

/**
 * Sends a message to all of its recipients over one connection, as often as it takes: to those that one transaction has no
 * room for in the next. No other is begun when the series has taken as long as a transaction may.
 */
export async function transactAll(connection: Connection, request: SeriesRequest): Promise<SeriesEnd | Stale> {
  const { envelope, deadlines, reused, mayCarry } = request;
  const atOnce = Math.min(maxRecipients, connection.capabilities.recipients ?? maxRecipients);
  const begunAt = performance.now();
  const crowdedOut = new CrowdedOut();
  const series: SeriesEnd = {
    results: [],
    elsewhere: [],
    waiting: envelope.recipients,
    limited: false,
    usedUp: false,
    givenUp: false,
  };
  for (let goesOn = true; goesOn && series.waiting.length > 0; ) {
    const recipients = series.waiting.slice(0, atOnce);
    const end = crowdedOut.amend(await transact(connection, { ...request, envelope: { ...envelope, recipients } }));
    // What has carried nothing yet cannot have carried enough: it was this message that was put off.
    const carried = connection.transactions > 1 || end.results.some(({ outcome }) => outcome === 'delivered');
    series.limited ||= end.limited && carried;
    if (reused && series.results.every(isUnasked)) {
      const reason = end.results[0]?.reason ?? 'it puts mail off';
      if (!end.alive) return { stale: 'dead', reason };
      if (series.limited && !end.begun && end.results.every(isOpenYet)) return { stale: 'limited', reason };
    }
    series.givenUp ||= end.givenUp;
    series.elsewhere.push(...end.elsewhere);
    const inTime = performance.now() - begunAt < deadlines.transaction;
    const lives = !series.limited && connection.lost === null && inTime && !series.givenUp;
    goesOn = lives && mayCarry();
    // Where it put off what it was to carry, the next one to this host would hear the same, again and again.
    const another = lives && !goesOn && !end.limited && series.elsewhere.length === 0;
    const next = goesOn || another ? crowdedOut.remember(end) : [];
    series.waiting = [...next, ...series.waiting.slice(atOnce)];
    series.results.push(...end.results.filter(({ recipient }) => !next.includes(recipient)));
    series.usedUp = another && series.waiting.length > 0;
  }
  return series;
}

/** True for one that the server was not asked to take. */
const isUnasked = ({ phase }: RecipientResult) => phase === 'local';

/** True for one that was put off before the dot, or not asked for: a fresh connection may offer more. */
const isOpenYet = (result: RecipientResult) =>
  isUnasked(result) || (result.outcome === 'deferred' && result.phase !== 'dot' && !result.uncertain);
