import type { Sql } from './client.ts';

/**
 * Whether this session is the only one that does this, on whichever node; it is until it ends.
 *
 * @param work what is done, by which all nodes call it
 */
export async function isAlone(session: Sql, work: string): Promise<boolean> {
  const [lock] = await session.query<{ mine: boolean }>({
    text: `SELECT pg_try_advisory_lock(hashtext('sendwright ' || $1)) AS mine`,
    values: [work],
  });
  return lock?.mine ?? false;
}
