import type { Database } from '../../db/client.ts';
import { databaseCodeOf } from '../../db/errors.ts';
import { floorId } from '../../ids.ts';
import { AccountTurns, type TurnLimits } from '../../pace/account-turns.ts';
import { SharedAnswers } from '../../pace/shared-answers.ts';
import { byHour } from './email-counts.ts';
import { type Bucket, Buckets } from './stats-buckets.ts';
import {
  type Counted,
  complained,
  destinationOfAttempt,
  emailSql,
  type Grouping,
  type Interval,
  inRange,
  mostGroups,
  selectBuckets,
} from './stats-statement.ts';

const hourMs = 3_600_000;

/** Names who runs the mail servers of a destination, given one of them. */
export type ProviderOf = (destination: string, mxHost: string) => string;

export interface StatsQuery {
  from: Date;
  to: Date;
  /** Where counting ends: later than `to` if that is now, as the database's clock may be ahead. */
  until: Date;
  interval: Interval;
  /** Null: everything together. */
  groupBy: Grouping | null;
}

export interface Stats {
  /** What was counted: if others asked for it before, until an earlier time. */
  query: StatsQuery;
  buckets: Bucket[];
  /** How many groups there are; null without a grouping. */
  groupCount: number | null;
}

/** Emails that one statement counts: some millions would take longer than a statement may. */
const countedAtOnce = 100_000;

/** An answer that needs several statements is kept for so many times as long as it took, if there are not too many buckets. */
const keptTimes = 20;
const mostKept = 50_000;

/**
 * Counts that need several statements: one of an account at a time. With more, all of its reads would wait for theirs, and those
 * whose clients have given up and ask again would add up.
 */
const longLimits: TurnLimits = { most: 3, mostOfAccount: 1, mostWaiting: 10, patienceMs: 300_000 };

/**
 * Counts the emails of accounts. What takes long is counted once for all who ask for it at the same time, and then kept for a
 * while: a screen that shows an account's millions, and asks for them twice a minute, would keep the database busy all the time.
 */
export class Statistics {
  readonly #db: Database;
  readonly #turns: AccountTurns;
  readonly #nameOf: ProviderOf;
  readonly #atOnce: number;
  readonly #longTurns = new AccountTurns(longLimits);
  readonly #shared = new SharedAnswers<Stats>({
    times: keptTimes,
    weigh: ({ buckets }) => buckets.length,
    most: mostKept,
  });

  /**
   * @param turns of an account's reads: each statement waits for one, so that its other reads go on between two of them
   * @param atOnce how many emails one statement counts, if there are not more of one hour
   */
  constructor(db: Database, turns: AccountTurns, nameOf: ProviderOf, atOnce = countedAtOnce) {
    this.#db = db;
    this.#turns = turns;
    this.#nameOf = nameOf;
    this.#atOnce = atOnce;
  }

  /**
   * Counts over the account's emails accepted from `from` until before `until`, oldest stretch first. Of more than `mostGroups`
   * groups, those with the most emails.
   *
   * @param asked the same for calls that differ only in the times that they begin at: those of many emails may share an answer
   * @param hasLeft whether the client has gone. What waits for its turn until all who asked have gone is not counted
   * @throws ApiError 503 if the account's turn does not come in time; 499 if it is not counted
   */
  async collect(accountId: string, query: StatsQuery, asked: string, hasLeft = () => false): Promise<Stats> {
    const db = inTurns(this.#db, this.#turns, accountId);
    const parts = await partsOf(db, accountId, query, this.#atOnce);
    const count = () => countAll(db, accountId, query, parts, this.#nameOf);
    if (parts.length === 1) return count();
    const inTurn = (work: () => Promise<Stats>) => this.#longTurns.take(accountId, work);
    return this.#shared.get(`${accountId} ${asked}`, count, { inTurn, hasLeft });
  }
}

const inTurns = (db: Database, turns: AccountTurns, accountId: string): Database => ({
  ...db,
  query: (statement) => turns.take(accountId, () => db.query(statement)),
  session: (work) => turns.take(accountId, () => db.session(work)),
});

async function countAll(
  db: Database,
  accountId: string,
  query: StatsQuery,
  parts: Part[],
  nameOf: ProviderOf,
): Promise<Stats> {
  const ranges = parts.map(({ from, until }) => [accountId, floorId(from), floorId(until)]);
  const providers = query.groupBy === 'provider' ? [JSON.stringify(await findProviders(db, ranges, nameOf))] : [];
  const values = ranges.map((range) => [...range, ...providers]);
  const count = (range: string[]) =>
    db.query<Counted>({ text: selectBuckets(query.interval, query.groupBy), values: range });
  const buckets = new Buckets(query.groupBy !== null);
  for (const range of values) {
    const rows = await count(range);
    if (values.length === 1) return statsOf(query, rows);
    buckets.add(rows);
    // Which groups are the largest of all does not show in a part.
    if ((rows[0]?.groups ?? 0) > mostGroups || buckets.groups > mostGroups)
      return (
        (await countLargest(db, query, values)) ??
        statsOf(query, await count([accountId, floorId(query.from), floorId(query.until), ...providers]))
      );
  }
  return { query, buckets: buckets.end(), groupCount: query.groupBy && buckets.groups };
}

/** What one statement has counted. */
function statsOf(query: StatsQuery, rows: Counted[]): Stats {
  const buckets = new Buckets(query.groupBy !== null);
  buckets.add(rows);
  return { query, buckets: buckets.end(), groupCount: query.groupBy && (rows[0]?.groups ?? 0) };
}

/** PostgreSQL gives the right to make temporary tables to all, and an operator may take it away. */
const insufficientPrivilege = '42501';

/**
 * @param ranges the values of each part, for `selectBuckets`
 * @returns null if our role may not make the table that this takes
 */
async function countLargest(db: Database, query: StatsQuery, ranges: string[][]): Promise<Stats | null> {
  const largest = await findLargest(db, query, ranges).catch((error: unknown) => {
    if (databaseCodeOf(error) === insufficientPrivilege) return null;
    throw error;
  });
  if (largest === null) return null;
  const names = largest.map(({ group }) => group);
  const buckets = new Buckets(true);
  for (const range of ranges) {
    const text = selectBuckets(query.interval, query.groupBy, `$${range.length + 1}::text[]`);
    buckets.add(await db.query<Counted>({ text, values: [...range, names] }));
  }
  return { query, buckets: buckets.end(), groupCount: largest[0]?.groups ?? 0 };
}

/**
 * The groups with the most emails in all parts together, and how many groups there are. They are added up in a table of the
 * session, since there may be as many as emails.
 */
async function findLargest(
  db: Database,
  { groupBy }: StatsQuery,
  ranges: string[][],
): Promise<{ group: string; groups: number }[]> {
  const { joins, group } = emailSql(groupBy);
  return db.session(async (session) => {
    await session.query({ text: 'CREATE TEMP TABLE stats_groups ("group" text NOT NULL, accepted int NOT NULL)' });
    for (const values of ranges)
      await session.query({
        text: `WITH ${complained}
               INSERT INTO stats_groups SELECT ${group}, count(*) FROM emails${joins} WHERE account_id = $1 AND ${inRange('id')} GROUP BY 1`,
        values,
      });
    const largest = await session.query<{ group: string; groups: number }>({
      text: `SELECT "group", (count(*) OVER ())::int AS groups FROM stats_groups
              GROUP BY 1 ORDER BY sum(accepted) DESC, 1 LIMIT ${mostGroups}`,
    });
    // After an error its connection is closed, and the table is gone with it.
    await session.query({ text: 'DROP TABLE stats_groups' });
    return largest;
  });
}

interface Part {
  from: Date;
  until: Date;
}

/** Cuts the range at full hours, between stretches that have `atOnce` emails together. Oldest part first. */
async function partsOf(db: Database, accountId: string, { from, until }: StatsQuery, atOnce: number): Promise<Part[]> {
  const all = { accountId, status: null, type: null };
  const hours = await byHour(db, '', all, { from: new Date(from.getTime() - hourMs), to: until });
  const cuts: Date[] = [];
  let emails = 0;
  for (const hour of hours.toReversed()) {
    if (emails >= atOnce && hour.from > from) {
      cuts.push(hour.from);
      emails = 0;
    }
    emails += hour.emails;
  }
  return [...cuts, until].map((end, index) => ({ from: cuts[index - 1] ?? from, until: end }));
}

/** The provider of each destination that a server was seen of. */
async function findProviders(db: Database, ranges: string[][], nameOf: ProviderOf): Promise<Record<string, string>> {
  const hosts = new Map<string, string>();
  for (const values of ranges) {
    const rows = await db.query<{ destination: string; host: string }>({
      text: `SELECT ${destinationOfAttempt} AS destination, max(a.mx_host) AS host
               FROM emails e JOIN attempts a ON a.email_id = e.id AND ${inRange('a.email_id')}
              WHERE e.account_id = $1 AND ${inRange('e.id')} AND a.mx_host IS NOT NULL
              GROUP BY 1`,
      values,
    });
    for (const { destination, host } of rows) {
      const known = hosts.get(destination);
      if (known === undefined || host > known) hosts.set(destination, host);
    }
  }
  return Object.fromEntries([...hosts].map(([destination, host]) => [destination, nameOf(destination, host)]));
}
