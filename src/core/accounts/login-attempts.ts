import type { Database, Sql } from '../../db/client.ts';
import { apartMs } from '../../db/clocks.ts';
import { rateLimited } from '../../errors.ts';
import { Turns } from '../../pace/turns.ts';

const windowSeconds = 15 * 60;

/** How many failures each kind of subject may have in that time. */
const allowed = { pair: 10, email: 300, address: 100, password: 10 };

/** Attempts for the same subject wait for each other, and each holds a connection that others need. */
const counting = new Turns(2, 1_000, 'counts of attempts to log in');

/** Whom failures count for: a kind, a colon, and the email, address or user. */
export type Subject = `${keyof typeof allowed}:${string}`;

/** One try of a password. It counts as failed until the password is known to be right. */
export interface Attempt {
  /** Forgets this attempt and all earlier failures of these subjects. */
  succeeded(forgotten: Subject[]): Promise<void>;
  /** Runs the check of the password. If that throws, only this attempt is forgotten. */
  look<T>(work: () => Promise<T>): Promise<T>;
}

/**
 * Counts an attempt before the password is checked, so concurrent attempts on any nodes get no more tries than sequential
 * ones. A refused attempt is not counted: continuing to try does not extend the lockout.
 *
 * @throws ApiError 429; 503 when too many attempts come at once
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
      // If the database was late, the password was not tried. The first error says more than a failure to forget the
      // attempt.
      await forget([]).catch(() => undefined);
      throw error;
    }
  };
  return { succeeded: forget, look };
}

/** @returns the ids of what was counted; or, when there are too many failures, the seconds until attempts count again */
function count(db: Database, subjects: Subject[]): Promise<{ wait: number | null; ids: string[] }> {
  return db.transaction(async (tx) => {
    // In the same order everywhere: two transactions would otherwise deadlock.
    await tx.query({
      text: 'SELECT pg_advisory_xact_lock(hashtextextended(s, 0)) FROM unnest($1::text[]) s',
      values: [subjects.toSorted()],
    });
    const over = await tx.query<{ wait: number }>({
      // A failure in the future was counted while the clock was ahead: with it, whoever tries would be locked out until then.
      text: `SELECT ceil(extract(epoch FROM max(at) + make_interval(secs => $2) - now()))::int AS wait
               FROM (SELECT subject, at, row_number() OVER (PARTITION BY subject ORDER BY at DESC) AS nth
                       FROM login_failures WHERE subject = ANY($1) AND at > now() - make_interval(secs => $2)
                        AND at < now() + make_interval(secs => ${apartMs / 1_000})) recent
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

/** Lets a user try again, from any address. @param user with the email in the form that failures are counted under */
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
