import type { Database, Sql } from '../../db/client.ts';
import { deleteRows } from '../../db/delete-rows.ts';
import { databaseCodeOf } from '../../db/errors.ts';
import { byWeight } from '../../pace/by-weight.ts';
import { dayOf } from '../../smtp/connections/sending-pools.ts';
import type { TlsResult, TlsResults } from '../../smtp/reports/tls-results.ts';

/** How many days results are kept, so that those that could not be reported yet still can be. */
const keptDays = 14;

/** The first day (UTC) whose results are kept. */
export const firstKeptDay = (now: Date): string => dayOf(new Date(now.getTime() - keptDays * 86_400_000));

/** Characters of results that are written together. */
const heaviestStatement = 4 * 1024 * 1024;

/** Results written in a transaction whose outcome is unknown. */
interface InDoubt {
  transaction: string;
  results: TlsResult[];
}

const doubts = new WeakMap<TlsResults, InDoubt[]>();

/**
 * Adds what this process has counted since the last call to the results of the day (UTC), a few megabytes per statement.
 * What fails is kept for the next call. A commit whose answer was lost still counts once.
 */
export async function record(db: Database, counted: TlsResults, now: Date = new Date()): Promise<void> {
  await settleDoubts(db, counted);
  const pieces = byWeight(counted.take(), heaviestStatement, weigh);
  for (const [index, piece] of pieces.entries()) {
    let transaction: string | null = null;
    try {
      await add(db, piece, now, (id) => {
        transaction = id;
      });
    } catch (error) {
      if (transaction === null) counted.giveBack(piece);
      else doubts.set(counted, [...(doubts.get(counted) ?? []), { transaction, results: piece }]);
      counted.giveBack(pieces.slice(index + 1).flat());
      throw error;
    }
  }
}

/** Asks the database how those transactions ended. Those still in progress are asked about again by the next call. */
async function settleDoubts(db: Database, counted: TlsResults): Promise<void> {
  for (const one of doubts.get(counted) ?? []) {
    const status = await statusOf(db, one.transaction);
    if (status === 'in progress') continue;
    doubts.set(
      counted,
      (doubts.get(counted) ?? []).filter((other) => other !== one),
    );
    if (status !== 'committed') counted.giveBack(one.results);
  }
}

async function statusOf(db: Database, transaction: string): Promise<string | null> {
  try {
    const [row] = await db.query<{ status: string | null }>({
      text: 'SELECT pg_xact_status($1::xid8) AS status',
      values: [transaction],
    });
    return row?.status ?? null;
  } catch (error) {
    // A server that has taken over may not have got as far as this transaction.
    if (databaseCodeOf(error) === '22023') return null;
    throw error;
  }
}

/** In characters. Only the policy can be long: all other fields together are taken for a kilobyte. */
const weigh = ({ lines, mx }: TlsResult): number =>
  [...lines, ...mx].reduce((characters, line) => characters + line.length, 1_024);

/** @param began is called with the transaction's id before anything is written */
async function add(db: Database, results: TlsResult[], now: Date, began: (transaction: string) => void): Promise<void> {
  // In the same order on every node: two that count the same would otherwise deadlock.
  const rows = results.toSorted((a, b) => (a.domain + a.kind < b.domain + b.kind ? -1 : 1));
  await db.transaction(async (tx) => {
    const [row] = await tx.query<{ id: string }>({ text: 'SELECT pg_current_xact_id()::text AS id' });
    if (row) began(row.id);
    await tx.query({
      text: `INSERT INTO tls_results AS t (day, domain, policy_type, policy, mx, result, host, address, local_address, reason, sessions, kind)
           SELECT $1::date, domain, type, lines, mx, result, host, address, "localAddress", reason, sessions, decode(kind, 'hex')
             FROM json_to_recordset($2::json) AS r (domain text, type text, lines text[], mx text[], result text, host text,
                  address text, "localAddress" text, reason text, sessions integer, kind text)
           ON CONFLICT (day, domain, kind) DO UPDATE SET sessions = t.sessions + excluded.sessions, reason = excluded.reason`,
      values: [dayOf(now), JSON.stringify(rows)],
    });
  });
}

/** Rows that one statement deletes. */
const forgottenAtOnce = 5_000;

/** Deletes old results, and only then their reports: as long as there are results, `plan` would create the reports again. */
export async function forgetOld(db: Sql, now: Date, stop?: AbortSignal): Promise<void> {
  const old = { where: 'day < $1::date', values: [firstKeptDay(now)], atOnce: forgottenAtOnce };
  await deleteRows(db, { ...old, table: 'tls_results' }, stop);
  await deleteRows(db, { ...old, table: 'tls_reports' }, stop);
}
