import type { Database, Sql } from '../../db/client.ts';
import { dueFromNow } from '../../db/clocks.ts';
import { newId } from '../../ids.ts';
import type { Logger } from '../../log.ts';
import { dueNow } from '../recipients/recipients.ts';
import { type Key, type Selection, wakeThose, walk } from '../recipients/waiting.ts';
import { pausedUntil, pauseOf, warmUpOf } from '../recipients/waiting-for.ts';

/** How many recipients were made due so far. */
export interface Woken {
  recipients: number;
  /** There are more, which delivering nodes make due. */
  rest: boolean;
}

/** What an order has yet to make due. The row stays until nothing is left, even if the process that works on it is killed. */
interface Waking {
  id: string;
  /** Of a destination or a site; for a pool, the id of a sender's domain. */
  name: string;
  /** `aside`: what nodes have parked. */
  kind: 'resume' | 'flush' | 'aside' | 'pool';
  /** The domains that the name stands for; none for a resume or a pool. */
  destinations: string[];
}

/** How many are made due together: a statement takes at most a second for them, even on a slow machine. */
const batchSize = 5_000;

/** How long the call that gave the order works on it. */
const callMs = 3_000;

/** How many calls work on their orders at once: each needs two connections, and more of them would wait for each other's. */
const mostCalls = 2;
const callsAtWork = new WeakMap<Database, number>();

/** SQL: the end of a claim on a waking, unless it is renewed: then another node takes over. A batch takes less time. */
const claimEnd = `now() + interval '15 seconds'`;
const renewEveryMs = 5_000;

/** How much the call that gives an order does itself. */
export interface CallLimits {
  /** Recipients in a batch. */
  size?: number;
  /** After this many ms the rest is left to nodes. */
  ms?: number;
}

/**
 * Makes orders for a name, and the batches of their wakings, run one at a time, first come, first served. A row lock would not
 * do: once the row has changed, those that wait for it lose their turn, and batch after batch could overtake them.
 */
export async function lockName(tx: Sql, name: string): Promise<void> {
  await tx.query({ text: 'SELECT pg_advisory_xact_lock(hashtext($1))', values: [`ordered ${name}`] });
}

/**
 * Records what is to be made due. Earlier wakings that it covers are dropped.
 *
 * @param nextAt SQL: when nodes take it up
 */
export async function add(tx: Sql, order: Omit<Waking, 'id'>, nextAt = claimEnd): Promise<Waking> {
  const waking = { id: newId(), ...order };
  await tx.query({
    text: `WITH needless AS (DELETE FROM destination_wakings WHERE name = $2 AND kind = $3 AND destinations <@ $4)
           INSERT INTO destination_wakings (id, name, kind, destinations, next_at) VALUES ($1, $2, $3, $4, ${nextAt})`,
    values: [waking.id, waking.name, waking.kind, waking.destinations],
  });
  return waking;
}

/**
 * Makes due what it can within the limits, and leaves the rest to delivering nodes. If enough other calls are at work, it
 * leaves all of it to them.
 */
export async function begin(
  db: Database,
  waking: Waking,
  { size = batchSize, ms = callMs }: CallLimits = {},
): Promise<Woken> {
  const others = callsAtWork.get(db) ?? 0;
  if (others >= mostCalls) {
    // If even that fails, nodes take it up when the claim ends.
    await releaseClaim(db, waking).catch(() => undefined);
    return { recipients: 0, rest: true };
  }
  callsAtWork.set(db, others + 1);
  const end = performance.now() + ms;
  let recipients = 0;
  const onWoken = (count: number) => {
    recipients += count;
  };
  // The order stands even after an error: giving it again would try all of them twice.
  const rest = await wake(db, waking, { size, isOver: () => performance.now() >= end, onWoken })
    .catch(() => true)
    .finally(() => callsAtWork.set(db, (callsAtWork.get(db) ?? 1) - 1));
  return { recipients, rest };
}

/**
 * Goes on with wakings that nobody is working on. Of several nodes, one works on each waking; if it is killed, another takes
 * over within 15 seconds. Wakings take turns: a small one does not wait for a large one.
 *
 * @param stop ends it after a batch
 * @param size recipients in a batch
 * @param turnMs the least time that a waking goes on while others wait
 */
export async function wakeRest(
  db: Database,
  log: Pick<Logger, 'warn'>,
  stop: AbortSignal,
  { size = batchSize, turnMs = renewEveryMs } = {},
): Promise<void> {
  while (!stop.aborted) {
    const [waking] = await db.query<Waking>({
      text: `UPDATE destination_wakings SET next_at = ${claimEnd}
              WHERE id = (SELECT id FROM destination_wakings WHERE next_at <= now() ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED)
          RETURNING id, name, kind, destinations`,
    });
    if (!waking) return;
    // One that fails does not keep the others waiting.
    await wake(db, waking, { size, isOver: () => stop.aborted, turnMs }).catch((error: Error) =>
      log.warn({ name: waking.name, error: error.message }, 'not all could be made due; it is tried again'),
    );
  }
}

interface WakeOptions {
  /** Recipients in a batch. */
  size: number;
  /** Asked before each batch; true ends it for now. */
  isOver: () => boolean;
  /** Told how many recipients each batch made due. */
  onWoken?: (recipients: number) => void;
  /** The least time that it goes on while others wait. */
  turnMs?: number;
}

/**
 * Makes recipients due in batches, each in its own transaction, until none is left, `isOver` returns true, the order is
 * withdrawn, or other wakings wait for their turn. Those do not end it before its first batch: otherwise it would read again
 * next time what comes before that.
 *
 * @returns whether there are more
 */
async function wake(
  db: Database,
  waking: Waking,
  { size, isOver, onWoken, turnMs = renewEveryMs }: WakeOptions,
): Promise<boolean> {
  const selection = selectionOf(waking);
  const claim = keepClaim(db, waking, turnMs);
  let isWithdrawn = false;
  let hasBegun = false;
  const endsNow = () => isWithdrawn || isOver() || (hasBegun && claim.othersWait());
  const isDone = await walk(db, selection, { size, isOver: endsNow }, async (keys) => {
    const woken = await db.transaction((tx) => wakeBatch(tx, waking, selection, keys));
    isWithdrawn = woken === null;
    hasBegun = true;
    onWoken?.(woken ?? 0);
  }).finally(() => claim.stopRenewing());
  // A renewal that came after the statements below would keep the rest waiting.
  await claim.lastRenewal();
  const rest = !isDone && !isWithdrawn;
  if (rest) await releaseClaim(db, waking);
  else await db.query({ text: 'DELETE FROM destination_wakings WHERE id = $1', values: [waking.id] });
  return rest;
}

/** Renews the claim on a waking at intervals: the walk may read millions of rows before there is a batch. */
function keepClaim(db: Database, waking: Waking, everyMs: number) {
  let othersWait = false;
  let renewal: Promise<void> | null = null;
  const timer = setInterval(() => {
    // One at a time.
    renewal ??= renewClaim(db, waking).then((others) => {
      othersWait = others;
      renewal = null;
    });
  }, everyMs);
  return {
    /** Whether other wakings waited for a node at the last renewal. */
    othersWait: () => othersWait,
    stopRenewing: () => clearInterval(timer),
    lastRenewal: () => renewal,
  };
}

/** @returns whether other wakings wait for a node; false if that is not known */
async function renewClaim(db: Database, { id }: Waking): Promise<boolean> {
  const renewed = db.query<{ others: boolean }>({
    text: `UPDATE destination_wakings SET next_at = ${claimEnd} WHERE id = $1
        RETURNING EXISTS (SELECT FROM destination_wakings o WHERE o.id <> $1 AND o.next_at <= now()) AS others`,
    values: [id],
  });
  const [row] = await renewed.catch(() => []);
  return row?.others ?? false;
}

/** Leaves it to the node that comes first. */
async function releaseClaim(db: Database, { id }: Waking): Promise<void> {
  await db.query({ text: `UPDATE destination_wakings SET next_at = ${dueFromNow} WHERE id = $1`, values: [id] });
}

/** @returns how many of these recipients were made due; null if the order was withdrawn */
async function wakeBatch(tx: Sql, { id, name }: Waking, selection: Selection, keys: Key[]): Promise<number | null> {
  await lockName(tx, name);
  // Nodes of the previous release pause a destination and leave its wakings in place.
  const renewed = await tx.query({
    text: `UPDATE destination_wakings w SET next_at = ${claimEnd}
            WHERE id = $1 AND NOT (kind = 'resume' AND EXISTS (SELECT FROM destination_orders o WHERE o.name = w.name AND o.paused_at IS NOT NULL))
        RETURNING id`,
    values: [id],
  });
  if (renewed.length === 0) return null;
  return wakeThose(tx, selection, keys, dueNow);
}

/** The recipients that are to be made due. */
function selectionOf({ kind, name, destinations }: Waking): Selection {
  if (kind === 'pool')
    return {
      due: 'r.next_attempt_at > now() AND r.next_attempt_at < $1',
      wanted: `(r.waiting_for LIKE $2 AND EXISTS (SELECT FROM emails e WHERE e.id = r.email_id AND e.domain_id = $3))`,
      values: [pausedUntil, warmUpOf('%'), name],
    };
  if (kind === 'resume')
    return {
      due: 'r.next_attempt_at = $1',
      wanted: 'r.waiting_for = $2',
      values: [pausedUntil, pauseOf(name)],
    };
  return {
    due: 'r.next_attempt_at > now() AND r.next_attempt_at < $1',
    wanted: `r.destination = ANY ($2) AND (r.waiting_for IS NOT NULL${kind === 'flush' ? ' OR r.attempts > 0' : ''})`,
    values: [pausedUntil, destinations],
  };
}
