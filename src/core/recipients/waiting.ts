import type { Database, Sql, Statement } from '../../db/client.ts';
import { unseen } from '../../db/prepared.ts';

/** Names a recipient. */
export interface Key {
  emailId: string;
  position: number;
}

/**
 * SQL: a recipient `r` that is not settled. Its last part says the same, but only the first one tells the planner that the rows
 * are in two partial indexes; without it, it reads all recipients that are kept.
 */
export const isUnsettled =
  '((r.job_id IS NULL AND r.next_attempt_at IS NOT NULL) OR r.job_id IS NOT NULL) AND r.next_attempt_at IS NOT NULL';

/** SQL: a recipient `r` that is not settled, and does not just wait for its scheduled time. */
export const isDueOrTried =
  '(r.job_id IS NOT NULL OR r.next_attempt_at <= now() OR r.attempts > 0 OR r.waiting_for IS NOT NULL)';

/**
 * How long a statement may take that counts all that waits, in ms. It holds no lock, and only operators and metrics ask: with
 * some millions, or fewer on a busy machine, the usual time would leave them without an answer just when they look.
 */
const countMs = 30_000;

/** Runs a statement that reads all that waits to count it. */
export const queryAllWaiting = <Row>(db: Database, statement: Statement): Promise<Row[]> =>
  db.session((session) => session.query<Row>(statement), countMs);

/** Some of the recipients that wait: SQL conditions on a recipient `r`, which share one list of values. */
export interface Selection {
  /** A condition on `account_id` and `next_attempt_at` alone: rows that do not meet it are not read. */
  due: string;
  wanted: string;
  values: unknown[];
  /** Includes recipients that have a job or are claimed by a node. */
  withJob?: boolean;
}

const fetchedAtOnce = 1_000;

/** Of the rows that are not wanted, one in this many is returned all the same: so no statement reads more than 20,000 rows. */
const skippedPerRow = 20;

/**
 * Goes once through these waiting recipients, as they are when it begins: those without a job first, and those of an account
 * in the order in which they are due. It reads each row once, however many there are, with short statements.
 *
 * A cursor, and not a LIMIT from where the last statement ended: thousands are due at the same moment, and the index does not
 * order those.
 *
 * @param size the most recipients that are worked on together
 * @param isOver asked before each statement; true ends the walk
 * @param ms how long it goes on from the first of them that it finds, as a walk after this one has to read again what comes
 *   before its own first one. What it has found by then is worked on. If that changed nothing, it goes on: the next walk would
 *   come no farther
 * @param work processes a batch; it has to check itself whether its recipients are still as they were. It returns false if it
 *   changed none
 * @returns false if it was ended early
 */
export async function walk(
  db: Database,
  selection: Selection,
  { size, isOver = () => false, ms = Number.POSITIVE_INFINITY }: { size: number; isOver?: () => boolean; ms?: number },
  work: (keys: Key[]) => Promise<unknown>,
): Promise<boolean> {
  return db.session(async (session) => {
    await session.query({ text: 'BEGIN' });
    // Makes PostgreSQL plan for the first rows: otherwise it may sort all of them before it returns one.
    await session.query({ text: 'SET LOCAL cursor_tuple_fraction = 0.000001' });
    await session.query({
      text: `DECLARE waiting NO SCROLL CURSOR FOR ${selectOf(selection)}`,
      values: selection.values,
    });
    let keys: Key[] = [];
    let end = Number.POSITIVE_INFINITY;
    for (;;) {
      if (isOver()) return false;
      const asked = Math.min(fetchedAtOnce, size - keys.length);
      const rows = await session.query<Key | { emailId: null }>({ text: `FETCH ${asked} FROM waiting` });
      for (const row of rows) if (row.emailId !== null) keys.push(row);
      if (keys.length > 0) end = Math.min(end, performance.now() + ms);
      const isEnd = rows.length < asked;
      if (keys.length === size || ((isEnd || performance.now() >= end) && keys.length > 0)) {
        if ((await work(keys)) === false) end = Number.POSITIVE_INFINITY;
        keys = [];
      }
      if (isEnd) return true;
      if (performance.now() >= end) return false;
    }
  });
}

/**
 * Makes those of these recipients due that are still as the selection says. Those that have got a job are left alone.
 *
 * @param dueAt SQL: from when on
 * @returns how many they were
 */
export async function wakeThose(
  db: Sql,
  { due, wanted, values }: Selection,
  keys: Key[],
  dueAt: string,
): Promise<number> {
  const emailIds = unseen(`$${values.length + 1}::uuid[]`);
  const positions = unseen(`$${values.length + 2}::smallint[]`);
  const [row] = await db.query<{ woken: number }>({
    // Not IS NULL: the planner might read all recipients without a job.
    text: `WITH woken AS (
             UPDATE recipients r SET next_attempt_at = ${dueAt}, waiting_for = NULL
               FROM unnest(${emailIds}, ${positions}) AS k (email_id, position)
              WHERE r.email_id = k.email_id AND r.position = k.position AND num_nulls(r.job_id) = 1 AND ${due} AND ${wanted}
          RETURNING 1)
           SELECT count(*)::int AS woken FROM woken`,
    values: [...values, keys.map(({ emailId }) => emailId), keys.map(({ position }) => position)],
  });
  return row?.woken ?? 0;
}

/** Rows that are not wanted have no `emailId`. */
function selectOf({ due, wanted, withJob = false }: Selection): string {
  const part = (job: string, order: string) => `
    (SELECT email_id, position, ${wanted} AS wanted FROM recipients r WHERE job_id ${job} AND next_attempt_at IS NOT NULL AND ${due} ORDER BY ${order})`;
  return `SELECT CASE WHEN wanted THEN email_id END AS "emailId", position
            FROM (SELECT *, row_number() OVER (ROWS UNBOUNDED PRECEDING) AS number
                    FROM (${part('IS NULL', 'account_id, next_attempt_at')}
                          ${withJob ? `UNION ALL ${part('IS NOT NULL', 'account_id, email_id, position')}` : ''}) both_parts) numbered
           WHERE wanted OR number % ${skippedPerRow} = 0`;
}
