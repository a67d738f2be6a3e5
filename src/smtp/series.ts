import type { Connection } from './connections/connection.ts';
import type { RecipientResult } from './replies/result.ts';
import { CrowdedOut } from './transaction/crowded-out.ts';
import { type TransactionEnd, type TransactionRequest, transact } from './transaction/transaction.ts';

export interface SeriesRequest extends TransactionRequest {
  /** Recipients that each get a message alone; they come last. */
  alone: ReadonlySet<string>;
  /** True if the connection has carried other messages before. */
  reused: boolean;
  /** Asks whether the connection may carry another message. */
  mayCarry: () => boolean;
}

export interface SeriesEnd {
  /** The recipients that this connection decided about. */
  results: RecipientResult[];
  /** Recipients to try at another host now; their results so far are in `results`. */
  elsewhere: string[];
  /** As in `RecipientsEnd`, of any of its transactions; so is `again`. */
  alone: string[];
  again: boolean;
  /** Recipients whose turn did not come. */
  waiting: string[];
  /** The server wants no more mail over this connection. */
  limited: boolean;
  /** The connection has carried as many messages as it may, deferred none of this one, and recipients are left. */
  usedUp: boolean;
  /** `beforeDot` returned false. */
  givenUp: boolean;
}

/** A kept connection whose failure says nothing about a fresh one: it had died, or had carried enough. */
export interface Stale {
  stale: 'dead' | 'limited';
  reason: string;
}

// RFC 5321 section 4.5.3.1.8: every server takes this many, unless it says that it does not.
const maxRecipients = 100;

/**
 * Sends a message to all of its recipients over one connection, in as many transactions as it takes: recipients that one
 * has no room for go into the next. Begins no other once the series has taken as long as one transaction may.
 */
export async function transactAll(connection: Connection, request: SeriesRequest): Promise<SeriesEnd | Stale> {
  const { envelope, deadlines, reused, alone, mayCarry } = request;
  let atOnce = Math.min(maxRecipients, connection.capabilities.recipients ?? maxRecipients);
  const begunAt = performance.now();
  const crowdedOut = new CrowdedOut();
  const series: SeriesEnd = {
    results: [],
    elsewhere: [],
    alone: [],
    again: false,
    waiting: envelope.recipients,
    limited: false,
    usedUp: false,
    givenUp: false,
  };
  let nextOver: 'this connection' | 'a fresh one' | null;
  do {
    const recipients = series.waiting.slice(0, Math.min(atOnce, together(series.waiting, alone)));
    const end = crowdedOut.amend(await transact(connection, { ...request, envelope: { ...envelope, recipients } }));
    // A connection that has carried nothing yet cannot be used up: the server deferred this very message.
    const hasCarried = connection.transactions > 1 || end.results.some(({ outcome }) => outcome === 'delivered');
    series.limited ||= end.limited && hasCarried;
    const stale = reused && series.results.every(isUnasked) ? staleness(end, series.limited) : null;
    if (stale !== null) return stale;

    series.givenUp ||= end.givenUp;
    series.elsewhere.push(...end.elsewhere);
    series.alone.push(...end.alone);
    series.again ||= end.again;
    const inTime = performance.now() - begunAt < deadlines.transaction;
    const isOver = series.limited || series.givenUp || connection.lost !== null || !inTime;
    atOnce = Math.min(atOnce, end.room ?? atOnce);
    // If the server deferred recipients here, another connection to this host would hear the same again and again.
    const hasDeferred = end.limited || end.room !== null || series.elsewhere.length > 0;
    if (!isOver && mayCarry()) nextOver = 'this connection';
    else nextOver = isOver || hasDeferred ? null : 'a fresh one';

    const onceMore = nextOver === null ? [] : crowdedOut.remember(end);
    series.waiting = [...onceMore, ...series.waiting.slice(recipients.length)];
    series.results.push(...end.results.filter(({ recipient }) => !onceMore.includes(recipient)));
    series.usedUp = nextOver === 'a fresh one' && series.waiting.length > 0;
  } while (nextOver === 'this connection' && series.waiting.length > 0);
  return series;
}

/** How many of these recipients can be in one message, from the first on. */
function together(recipients: string[], alone: ReadonlySet<string>): number {
  if (alone.size === 0) return recipients.length;
  const first = recipients.findIndex((recipient) => alone.has(recipient));
  return first === -1 ? recipients.length : Math.max(1, first);
}

function staleness(end: TransactionEnd, limited: boolean): Stale | null {
  const reason = end.results[0]?.reason ?? 'it puts mail off';
  if (!end.alive) return { stale: 'dead', reason };
  return limited && !end.begun && end.results.every(isOpenYet) ? { stale: 'limited', reason } : null;
}

/** True if we decided without asking the server. */
const isUnasked = ({ phase }: RecipientResult) => phase === 'local';

/** True if it was deferred before the dot, or never asked for: a fresh connection may do better. */
const isOpenYet = (result: RecipientResult) =>
  isUnasked(result) || (result.outcome === 'deferred' && result.phase !== 'dot' && !result.uncertain);
