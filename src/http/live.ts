import type { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { currentAmong } from '../core/accounts/users.ts';
import * as counts from '../core/log/email-counts.ts';
import type { Database } from '../db/client.ts';
import { unavailable } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { Session } from './credentials/auth.ts';

const lookEveryMs = 1_000;
/** Few emails change later: those that were scheduled further ahead, or are retried for longer. Pages ask for them now and then anyway. */
const watchedMs = 4 * 24 * 3_600_000;
const most = 500;
const mostOfUser = 20;
/** How many bytes may wait for a viewer that does not read. */
const mostWaiting = 64 * 1024;

interface Viewer {
  session: Session;
  stream: PassThrough;
  /** The last counts it was sent. */
  told: string;
}

/**
 * Tells the browsers that watch when emails of their account change. It takes one small query a second for all of them
 * together, every ten seconds another for their sessions, and nothing while nobody watches.
 */
export class Live {
  readonly #db: Database;
  readonly #log: Logger;
  readonly #viewers = new Set<Viewer>();
  #watching = false;
  #stopped = false;
  readonly #beatEveryMs: number;
  /** By a clock that nobody sets: with the time of day, viewers would hear nothing for as long as that was put back. */
  #beaten = performance.now();

  constructor(db: Database, log: Logger, { beatEveryMs = 10_000 } = {}) {
    this.#db = db;
    this.#log = log;
    this.#beatEveryMs = beatEveryMs;
  }

  /**
   * Writes server-sent events into this stream until it is closed or the session ends.
   *
   * @throws ApiError 503 if too many viewers watch, or the node is stopping
   */
  async add(session: Session, stream: PassThrough): Promise<void> {
    const sameUser = [...this.#viewers].filter(({ session: { userId } }) => userId === session.userId);
    if (this.#stopped) throw unavailable('the node is stopping', 10);
    if (this.#viewers.size >= most) throw unavailable(`${most} streams of live updates are open`, 10);
    if (sameUser.length >= mostOfUser)
      throw unavailable(`${mostOfUser} streams of live updates of one user are open`, 10);
    const viewer: Viewer = { session, stream, told: '' };
    this.#viewers.add(viewer);
    stream.once('close', () => this.#viewers.delete(viewer));
    try {
      await this.#tell([viewer]);
    } catch (error) {
      stream.destroy();
      throw error;
    }
    void this.#watch();
  }

  /** Ends the streams of one session. Other nodes notice its end within ten seconds. */
  end(sessionId: string): void {
    for (const { session, stream } of this.#viewers) if (session.id === sessionId) stream.end();
  }

  /** Ends all streams. */
  stop(): void {
    this.#stopped = true;
    for (const viewer of this.#viewers) viewer.stream.end();
  }

  /** Runs while there are viewers, and only once at a time. */
  async #watch(): Promise<void> {
    if (this.#watching) return;
    this.#watching = true;
    for (;;) {
      await sleep(lookEveryMs, undefined, { ref: false });
      if (this.#stopped || this.#viewers.size === 0) break;
      await this.#round();
    }
    this.#watching = false;
  }

  async #round(): Promise<void> {
    try {
      if (performance.now() - this.#beaten >= this.#beatEveryMs) await this.#beat();
      await this.#tell([...this.#viewers]);
    } catch (error) {
      // The database is unavailable. Viewers get what they missed once it is back.
      this.#log.debug({ error: (error as Error).message }, 'a live update could not be sent');
    }
  }

  async #tell(viewers: Viewer[]): Promise<void> {
    const accounts = [...new Set(viewers.map(({ session }) => session.accountId))];
    const found = await counts.byStatus(this.#db, accounts, new Date(Date.now() - watchedMs));
    for (const viewer of viewers) {
      const now = JSON.stringify(found.get(viewer.session.accountId) ?? {});
      if (now === viewer.told) continue;
      viewer.told = now;
      this.#write(viewer, `event: emails\ndata: ${now}\n\n`);
    }
  }

  /** Keeps connections alive through proxies, lets viewers see that they are, and ends those whose session is over. */
  async #beat(): Promise<void> {
    this.#beaten = performance.now();
    const viewers = [...this.#viewers];
    const current = await currentAmong(
      this.#db,
      viewers.map(({ session }) => session),
    );
    for (const viewer of viewers) {
      const isOver = viewer.session.expiresAt.getTime() <= Date.now() || !current.has(viewer.session);
      if (isOver) viewer.stream.end();
      else this.#write(viewer, 'event: alive\ndata: {}\n\n');
    }
  }

  #write({ stream }: Viewer, text: string): void {
    if (stream.writableLength > mostWaiting) stream.destroy();
    else if (stream.writable) stream.write(text);
  }
}
