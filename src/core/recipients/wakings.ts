import type { Database, Sql } from '../../db/client.ts';
import { dueFromNow } from '../../db/clocks.ts';
import { unseen } from '../../db/prepared.ts';
import { newId } from '../../ids.ts';
import type { Logger } from '../../log.ts';
import { dueNow } from './destinations.ts';
import { type Key, type Some, walk } from './waiting.ts';
import { pausedUntil, pauseOf, warmUpOf } from './waiting-for.ts';

/** What was made due so far. */
export interface Woken {
  recipients: number;
  /** There are more, which delivering nodes make due. */
  rest: boolean;
}

/** What an order has yet to make due. It stays until nothing is left, whoever is killed meanwhile. */
interface Waking {
  id: string;
  /** Of a destination or a site; for a pool, the id of a sender's domain. */
  name: string;
  kind: 'resume' | 'flush' | 'aside' | 'pool';
  /** The domains that the name stands for; none for a resume or a pool. */
  destinations: string[];
}

/** How many are made due together: by a statement of at most a second, on a slow machine. */
const batchSize = 5_000;

/** How long the call that gave the order works on it. */
const callMs = 3_000;

/** How many calls work on their orders at once: each needs two connections, and more of them would wait for each other's. */
const mostCalls = 2;
const calling = new WeakMap<Database, number>();

/** SQL: when somebody else takes over a waking, unless its worker renews the claim. A batch takes no longer. */
const later = `now() + interval '15 seconds'`;
const claimEveryMs = 5_000;

export interface WakingOptions {
  /** Recipients in a batch. */
  size?: number;
  /** After this many ms the rest is left to nodes. */
  ms?: number;
}

/**
 * Orders for a name and the batches of what they make due come one after the other, in the order in which they ask. One batch
 * after another could overtake whoever waited for a row lock instead: nobody keeps a turn once the row has changed.
 */
export async function takeTurn(tx: Sql, name: string): Promise<void> {
  await tx.query({ text: 'SELECT pg_advisory_xact_lock(hashtext($1))', values: [`ordered ${name}`] });
}

/** Notes what is to be made due, and drops the notes that it covers. @param nextAt SQL: when nodes take it up */
export async function ask(tx: Sql, asked: Omit<Waking, 'id'>, nextAt = later): Promise<Waking> {
  const waking = { id: newId(), ...asked };
  await tx.query({
    text: `WITH needless AS (DELETE FROM destination_wakings WHERE name = $2 AND kind = $3 AND destinations <@ $4)
           INSERT INTO destination_wakings (id, name, kind, destinations, next_at) VALUES ($1, $2, $3, $4, ${nextAt})`,
    values: [waking.id, waking.name, waking.kind, waking.destinations],
  });
  return waking;
}

/** Makes due what it can in this time. The rest is left to delivering nodes, or all of it if other calls are at theirs. */
export async function begin(
  db: Database,
  waking: Waking,
  { size = batchSize, ms = callMs }: WakingOptions = {},
): Promise<Woken> {
  const others = calling.get(db) ?? 0;
  if (others >= mostCalls) {
    // If even that fails, they take it up a little later.
    await leave(db, waking).catch(() => undefined);
    return { recipients: 0, rest: true };
  }
  calling.set(db, others + 1);
  const end = performance.now() + ms;
  let recipients = 0;
  const note = (woken: number) => {
    recipients += woken;
  };
  // The order stands even after an error: giving it again would try all of them twice.
  const rest = await wake(db, waking, { size, isOver: () => performance.now() >= end, onWoken: note })
    .catch(() => true)
    .finally(() => calling.set(db, (calling.get(db) ?? 1) - 1));
  return { recipients, rest };
}

/**
 * Goes on with orders that have more to make due and that nobody is working on. One of several nodes works on each; if it is
 * killed, another takes over within a quarter of a minute. Orders take turns: a small one does not wait for a large one.
 *
 * @param stop ends it after a batch
 * @param turnMs the least time that one goes on while others wait
 */
export async function wakeRest(
  db: Database,
  log: Pick<Logger, 'warn'>,
  stop: AbortSignal,
  size: number = batchSize,
  turnMs: number = claimEveryMs,
): Promise<void> {
  while (!stop.aborted) {
    const [waking] = await db.query<Waking>({
      text: `UPDATE destination_wakings SET next_at = ${later}
              WHERE id = (SELECT id FROM destination_wakings WHERE next_at <= now() ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED)
          RETURNING id, name, kind, destinations`,
    });
    if (!waking) return;
    // An order that fails does not keep the others waiting.
    await wake(db, waking, { size, isOver: () => stop.aborted, turnMs }).catch((error: Error) =>
      log.warn({ name: waking.name, error: error.message }, 'not all could be made due; it is tried again'),
    );
  }
}

/** How the waking proceeds, and who hears of it. */
interface Waker {
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
 * Makes recipients due in batches of this size, each in its own transaction, until none is left, `isOver` returns true, the
 * order is taken back, or others wait for their turn. Others do not end it before the first batch: everything that comes
 * before that would be passed over again.
 *
 * @returns whether there are more
 */
async function wake(
  db: Database,
  waking: Waking,
  { size, isOver, onWoken, turnMs = claimEveryMs }: Waker,
): Promise<boolean> {
  const some = someOf(waking);
  let isTakenBack = false;
  let hasBegun = false;
  let othersWait = false;
  let claimed: Promise<void> | null = null;
  const claiming = setInterval(() => {
    // One at a time: the one still under way at the end is waited for.
    claimed ??= claim(db, waking).then((others) => {
      othersWait = others;
      claimed = null;
    });
  }, turnMs);
  const endsNow = () => isTakenBack || isOver() || (hasBegun && othersWait);
  const isDone = await walk(db, some, { size, isOver: endsNow }, async (keys) => {
    const woken = await db.transaction((tx) => wakeSome(tx, waking, some, keys));
    isTakenBack = woken === null;
    hasBegun = true;
    onWoken?.(woken ?? 0);
  }).finally(() => clearInterval(claiming));
  // A claim that came after the statements below would keep the rest waiting.
  await claimed;
  const rest = !isDone && !isTakenBack;
  if (rest) await leave(db, waking);
  else await db.query({ text: 'DELETE FROM destination_wakings WHERE id = $1', values: [waking.id] });
  return rest;
}

/** Leaves it to whichever node comes first. */
async function leave(db: Database, { id }: Waking): Promise<void> {
  await db.query({ text: `UPDATE destination_wakings SET next_at = ${dueFromNow} WHERE id = $1`, values: [id] });
}

/** Renews the claim: the walk may pass over millions before there is a batch. @returns whether others wait meanwhile */
async function claim(db: Database, { id }: Waking): Promise<boolean> {
  const asked = db.query<{ others: boolean }>({
    text: `UPDATE destination_wakings SET next_at = ${later} WHERE id = $1
        RETURNING EXISTS (SELECT FROM destination_wakings o WHERE o.id <> $1 AND o.next_at <= now()) AS others`,
    values: [id],
  });
  const [row] = await asked.catch(() => []);
  return row?.others ?? false;
}

/** @returns how many of these were made due; null if the order was taken back */
async function wakeSome(
  tx: Sql,
  { id, name }: Waking,
  { due, wanted, values }: Some,
  keys: Key[],
): Promise<number | null> {
  await takeTurn(tx, name);
  // Nodes of the previous release pause a destination without taking anything back.
  const lock = await tx.query({
    text: `UPDATE destination_wakings w SET next_at = ${later}
            WHERE id = $1 AND NOT (kind = 'resume' AND EXISTS (SELECT FROM destination_orders o WHERE o.name = w.name AND o.paused_at IS NOT NULL))
        RETURNING id`,
    values: [id],
  });
  if (lock.length === 0) return null;
  const place = (index: number) => unseen(`$${values.length + index}::${index === 1 ? 'uuid' : 'smallint'}[]`);
  const [row] = await tx.query<{ woken: number }>({
    // Not IS NULL: the planner might go through all that have no job.
    text: `WITH woken AS (
             UPDATE recipients r SET next_attempt_at = ${dueNow}, waiting_for = NULL
               FROM unnest(${place(1)}, ${place(2)}) AS k (email_id, position)
              WHERE r.email_id = k.email_id AND r.position = k.position AND num_nulls(r.job_id) = 1 AND ${due} AND ${wanted}
          RETURNING 1)
           SELECT count(*)::int AS woken FROM woken`,
    values: [...values, keys.map(({ emailId }) => emailId), keys.map(({ position }) => position)],
  });
  return row?.woken ?? 0;
}

function someOf({ kind, name, destinations }: Waking): Some {
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
