import type { Database } from '../../db/client.ts';

/** Ends a login before its time: from now on its token counts on no node. Again is as good as once. */
export async function end(db: Database, session: { id: string; expiresAt: Date }): Promise<void> {
  await db.query({
    text: 'INSERT INTO ended_sessions (id, expires_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING',
    values: [session.id, session.expiresAt],
  });
}

/** Forgets those whose tokens are past their time anyhow, also for a node whose clock is behind the database's. */
export async function forgetExpired(db: Database): Promise<void> {
  await db.query({ text: `DELETE FROM ended_sessions WHERE expires_at < now() - interval '1 day'` });
}
