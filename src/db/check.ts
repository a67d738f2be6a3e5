import type { Sql } from './client.ts';

const oldestVersion = 150_000;

/**
 * Why this database must not be used, or null: it is too old, or a setting lets it forget what it has committed, which
 * would make our 200 a lie.
 */
export async function refuseDatabase(db: Sql, allowUnsafe: boolean): Promise<string | null> {
  const [row] = await db.query<{ version: number; unsafe: string | null }>({
    text: `SELECT current_setting('server_version_num')::int AS version,
                  (SELECT string_agg(name, ', ') FROM pg_settings
                    WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off') AS unsafe`,
  });
  if (!row || row.version < oldestVersion) return 'DATABASE_URL must name a PostgreSQL 15 or later';
  if (row.unsafe && !allowUnsafe) {
    return `the database has ${row.unsafe} off, so accepted mail can be lost: switch it on, or set ALLOW_UNSAFE_DATABASE=true`;
  }
  return null;
}
