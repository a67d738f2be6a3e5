import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { PrismaClient } from '../generated/prisma/client.ts';
import type { Logger } from '../log.ts';
import { hasEnded, isConflict, isSilence, lacksPartition } from './errors.ts';
import { FullDisk } from './full-disk.ts';
import { ensurePartitions } from './partitions.ts';
import type { Sql, Statement } from './sql.ts';

export type { Sql, Statement };

/**
 * One pool for everything: Prisma for the nouns that people manage, SQL if a thousand rows are one statement. A statement by
 * itself that fails on a deadlock or a serialization conflict has done nothing, and is repeated like a transaction.
 */
export interface Database extends Sql {
  prisma: PrismaClient;
  /**
   * Runs the work in one transaction and commits it. Work that fails on a deadlock or a serialization conflict is repeated,
   * and run at most three times, so it must not do anything outside the transaction. Work that writes to a week without
   * partitions is repeated once they are made. If a statement of the work fails, all of it fails with that error, even if the
   * work goes on: nothing can be committed then.
   */
  transaction<T>(work: (tx: Sql) => Promise<T>): Promise<T>;
  /**
   * Runs the work on a connection that nobody else gets meanwhile; its settings and session locks end with it. For statements
   * that cannot be part of a transaction.
   *
   * @param statementMs how long one statement may take, if longer than usual
   */
  session<T>(work: (session: Sql) => Promise<T>, statementMs?: number): Promise<T>;
  /** How many connections of the pool are in use or free, and how many statements wait for one. */
  connections(): { busy: number; idle: number; waiting: number };
  /** Whether PostgreSQL refused a statement within the last seconds because its disk is full. */
  isDiskFull(): boolean;
  /** Whether this error says that the server is gone for as long as this process lives: only the embedded one, any other may be back. */
  isGoneForGood(error: unknown): boolean;
  /** From now on somebody waits for each answer: a connection is waited for no longer than usual. */
  hurry(): void;
  close(): Promise<void>;
}

/** How long a free connection of the pool is waited for, in ms. */
const acquireTimeoutMs = 4_000;
/** The same during a start: nobody waits for an answer, and a busy machine must not make it fail. */
export const startTimeoutMs = 20_000;
const statementTimeoutMs = 9_000;

/** How much longer we wait for a silently dead server: with the wait for a connection before it, less than 15 s in all. */
const silenceMs = 1_500;

/** Nothing between two statements of a transaction takes this long, and a live node's lease lasts longer. */
const idleInTransactionMs = 15_000;

/** How long an unused connection is kept: a new one has to prepare and plan every statement of the hot path. */
const idleMs = 300_000;

/** A connection that has been quiet for a while is probed: a device between us and the server may forget it, and either may vanish. */
export const keepAlive = { keepAlive: true, keepAliveInitialDelayMillis: 30_000 };

/** A setting of a session: its name and value. */
type Setting = readonly [name: string, value: string];

/** What statements rely on, whatever the role, the database or the server sets: the value, or how it begins. */
export const reliedOn: readonly Setting[] = [
  // A statement that waited for a lock sees what was committed meanwhile. At another level two calls at once would both find
  // room below a limit.
  ['default_transaction_isolation', 'read committed'],
  // A wait for a lock ends with its statement, unless the transaction says otherwise.
  ['lock_timeout', '0'],
  // We end unused connections ourselves. One that the server ends is noticed by whoever uses it next, whose call would be a 503.
  ['idle_session_timeout', '0'],
  // Times are read as ISO 8601.
  ['DateStyle', 'ISO'],
  // Prisma writes times without their zone, and reads them as if it were this one.
  ['TimeZone', 'UTC'],
  // A backslash within '…' is one, as in the patterns of ours and of pg-boss.
  ['standard_conforming_strings', 'on'],
  // What the driver writes for null in an array is null, and not the text NULL.
  ['array_nulls', 'on'],
];

/** Settings of each session on the server. */
const serverOptions: readonly Setting[] = [
  ...reliedOn,
  // Compiling a count of a log costs more than counting it.
  ['jit', 'off'],
  // The statement that fills up the list of new words sorts them into the log's indexes: at the usual 4 MB, an acceptance stalls
  // for half a second now and then.
  ['gin_pending_list_limit', '512kB'],
  // A prepared plan outlives the table it was made for: one that suits an empty queue or a new week must not scan a full one.
  ['enable_seqscan', 'off'],
];

const asOptions = (settings: readonly Setting[]) =>
  settings.map(([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`).join(' ');

/** The `options` of a connection beside the pool. */
export const plainOptions = asOptions(reliedOn);

/** Most connections of a node's pool. */
export const poolSize = 20;

/**
 * Opens no connection yet: the first statement does.
 *
 * @param acquireMs how long a connection is waited for until `hurry`
 * @param embedded whether the server is the embedded one, which comes back with the next start alone, and elsewhere then
 */
export function connect(
  url: string,
  log: Logger,
  max = poolSize,
  { acquireMs = acquireTimeoutMs, embedded = false } = {},
): Database {
  const pool = createPool(url, max, acquireMs);
  const disk = new FullDisk(log);
  let closing = false;
  pool.on('error', (error) => {
    if (!closing) log.warn({ error: error.message }, 'a database connection was lost');
  });
  // Here every error passes, whichever statement it answers, and whether Prisma wraps it or not.
  pool.on('connect', ({ connection }) => connection.on('errorMessage', (error) => disk.note(error)));
  const adapter = new PrismaPg(pool, {
    disposeExternalPool: false,
    onPoolError: () => undefined,
    onConnectionError: () => undefined,
  });
  const prisma = new PrismaClient({ adapter, transactionOptions: { maxWait: 4_000, timeout: 15_000 } });
  let making: Promise<void> | null = null;
  // All transactions that find no partition at the same time wait for the same ones.
  const makePartitions = () => {
    making ??= ensurePartitions({ query: (statement) => run(pool, statement) }, new Date()).finally(() => {
      making = null;
    });
    return making;
  };
  return {
    prisma,
    query: (statement) => despiteConflicts(() => run(pool, statement)),
    transaction: (work) => transact(pool, work, makePartitions),
    session: (work, statementMs = statementTimeoutMs) => runAlone(pool, work, statementMs),
    connections: () => ({
      busy: pool.totalCount - pool.idleCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
    }),
    isDiskFull: () => disk.isFull,
    isGoneForGood: (error) => embedded && hasEnded(error),
    hurry() {
      // Read whenever a connection is asked for.
      pool.options.connectionTimeoutMillis = acquireTimeoutMs;
    },
    async close() {
      closing = true;
      await prisma.$disconnect();
      await pool.end();
    },
  };
}

function createPool(url: string, max: number, acquireMs: number): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    connectionTimeoutMillis: acquireMs,
    // The second bound is for a silently dead server: no answer is waited for longer.
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs + silenceMs,
    // A node that freezes in a transaction must not keep its locks from the others.
    idle_in_transaction_session_timeout: idleInTransactionMs,
    idleTimeoutMillis: idleMs,
    ...keepAlive,
    options: asOptions(serverOptions),
    application_name: 'sendwright',
  });
  // The pool listens to a connection until it hands it over, a moment before the waiting caller has it. If the connection ends
  // then, or between two statements, only this listener keeps that from ending the process. The next statement fails, and the
  // pool discards an ended connection once it is released.
  pool.on('connect', (client) => client.on('error', () => undefined));
  // Prisma releases a connection that could not commit or roll back as if it had: its session is about to end, or still in the
  // transaction.
  pool.on('release', (error, client) => {
    // The status is null on a new connection that nobody waits for any more.
    if (!error && (client.getTransactionStatus() ?? 'I') !== 'I') void client.end();
  });
  return pool;
}

async function run<Row>(on: pg.Pool | pg.PoolClient, statement: Statement | pg.QueryConfig): Promise<Row[]> {
  const result: pg.QueryResult | pg.QueryResult[] = await on.query(statement as pg.QueryConfig);
  // A text of several statements, such as the queue's migrations, has several results.
  return ((Array.isArray(result) ? result.at(-1)?.rows : result.rows) ?? []) as Row[];
}

const mostRounds = 3;

async function despiteConflicts<T>(work: () => Promise<T>): Promise<T> {
  for (let round = 1; ; round += 1) {
    try {
      return await work();
    } catch (error) {
      if (round >= mostRounds || !isConflict(error)) throw error;
    }
  }
}

async function transact<T>(
  pool: pg.Pool,
  work: (tx: Sql) => Promise<T>,
  makePartitions: () => Promise<void>,
): Promise<T> {
  const inRounds = () => despiteConflicts(() => transactOnce(pool, work));
  return inRounds().catch(async (error: unknown) => {
    if (!lacksPartition(error)) throw error;
    // The clock of the database or of this machine was set to another week, which the chore has not seen yet.
    await makePartitions();
    return inRounds();
  });
}

async function transactOnce<T>(pool: pg.Pool, work: (tx: Sql) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  let failure: unknown;
  const noting = (error: unknown) => {
    failure ??= error;
    throw error;
  };
  try {
    await client.query('BEGIN');
    const result = await work({ query: (statement) => run<never>(client, statement).catch(noting) });
    const { command } = await client.query('COMMIT');
    // PostgreSQL does not refuse to commit after a failed statement: it rolls back, and says only so.
    if (command !== 'COMMIT') throw failure;
    return result;
  } catch (error) {
    // A ROLLBACK would wait for a silent server once more.
    if (isSilence(error)) broken = error;
    else
      await client.query('ROLLBACK').catch((reason: Error) => {
        broken = reason;
      });
    throw error;
  } finally {
    // A connection that could not roll back is discarded instead of being handed on inside a transaction.
    client.release(broken);
  }
}

async function runAlone<T>(pool: pg.Pool, work: (session: Sql) => Promise<T>, statementMs: number): Promise<T> {
  const client = await pool.connect();
  let isClean = false;
  try {
    if (statementMs !== statementTimeoutMs) await client.query(`SET statement_timeout = ${statementMs}`);
    const bound = { query_timeout: statementMs + silenceMs };
    const result = await work({ query: (statement) => run(client, { ...statement, ...bound }) });
    isClean = await clean(client);
    return result;
  } finally {
    client.release(!isClean);
  }
}

/** Ends what a session leaves. A new connection costs the server more than most sessions. @returns whether that worked */
async function clean(client: pg.PoolClient): Promise<boolean> {
  const isOpen = client.getTransactionStatus() !== 'I';
  return client.query(`${isOpen ? 'ROLLBACK; ' : ''}RESET ALL; SELECT pg_advisory_unlock_all()`).then(
    () => true,
    () => false,
  );
}
