import type { Connection } from './connection.ts';
import type { RaceEnd } from './race.ts';
import { SiteConnections, type SiteLimits } from './site-connections.ts';

export interface PoolOptions {
  /** Idle connections kept in all; the longest idle goes first. */
  maxIdle?: number;
  /** How long one may wait for its next message, in milliseconds. */
  idleMs?: number;
  /** How old one may get, in milliseconds. */
  maxAgeMs?: number;
  /** How many transactions one may carry. */
  maxTransactions?: number;
}

/**
 * Connections between two messages, by key (the MX host name). Bounded by number, idle time, age and messages carried.
 * One that breaks, or on which the server speaks without being asked, is forgotten at once.
 */
export class ConnectionPool {
  readonly #idle = new Map<string, Set<Connection>>();
  readonly #timers = new Map<Connection, NodeJS.Timeout>();
  readonly #leaving = new Set<Promise<void>>();
  readonly #open = new SiteConnections();
  readonly #options: Required<PoolOptions>;
  #closed = false;

  constructor({ maxIdle = 200, idleMs = 10_000, maxAgeMs = 300_000, maxTransactions = 100 }: PoolOptions = {}) {
    this.#options = { maxIdle, idleMs, maxAgeMs, maxTransactions };
  }

  /** How many connections wait. */
  get size(): number {
    return this.#timers.size;
  }

  /** The connection that waited least of those that fit, now the caller's; null when there is none. */
  take(key: string, fits: (connection: Connection) => boolean, site?: SiteLimits): Connection | null {
    const connection = [...(this.#idle.get(key) ?? [])].findLast(fits);
    if (connection === undefined) return null;
    this.#forget(key, connection);
    connection.wake();
    if (site) {
      this.#open.moved(site.name, connection);
      this.#keepTo(site);
    }
    return connection;
  }

  /** Whether one that fits waits. */
  has(key: string, fits: (connection: Connection) => boolean): boolean {
    return [...(this.#idle.get(key) ?? [])].some(fits);
  }

  /** Opens a connection to a site by `dial`, for which others make room that wait for a message to one of its hosts. */
  async open(site: SiteLimits, dial: () => Promise<RaceEnd>): Promise<RaceEnd> {
    const { name } = site;
    this.#open.taken(name);
    this.#keepTo(site);
    let opened: Connection | undefined;
    try {
      const end = await dial();
      opened = end.winner?.connection;
      return end;
    } finally {
      if (opened) this.#open.opened(name, opened);
      else this.#open.given(name);
    }
  }

  /** Whether it may carry another message. @param maxTransactions as for `release` */
  mayCarry({ transactions, capabilities }: Connection, maxTransactions = this.#options.maxTransactions): boolean {
    return transactions < Math.min(maxTransactions, capabilities.mails ?? maxTransactions);
  }

  /**
   * Keeps a connection for its next message, or says QUIT when it has served long enough.
   *
   * @param maxTransactions how many it may carry, where that is not as with all
   */
  release(key: string, connection: Connection, maxTransactions = this.#options.maxTransactions): void {
    const { maxIdle, idleMs, maxAgeMs } = this.#options;
    const ageLeft = maxAgeMs - (performance.now() - connection.openedAt);
    const fit = !this.#closed && ageLeft > 0 && this.mayCarry(connection, maxTransactions) && maxIdle > 0;
    if (!fit || !connection.rest(() => this.#forget(key, connection))) {
      this.#quit(connection);
      return;
    }

    const kept = this.#idle.get(key) ?? new Set();
    this.#idle.set(key, kept.add(connection));
    const timer = setTimeout(() => this.#retire(key, connection), Math.min(idleMs, ageLeft));
    this.#timers.set(connection, timer.unref());
    if (this.#timers.size > maxIdle) this.#dismissOldest();
  }

  /** Says QUIT on a connection that is not to carry another message. */
  dismiss(connection: Connection): void {
    this.#quit(connection);
  }

  /** Says QUIT to all, waits for them to be closed (a second at most), and keeps none from now on. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const [key, connections] of this.#idle) {
      for (const connection of [...connections]) this.#retire(key, connection);
    }
    await Promise.all(this.#leaving);
  }

  /** Where the site has more than it may have now, those say QUIT that waited longest. */
  #keepTo({ name, connections }: SiteLimits): void {
    const tooMany = this.#open.of(name) - connections;
    if (tooMany <= 0) return;
    const waiting = [...this.#timers.keys()].filter((connection) => this.#open.isOf(name, connection));
    for (const connection of waiting.slice(0, tooMany)) this.#retire(connection.target.host, connection);
  }

  #dismissOldest(): void {
    const [oldest] = this.#timers.keys();
    const [key] = [...this.#idle].find(([, connections]) => oldest !== undefined && connections.has(oldest)) ?? [];
    if (oldest !== undefined && key !== undefined) this.#retire(key, oldest);
  }

  #retire(key: string, connection: Connection): void {
    this.#forget(key, connection);
    this.#quit(connection);
  }

  #forget(key: string, connection: Connection): void {
    clearTimeout(this.#timers.get(connection));
    this.#timers.delete(connection);
    const kept = this.#idle.get(key);
    kept?.delete(connection);
    if (kept?.size === 0) this.#idle.delete(key);
  }

  #quit(connection: Connection): void {
    this.#open.left(connection);
    const left = connection.quit().finally(() => this.#leaving.delete(left));
    this.#leaving.add(left);
  }
}
