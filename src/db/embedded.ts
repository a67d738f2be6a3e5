import type { ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from '../log.ts';
import { databaseCodeOf } from './errors.ts';
import { type Binaries, findBinaries, runAs, serverUser } from './postgres-binaries.ts';
import {
  type Cluster,
  createCluster,
  findCluster,
  owner,
  refuseOtherMajor,
  refuseUnfit,
  serverFailure,
} from './postgres-cluster.ts';
import {
  findPostmaster,
  isServedElsewhere,
  lastLines,
  linesAfter,
  type Postmaster,
  serves,
  sizeOf,
  spawnPostmaster,
  stopPostmaster,
} from './postgres-process.ts';

/** A PostgreSQL server that runs for this process alone. */
export interface EmbeddedPostgres {
  /** `postgres://...@127.0.0.1:<port>/sendwright?sslmode=disable`, with `&host=` if it has a Unix socket. */
  url: string;
  /** Whether workers of a killed process are still using it. */
  left: boolean;
  /** Whether the server has ended by itself. */
  isGone(): boolean;
  /** Ends every session and stops the server. The second call waits for the first. */
  stop(): Promise<void>;
}

/** What `startEmbedded` needs to know. */
export interface EmbeddedOptions {
  /** Contains the cluster as `postgres`, and the server's log as `postgres.log`. */
  dataDir: string;
  password: string;
  log: Logger;
  /** Told what is going on if the start takes seconds, as the first one does. */
  onProgress?: (sentence: string) => void;
  /** Told, in a sentence for the operator, that the server ended by itself or is another process's now, for good. */
  onLost?: ((reason: string) => void) | undefined;
  /** Ends a start that is under way: it fails, and stops the server that it has started. After a crash a start may take minutes. */
  signal?: AbortSignal;
  /** More server settings; tests switch fsync off. */
  settings?: Record<string, string>;
  /** How long a server has to answer, from its start and from each time that it says that it is still starting. */
  answerMs?: number;
  /** If we are root: the place for things that the server's user cannot reach in DATA_DIR or in the project. */
  systemDir?: string;
}

const usualAnswerMs = 30_000;
const connectMs = 5_000;
/** How long the lock is waited for: a process that is ending may still hold it. */
const lockMs = 3_000;
/** The SQLSTATE while PostgreSQL replays its log after a crash, and while it shuts down. */
const startingUp = '57P03';
const lockKeys = "hashtext('sendwright'), hashtext('data directory')";

/**
 * Starts the PostgreSQL of a data directory, which the first start creates, or takes over the server that a killed process
 * left running. If another Sendwright process is using the directory, it fails and leaves that one alone.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  if (process.platform === 'win32') throw new Error('the embedded PostgreSQL needs Linux or macOS: set DATABASE_URL');
  const dataDir = path.resolve(options.dataDir);
  const systemDir = options.systemDir ?? '/var/lib/sendwright';
  const user = serverUser();
  fs.mkdirSync(dataDir, { recursive: true, mode: 0o711 });
  // Looked for first: another first start at this moment makes its database before it.
  const log = fs.statSync(logOf(dataDir), { throwIfNoEntry: false });
  const found = findCluster(dataDir, user);
  if (!found && log?.isFile()) throw goneFrom(dataDir);
  const binaries = await findBinaries(found ? found.user : user, [systemDir, os.tmpdir()]);
  if (found) refuseUnfit(found);
  if (found?.user && !runAs(found.user, 'cd "$1"', [found.dir]).ok) {
    throw new Error(
      `the user ${found.user.name}, as whom PostgreSQL runs, cannot enter ${found.dir}: move that folder into ${systemDir} and put a link to it in its place`,
    );
  }
  if (!found) options.onProgress?.('Creating the database (on the first start only)');
  const sync = options.settings?.fsync !== 'off';
  const cluster = found ?? (await createCluster(dataDir, { ...options, binaries, user, sync, systemDir }));
  refuseOtherMajor(cluster, binaries, dataDir);
  if (path.dirname(cluster.dir) !== fs.realpathSync(dataDir)) {
    options.onProgress?.(
      `The database is in ${cluster.dir}, where ${path.join(dataDir, 'postgres')} links to: back up both folders`,
    );
  }

  const server = new Server({ ...options, dataDir }, cluster, binaries);
  await server.start();
  return { url: server.url('sendwright'), left: server.left, isGone: () => server.isGone(), stop: () => server.stop() };
}

/**
 * The server that a running Sendwright has on this data directory; undefined if none does. For commands that use the server
 * but do not own it.
 */
export function findRunning(dataDir: string, password: string): { url: string; pid: number } | undefined {
  const cluster = findCluster(path.resolve(dataDir), serverUser());
  const postmaster = cluster && findPostmaster(cluster.dir);
  return postmaster && { url: urlOf(postmaster, password, 'sendwright'), pid: postmaster.pid };
}

const logOf = (dataDir: string) => path.join(dataDir, 'postgres.log');

/** Such as a volume that is not mounted: a new database in its place would take mail that nobody looks for there. */
const goneFrom = (dataDir: string) =>
  new Error(
    `${dataDir} had a database that is gone, only its postgres.log is there: mount or restore ${path.join(dataDir, 'postgres')}, or remove ${logOf(dataDir)} to start with an empty database`,
  );

class Server {
  readonly #options: EmbeddedOptions;
  readonly #cluster: Cluster;
  readonly #binaries: Binaries;
  readonly #logFile: string;
  #postmaster: Postmaster | undefined;
  /** The session whose advisory lock keeps other Sendwright processes out. */
  #lock: pg.Client | undefined;
  #stopped: Promise<void> | undefined;
  /** See `EmbeddedPostgres`. */
  left = false;

  constructor(options: EmbeddedOptions, cluster: Cluster, binaries: Binaries) {
    this.#options = options;
    this.#cluster = cluster;
    this.#binaries = binaries;
    this.#logFile = logOf(options.dataDir);
  }

  url(database: string): string {
    return urlOf(this.#postmaster ?? nobody, this.#options.password, database);
  }

  async start(): Promise<void> {
    const children: ChildProcess[] = [];
    try {
      this.#lock = await this.#lockServer(children);
      await this.#createDatabase(this.#lock);
      this.left = await hasWorkers(this.#lock);
      this.#lock.once('end', () => void this.#recover());
    } catch (error) {
      await this.#lock?.end();
      // If somebody else holds the lock they are using the server, even if we started it.
      for (const { pid } of error instanceof InUse ? [] : children) {
        if (pid) await stopPostmaster(pid, this.#cluster.dir, this.#options.log);
      }
      throw error;
    }
  }

  isGone(): boolean {
    return !serves((this.#postmaster ?? nobody).pid, this.#cluster.dir);
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#shutDown();
    return this.#stopped;
  }

  async #shutDown(): Promise<void> {
    // The lock is held to the end: a process that starts meanwhile must not adopt a server that is going down.
    if (this.#postmaster) await stopPostmaster(this.#postmaster.pid, this.#cluster.dir, this.#options.log);
    await this.#lock?.end();
  }

  /** Finds or starts the server, waits until it answers, and takes the lock. */
  async #lockServer(children: ChildProcess[]): Promise<pg.Client> {
    const answerMs = this.#options.answerMs ?? usualAnswerMs;
    let deadline = Date.now() + answerMs;
    const logged = sizeOf(this.#logFile);
    let reason = 'it did not start';
    let isSilent = false;
    for (; Date.now() < deadline; await sleep(25)) {
      this.#postmaster = findPostmaster(this.#cluster.dir);
      const child = children.at(-1);
      if (!this.#postmaster && child?.pid && child.exitCode === null && child.signalCode === null) continue;
      // Not while a server is only beginning: it is stopped once it is recognized.
      this.#options.signal?.throwIfAborted();
      if (!this.#postmaster) {
        // The start failed for good, or the port was just taken, or another process was faster: another try will tell.
        if (children.length === 3) break;
        if (await isServedElsewhere(this.#cluster.dir))
          throw new InUse(
            `DATA_DIR ${this.#options.dataDir} is in use by a Sendwright in another container: stop that one, or set another DATA_DIR`,
          );
        children.push(await this.#spawn());
        continue;
      }
      try {
        const lock = await this.#connectAndLock(this.#postmaster);
        // The pid file gets the socket last, but before the server accepts anybody.
        this.#postmaster = findPostmaster(this.#cluster.dir) ?? this.#postmaster;
        return lock;
      } catch (error) {
        if (error instanceof InUse) throw error;
        const { code, message } = error as { code?: string; message: string };
        if (code === '28P01')
          throw new Error(
            `the database in ${this.#cluster.dir} does not accept the password in ${this.#options.dataDir}: restore the secrets.json that belongs to it`,
          );
        // It is recovering from a crash (or shutting down): that may take long, as long as it says so.
        if (code === startingUp) deadline = Date.now() + answerMs;
        reason = message;
        isSilent = !(error instanceof pg.DatabaseError);
      }
    }
    const pid = this.#postmaster?.pid;
    // Left behind by a killed process, and frozen. It is not ours to kill: another Sendwright may be using it.
    if (pid && isSilent && !children.some((child) => child.pid === pid))
      throw new Error(
        `the embedded PostgreSQL that already runs on ${this.#cluster.dir} does not answer (${reason}): end its process with kill -9 ${pid}, which loses no mail, and start again`,
      );
    throw new Error(serverFailure(reason, linesAfter(this.#logFile, logged), this.#logFile));
  }

  #spawn(): Promise<ChildProcess> {
    return spawnPostmaster(this.#cluster, this.#binaries, this.#options.settings ?? {}, this.#logFile);
  }

  async #connectAndLock(postmaster: Postmaster): Promise<pg.Client> {
    const url = urlOf(postmaster, this.#options.password, 'postgres');
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: Math.min(connectMs, this.#options.answerMs ?? usualAnswerMs),
      application_name: `${lockName}${process.pid}`,
    });
    // Without a listener, a lost server would end this process; the 'end' event that follows is handled.
    client.on('error', () => {});
    try {
      await client.connect();
      for (const end = Date.now() + lockMs; ; await sleep(100)) {
        const { rows } = await client.query<{ ours: boolean }>(`SELECT pg_try_advisory_lock(${lockKeys}) AS ours`);
        if (rows[0]?.ours) return client;
        if (Date.now() > end)
          throw new InUse(
            `DATA_DIR ${this.#options.dataDir} is in use by another Sendwright process${await holderOf(client)}: stop that one, or set another DATA_DIR`,
          );
      }
    } catch (error) {
      await client.end();
      throw error;
    }
  }

  async #createDatabase(client: pg.Client): Promise<void> {
    const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = 'sendwright'");
    if (rowCount === 0) await client.query(`CREATE DATABASE sendwright OWNER ${owner}`);
  }

  /**
   * Called when the lock's session is gone and we did not end it. If one of its processes crashes, PostgreSQL ends all sessions
   * and goes on; then the lock is taken again. If the server itself is dead, only a new start brings it back.
   */
  async #recover(): Promise<void> {
    const { log, onLost } = this.#options;
    const postmaster = this.#postmaster ?? nobody;
    const again = `start Sendwright again, and see the end of ${this.#logFile} for the reason`;
    let reason = '';
    for (let tries = 0; this.#stopped === undefined && tries < 60; ) {
      if (!serves(postmaster.pid, this.#cluster.dir)) {
        reason = `the embedded PostgreSQL has stopped unexpectedly: ${again}`;
        break;
      }
      try {
        this.#lock = await this.#connectAndLock(postmaster);
        this.#lock.once('end', () => void this.#recover());
        if (this.#stopped !== undefined) await this.#lock.end();
        else log.warn('the embedded PostgreSQL has ended all sessions after a crash of one of its processes');
        return;
      } catch (error) {
        if (error instanceof InUse) {
          reason = error.message;
          // Stopping it is up to them.
          this.#postmaster = undefined;
          break;
        }
        reason = `the embedded PostgreSQL refuses connections (${(error as Error).message}): ${again}`;
        if (databaseCodeOf(error) !== startingUp) tries += 1;
        await sleep(500);
      }
    }
    if (this.#stopped !== undefined) return;
    log.error({ pid: postmaster.pid, lastLines: lastLines(this.#logFile) }, 'the embedded PostgreSQL is lost');
    onLost?.(reason);
  }
}

class InUse extends Error {}

/** A session ends with its process, so a worker that has one is alive. */
async function hasWorkers(client: pg.Client): Promise<boolean> {
  const { rowCount } = await client.query(
    "SELECT FROM pg_stat_activity WHERE datname = 'sendwright' AND application_name = 'sendwright worker' LIMIT 1",
  );
  return rowCount === 1;
}

/** Stands for no server, before one is found. */
const nobody: Postmaster = { pid: 0, port: 0, socketDir: undefined };

function urlOf({ port, socketDir }: Postmaster, password: string, database: string): string {
  // PGSSLMODE is meant for another server.
  const url = `postgres://${owner}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}?sslmode=disable`;
  return socketDir ? `${url}&host=${encodeURIComponent(socketDir)}` : url;
}

/** The start of the name of the connection that holds the lock; its process id follows. */
const lockName = 'sendwright lock of ';

/** The process that holds the lock, as part of a sentence; empty if unknown. */
async function holderOf(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT application_name AS name FROM pg_stat_activity JOIN pg_locks USING (pid)
      WHERE locktype = 'advisory' AND granted AND application_name LIKE $1`,
    [`${lockName}%`],
  );
  return rows[0] ? ` (${rows[0].name.slice(lockName.length)})` : '';
}
