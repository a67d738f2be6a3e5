import type { Database } from '../../db/client.ts';
import { dueFromNow } from '../../db/clocks.ts';
import { domainOf, domainsOf, find, type Standing } from './destinations.ts';
import * as wakings from './wakings.ts';

/** The orders that operators have given for a destination or a site. */
export interface Order {
  name: string;
  pausedAt: Date | null;
  flushedAt: Date | null;
}

/** How often each node reads the orders, in ms. */
export const readEveryMs = 1_000;

/** Nodes that are well go by an order this long after it was given, in ms. */
export const heardWithinMs = readEveryMs + 500;

/** Every order that is in force, and those of the last day. */
export async function list(db: Database): Promise<Order[]> {
  return db.query<Order>({
    name: 'destination-orders',
    text: `SELECT name, paused_at AS "pausedAt", flushed_at AS "flushedAt" FROM destination_orders`,
  });
}

/**
 * Stops deliveries to this domain or site until it is resumed; those under way finish. Recipients that an earlier order has
 * yet to make due stay as they are.
 */
export async function pause(db: Database, name: string): Promise<void> {
  await db.transaction(async (tx) => {
    await wakings.lockName(tx, name);
    await tx.query({
      text: `INSERT INTO destination_orders (name, paused_at) VALUES ($1, now())
             ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(destination_orders.paused_at, now())`,
      values: [name],
    });
    await tx.query({ text: 'DELETE FROM destination_wakings WHERE name = $1', values: [name] });
  });
}

/** Makes mail that waits for the end of the pause due at once, in the order in which it became due. */
export async function resume(db: Database, name: string, limits: wakings.CallLimits = {}): Promise<wakings.Woken> {
  const waking = await db.transaction(async (tx) => {
    await wakings.lockName(tx, name);
    await tx.query({ text: 'UPDATE destination_orders SET paused_at = NULL WHERE name = $1', values: [name] });
    return wakings.add(tx, { name, kind: 'resume', destinations: [] });
  });
  return wakings.begin(db, waking, limits);
}

/**
 * Makes everything that waits for this domain or site due at once, whatever nodes have seen of it; scheduled and paused
 * recipients stay as they are.
 *
 * @param destinations the domains that the name stands for
 */
export async function flush(
  db: Database,
  name: string,
  destinations: string[],
  limits: wakings.CallLimits = {},
): Promise<wakings.Woken> {
  const waking = await db.transaction(async (tx) => {
    await wakings.lockName(tx, name);
    await tx.query({
      text: `INSERT INTO destination_orders (name, flushed_at) VALUES ($1, clock_timestamp())
             ON CONFLICT (name) DO UPDATE SET flushed_at = excluded.flushed_at`,
      values: [name],
    });
    return wakings.add(tx, { name, kind: 'flush', destinations });
  });
  return wakings.begin(db, waking, limits);
}

/**
 * Makes due what nodes have parked for these domains. Called after a flush of the name, for what was parked before the nodes
 * heard of it. A node does it within a second, unless all are busy with earlier orders.
 */
export async function wakeParked(db: Database, name: string, destinations: string[]): Promise<void> {
  await db.transaction(async (tx) => {
    await wakings.lockName(tx, name);
    await wakings.add(tx, { name, kind: 'aside', destinations }, dueFromNow);
  });
}

/**
 * Forgets the orders that nothing follows from any more: each node reads all of them every second, and every destination that was
 * ever paused or flushed would stay. Nodes that live have long heard of a flush by then.
 */
export async function forgetOld(db: Database): Promise<void> {
  await db.query({
    text: `DELETE FROM destination_orders WHERE paused_at IS NULL AND (flushed_at IS NULL OR flushed_at < now() - interval '1 day')`,
  });
}

export const orderNames = ['pause', 'resume', 'flush'] as const;
export type OrderName = (typeof orderNames)[number];

/**
 * Carries out an operator's order for a destination.
 *
 * @returns how it stands now, and what was made due; null for a pause
 * @throws ApiError 404 if the name is neither a domain nor the name of a site
 */
export async function give(
  db: Database,
  given: string,
  order: OrderName,
): Promise<{ standing: Standing; woken: wakings.Woken | null }> {
  const domains = await domainsOf(db, given);
  const name = domainOf(given) ?? given;
  let woken: wakings.Woken | null = null;
  if (order === 'pause') await pause(db, name);
  if (order === 'resume') woken = await resume(db, name);
  if (order === 'flush') woken = await flush(db, name, domains);
  return { standing: await find(db, name), woken };
}
