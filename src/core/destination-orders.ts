import type { Database, Sql } from '../db/client.ts';
import { dueFromNow } from '../db/clocks.ts';
import { unseen } from '../db/prepared.ts';
import { newId } from '../ids.ts';
import type { Logger } from '../log.ts';
import { domainOf, domainsOf, dueNow, find, pausedUntil, type Standing, waitingForPause } from './destinations.ts';
import { type Key, type Some, walk } from './waiting.ts';

/** What operators said about a destination or a site. */
export interface Order {
  name: string;
  pausedAt: Date | null;
  flushedAt: Date | null;
}

/** What an order has made due so far. */
export interface Woken {
  recipients: number;
  /** There are more, which nodes that deliver make due. */
  rest: boolean;
}

/** What an order has still to make due. It stays until nothing is left of it, whoever is killed meanwhile. */
interface Waking {
  id: string;
  name: string;
  kind: 'resume' | 'flush' | 'aside';
  /** The domains that the name stands for; none for a resume. */
  destinations: string[];
}

/** How many are made due together: by a statement of a second at the most, on a slow machine. */
const batchSize = 5_000;

/** How long the call that gives an order works on it. */
const callMs = 3_000;

/** SQL: when somebody else goes on with a waking, unless who is at it says again that it is. A batch takes no longer. */
const later = `now() + interval '15 seconds'`;
const claimEveryMs = 5_000;

export async function list(db: Database): Promise<Order[]> {
  return db.query<Order>({
    name: 'destination-orders',
    text: `SELECT name, paused_at AS "pausedAt", flushed_at AS "flushedAt" FROM destination_orders`,
  });
}

/**
 * Nothing more is tried at this domain or site until it is resumed; what is under way ends by itself. What an order before
 * has still to make due stays as it is.
 */
export async function pause(db: Database, name: string): Promise<void> {
  await db.transaction(async (tx) => {
    await takeTurn(tx, name);
    await tx.query({
      text: `INSERT INTO destination_orders (name, paused_at) VALUES ($1, now())
             ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(destination_orders.paused_at, now())`,
      values: [name],
    });
    await tx.query({ text: 'DELETE FROM destination_wakings WHERE name = $1', values: [name] });
  });
}

export interface WakingOptions {
  /** Of a batch. */
  size?: number;
  /** After how many ms the rest is left to nodes. */
  ms?: number;
}

/** Lets what waits for this name go on at once, in the order that it became due. */
export async function resume(db: Database, name: string, options: WakingOptions = {}): Promise<Woken> {
  const waking = await db.transaction(async (tx) => {
    await takeTurn(tx, name);
    await tx.query({ text: 'UPDATE destination_orders SET paused_at = NULL WHERE name = $1', values: [name] });
    return ask(tx, { name, kind: 'resume', destinations: [] });
  });
  return begin(db, waking, options);
}

/**
 * Tries everything that waits for this domain or site now, whatever was seen of it; what is scheduled for later, or paused,
 * is left.
 *
 * @param destinations the domains that the name stands for
 */
export async function flush(
  db: Database,
  name: string,
  destinations: string[],
  options: WakingOptions = {},
): Promise<Woken> {
  const waking = await db.transaction(async (tx) => {
    await takeTurn(tx, name);
    await tx.query({
      text: `INSERT INTO destination_orders (name, flushed_at) VALUES ($1, clock_timestamp())
             ON CONFLICT (name) DO UPDATE SET flushed_at = excluded.flushed_at`,
      values: [name],
    });
    return ask(tx, { name, kind: 'flush', destinations });
  });
  return begin(db, waking, options);
}

/**
 * Has made due what nodes put aside for these domains: after a flush of the name, for what was put aside before they heard
 * of it. A node does it within a second, unless all are at orders before it.
 */
export async function wakeAside(db: Database, name: string, destinations: string[]): Promise<void> {
  await db.transaction(async (tx) => {
    await takeTurn(tx, name);
    await ask(tx, { name, kind: 'aside', destinations }, dueFromNow);
  });
}

/**
 * Orders of a name and the batches of what they make due come one after the other, in the order in which they ask. Whoever
 * waited for a row instead could see one batch after another get it first: a row that was changed is nobody's turn.
 */
async function takeTurn(tx: Sql, name: string): Promise<void> {
  await tx.query({ text: 'SELECT pg_advisory_xact_lock(hashtext($1))', values: [`ordered ${name}`] });
}

/** Notes what is to be made due, in the place of what it makes needless. @param nextAt SQL: when nodes see to it */
async function ask(tx: Sql, asked: Omit<Waking, 'id'>, nextAt = later): Promise<Waking> {
  const waking = { id: newId(), ...asked };
  await tx.query({
    text: `WITH needless AS (DELETE FROM destination_wakings WHERE name = $2 AND kind = $3 AND destinations <@ $4)
           INSERT INTO destination_wakings (id, name, kind, destinations, next_at) VALUES ($1, $2, $3, $4, ${nextAt})`,
    values: [waking.id, waking.name, waking.kind, waking.destinations],
  });
  return waking;
}

async function begin(db: Database, waking: Waking, { size = batchSize, ms = callMs }: WakingOptions): Promise<Woken> {
  const end = performance.now() + ms;
  let recipients = 0;
  const note = (woken: number) => {
    recipients += woken;
  };
  // The order stands: whoever gives it again because of an error would have all tried twice.
  const rest = await wake(db, waking, { size, isOver: () => performance.now() >= end, onWoken: note }).catch(
    () => true,
  );
  return { recipients, rest };
}

/**
 * Goes on with what orders have still to make due and nobody is at. Of several nodes one sees to each, and where it is
 * killed another goes on within a quarter of a minute. Orders take turns: a small one does not wait for the end of a large one.
 *
 * @param stop ends it after a batch
 * @param turnMs how long one goes on at the least while others wait
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
    // One that fails does not keep the others waiting.
    await wake(db, waking, { size, isOver: () => stop.aborted, turnMs }).catch((error: Error) =>
      log.warn({ destination: waking.name, error: error.message }, 'not all could be made due; it is tried again'),
    );
  }
}

/** How it goes on, and who hears of it. */
interface Waker {
  /** Recipients in a batch. */
  size: number;
  /** Asked before each batch whether that is all for now. */
  isOver: () => boolean;
  /** Told how many were made due by each. */
  onWoken?: (recipients: number) => void;
  /** How long it goes on at the least while others wait. */
  turnMs?: number;
}

/**
 * Makes due what there is, in batches of this size, each a transaction of its own, until it is over or taken back, or others
 * wait for their turn. That is not over before the first batch, as all that comes before it is passed over again.
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
    // One at a time: whichever is still under way at the end is waited for.
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
  // A claim that came after what is said below would keep the rest waiting.
  await claimed;
  const rest = !isDone && !isTakenBack;
  await db.query({
    text: rest
      ? `UPDATE destination_wakings SET next_at = ${dueFromNow} WHERE id = $1`
      : 'DELETE FROM destination_wakings WHERE id = $1',
    values: [waking.id],
  });
  return rest;
}

/** Says that somebody is at it, who may pass over millions before there is a batch. @returns whether others wait meanwhile */
async function claim(db: Database, { id }: Waking): Promise<boolean> {
  const asked = db.query<{ others: boolean }>({
    text: `UPDATE destination_wakings SET next_at = ${later} WHERE id = $1
        RETURNING EXISTS (SELECT FROM destination_wakings o WHERE o.id <> $1 AND o.next_at <= now()) AS others`,
    values: [id],
  });
  const [row] = await asked.catch(() => []);
  return row?.others ?? false;
}

/** @returns how many of these were made due; null: it was taken back */
async function wakeSome(
  tx: Sql,
  { id, name }: Waking,
  { due, wanted, values }: Some,
  keys: Key[],
): Promise<number | null> {
  await takeTurn(tx, name);
  // Nodes of the release before pause a destination without taking anything back.
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
  if (kind === 'resume')
    return {
      due: 'r.next_attempt_at = $1',
      wanted: 'r.waiting_for = $2',
      values: [pausedUntil, waitingForPause(name)],
    };
  return {
    due: 'r.next_attempt_at > now() AND r.next_attempt_at < $1',
    wanted: `r.destination = ANY ($2) AND (r.waiting_for IS NOT NULL${kind === 'flush' ? ' OR r.attempts > 0' : ''})`,
    values: [pausedUntil, destinations],
  };
}

export const orderNames = ['pause', 'resume', 'flush'] as const;
export type OrderName = (typeof orderNames)[number];

/**
 * Does what an operator says about a destination.
 *
 * @returns how it stands now, and what was made due; null for a pause
 * @throws ApiError 404 when the name is neither a domain nor that of a site
 */
export async function give(
  db: Database,
  given: string,
  order: OrderName,
): Promise<{ standing: Standing; woken: Woken | null }> {
  const domains = await domainsOf(db, given);
  const name = domainOf(given) ?? given;
  let woken: Woken | null = null;
  if (order === 'pause') await pause(db, name);
  if (order === 'resume') woken = await resume(db, name);
  if (order === 'flush') woken = await flush(db, name, domains);
  return { standing: await find(db, name), woken };
}
