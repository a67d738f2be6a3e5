import type { Sql } from './client.ts';

/**
 * Whether this session is the only one, over all nodes, to do this work. If so, it stays the only one until it ends.
 *
 * @param work the name that all nodes have for it
 */
export async function isAlone(session: Sql, work: string): Promise<boolean> {
  const [lock] = await session.query<{ mine: boolean }>({
    text: `SELECT pg_try_advisory_lock(hashtext('sendwright ' || $1)) AS mine`,
    values: [work],
  });
  return lock?.mine ?? false;
}
