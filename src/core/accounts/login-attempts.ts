import type { Database, Sql } from '../../db/client.ts';
import { rateLimited } from '../../errors.ts';
import { Turns } from '../../turns.ts';

const windowSeconds = 15 * 60;

/** How often in that time, by the kind of the subject that is counted for. */
const allowed = { pair: 10, email: 300, address: 100, password: 10 };

/** Those that count for the same subject wait for each other, and each with a connection that others need. */
const counting = new Turns(2, 1_000);

/** What is counted for: its kind, a colon, and whose it is. */
export type Subject = `${keyof typeof allowed}:${string}`;

/** One try of a password, which counts as failed until it is known to be right. */
export interface Attempt {
  /** Forgets it, and with it what failed before for these subjects. */
  succeeded(forgotten: Subject[]): Promise<void>;
  /** Looks at the password; where that could not be done the attempt is forgotten, and it alone. */
  look<T>(work: () => Promise<T>): Promise<T>;
}

/**
 * Counts a try before the password is looked at, so that of many at once, on whichever nodes, no more are let through than
 * one after the other. One that is refused is not counted: whoever goes on trying keeps nobody out for longer.
 *
 * @throws ApiError 429; 503 when too many are asked for at once
 */
export async function begin(db: Database, subjects: Subject[]): Promise<Attempt> {
  const { wait, ids } = await counting.take(() => count(db, subjects));
  if (wait !== null) {
    const minutes = Math.ceil(wait / 60);
    throw rateLimited(wait, `too many failed logins for this email or from this address: try again in ${minutes} min`);
  }
  const forget = async (forgotten: Subject[]) => {
    await db.query({
      text: 'DELETE FROM login_failures WHERE id = ANY($1::bigint[]) OR subject = ANY($2)',
      values: [ids, forgotten],
    });
  };
  const look = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      // What could not be read, as the database was late, is no guess; and what is thrown says more than that this failed too.
      await forget([]).catch(() => undefined);
      throw error;
    }
  };
  return { succeeded: forget, look };
}

/** @returns what was counted; or for how many seconds nothing is, as there was too much */
function count(db: Database, subjects: Subject[]): Promise<{ wait: number | null; ids: string[] }> {
  return db.transaction(async (tx) => {
    // In one order for all, or two could wait for each other.
    await tx.query({
      text: 'SELECT pg_advisory_xact_lock(hashtextextended(s, 0)) FROM unnest($1::text[]) s',
      values: [subjects.toSorted()],
    });
    const over = await tx.query<{ wait: number }>({
      text: `SELECT ceil(extract(epoch FROM max(at) + make_interval(secs => $2) - now()))::int AS wait
               FROM (SELECT subject, at, row_number() OVER (PARTITION BY subject ORDER BY at DESC) AS nth
                       FROM login_failures WHERE subject = ANY($1) AND at > now() - make_interval(secs => $2)) recent
              WHERE nth = ($3::jsonb ->> split_part(subject, ':', 1))::int GROUP BY subject`,
      values: [subjects, windowSeconds, JSON.stringify(allowed)],
    });
    if (over.length > 0) return { wait: Math.max(1, ...over.map((row) => row.wait)), ids: [] };
    const rows = await tx.query<{ id: string }>({
      text: 'INSERT INTO login_failures (subject) SELECT unnest($1::text[]) RETURNING id',
      values: [subjects],
    });
    return { wait: null, ids: rows.map((row) => row.id) };
  });
}

/** Lets a user try again, from wherever. @param user the email in the form in which failures count for it */
export async function forgetAllOf(db: Sql, user: { email: string; userId: string }): Promise<void> {
  await db.query({
    text: `DELETE FROM login_failures
            WHERE subject IN ('email:' || $1, 'password:' || $2) OR (subject LIKE 'pair:%' AND right(subject, length($1) + 1) = ' ' || $1)`,
    values: [user.email, user.userId],
  });
}

/** Forgets failed logins that no longer count. */
export async function forgetOld(db: Database): Promise<void> {
  await db.query({
    text: 'DELETE FROM login_failures WHERE at < now() - make_interval(secs => $1)',
    values: [windowSeconds],
  });
}
