import type { Database } from '../../db/client.ts';

/** Ends a login before its time: from now on every node refuses its token. Idempotent. */
export async function end(db: Database, session: { id: string; expiresAt: Date }): Promise<void> {
  await db.query({
    text: 'INSERT INTO ended_sessions (id, expires_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING',
    values: [session.id, session.expiresAt],
  });
}

/** Deletes ended logins whose tokens have expired, with a day's margin for a node whose clock is behind the database's. */
export async function forgetExpired(db: Database): Promise<void> {
  await db.query({ text: `DELETE FROM ended_sessions WHERE expires_at < now() - interval '1 day'` });
}
