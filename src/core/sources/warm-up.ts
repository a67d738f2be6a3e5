import type { Database } from '../../db/client.ts';
import { noLater } from '../../db/clocks.ts';
import { dayOf, type SendingAddress, type WarmUp, warmUpOn } from '../../smtp/connections/sending-pools.ts';

/** Nodes whose clocks differ may still reserve on the day before; older days are kept for people to look at. */
const keptDays = 30;

/** Messages to reserve on a day, for an address that is warming up. */
export interface Ask {
  ip: string;
  /** The most that it may send on that day. */
  cap: number;
  messages: number;
}

export interface Grant {
  ip: string;
  /** Messages that may be sent, of those asked for. */
  granted: number;
  /** Messages that all nodes together have reserved on that day. */
  messages: number;
}

/**
 * Reserves messages of this day for these addresses, as many as their caps allow; each address may occur once. It is one
 * statement, exact however many nodes ask at the same time.
 */
export async function reserve(db: Database, day: string, asks: Ask[]): Promise<Grant[]> {
  return db.query<Grant>({
    name: 'warm-up-reserve',
    // ORDER BY: every node locks the rows in the same order, so that no two deadlock.
    text: `INSERT INTO warm_up_days AS d (ip, day, cap, messages, granted)
           SELECT ip, $1::date, cap, least(messages, cap), least(messages, cap)
             FROM unnest($2::text[], $3::int[], $4::int[]) AS ask (ip, cap, messages) ORDER BY ip
           ON CONFLICT (ip, day) DO UPDATE
              SET cap = excluded.cap,
                  granted = least(excluded.granted, greatest(0, excluded.cap - d.messages)),
                  messages = d.messages + least(excluded.granted, greatest(0, excluded.cap - d.messages))
        RETURNING ip, granted, messages`,
    values: [day, asks.map(({ ip }) => ip), asks.map(({ cap }) => cap), asks.map(({ messages }) => messages)],
  });
}

/** Messages that were reserved on a day and not sent. */
export interface Unused {
  ip: string;
  day: string;
  messages: number;
}

/** Gives back reserved messages that were not sent; each address and day may occur once. */
export async function giveBack(db: Database, unused: Unused[]): Promise<void> {
  await db.query({
    name: 'warm-up-give-back',
    text: `WITH unused AS (
             SELECT u.* FROM unnest($1::text[], $2::date[], $3::int[]) AS u (ip, day, messages)
               JOIN warm_up_days d ON d.ip = u.ip AND d.day = u.day ORDER BY u.ip, u.day FOR UPDATE OF d)
           UPDATE warm_up_days d SET messages = greatest(0, d.messages - unused.messages)
             FROM unused WHERE d.ip = unused.ip AND d.day = unused.day`,
    values: [unused.map(({ ip }) => ip), unused.map(({ day }) => day), unused.map(({ messages }) => messages)],
  });
}

/**
 * Deletes old days.
 *
 * @param now if the database's clock is behind it, that one counts: a wrong clock must not restart the count of today
 */
export async function forgetOld(db: Database, now: Date = new Date()): Promise<void> {
  const before = dayOf(new Date((await noLater(db, now)).getTime() - keptDays * 86_400_000));
  await db.query({ text: 'DELETE FROM warm_up_days WHERE day < $1::date', values: [before] });
}

/** Reports this node's sending addresses, for people and for the other nodes; false if the node is not on the list. */
export async function report(
  db: Database,
  nodeId: string,
  addresses: readonly SendingAddress[],
  plan: readonly number[],
): Promise<boolean> {
  const rows = await db.query({
    text: `INSERT INTO sending_addresses (node_id, ip, pool, first_day, plan)
           SELECT n.id, a.ip, a.pool, a.first_day, CASE WHEN a.first_day IS NULL THEN '{}' ELSE $5::int[] END
             FROM nodes n, unnest($2::text[], $3::text[], $4::date[]) AS a (ip, pool, first_day) WHERE n.id = $1
           ON CONFLICT DO NOTHING RETURNING ip`,
    values: [
      nodeId,
      addresses.map(({ ip }) => ip),
      addresses.map(({ pool }) => pool),
      addresses.map(({ firstDay }) => firstDay),
      plan,
    ],
  });
  return rows.length > 0;
}

/** A sending address of a node, and its warm-up on a day. */
export interface Standing {
  nodeId: string;
  ip: string;
  pool: string;
  /** Null: it is not warming up. */
  warmUp: (WarmUp & { sent: number }) | null;
}

/** The sending addresses of all nodes, by pool; one that several nodes have is listed several times. */
export async function list(db: Database, day: string): Promise<Standing[]> {
  const rows = await db.query<SendingAddress & { nodeId: string; plan: number[]; sent: number }>({
    text: `SELECT a.node_id AS "nodeId", a.ip, a.pool, a.first_day::text AS "firstDay", a.plan, coalesce(d.messages, 0) AS sent
             FROM sending_addresses a LEFT JOIN warm_up_days d ON d.ip = a.ip AND d.day = $1
            ORDER BY a.pool, a.ip, a.node_id`,
    values: [day],
  });
  return rows.map(({ nodeId, sent, plan, ...address }) => {
    const warmUp = warmUpOn(day, address, plan);
    return { nodeId, ip: address.ip, pool: address.pool, warmUp: warmUp && { ...warmUp, sent } };
  });
}

/** The same, each address once. */
export async function listOnce(db: Database, day: string): Promise<Standing[]> {
  const seen = new Set<string>();
  return (await list(db, day)).filter(({ ip }) => !seen.has(ip) && seen.add(ip));
}
