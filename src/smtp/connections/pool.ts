import type { Connection } from './connection.ts';
import type { RaceEnd } from './race.ts';
import { SiteConnections, type SiteLimits } from './site-connections.ts';

/** The limits of a pool of connections; each has a default. */
export interface PoolOptions {
  /** Idle connections kept in total; beyond that the longest idle one goes. Less than what all sites use at once costs new ones. */
  maxIdle?: number;
  /** How long a connection may wait for its next message, in milliseconds. */
  idleMs?: number;
  /** How old a connection may get, in milliseconds. */
  maxAgeMs?: number;
  /** The same for one that is in clear because TLS failed: then TLS gets another try. */
  clearForMs?: number;
  /** How many transactions a connection may carry, if its site does not say. */
  maxTransactions?: number;
}

/**
 * Idle connections by the name of their MX host, bounded by number, idle time, age and messages carried. A connection that
 * breaks, or on which the server speaks unasked, is forgotten at once.
 */
export class ConnectionPool {
  readonly #idle = new Map<string, Set<Connection>>();
  readonly #timers = new Map<Connection, NodeJS.Timeout>();
  readonly #leaving = new Set<Promise<void>>();
  readonly #perSite = new SiteConnections();
  readonly #options: Required<PoolOptions>;
  #closed = false;

  constructor({
    maxIdle = 1_000,
    idleMs = 10_000,
    maxAgeMs = 300_000,
    clearForMs = 60_000,
    maxTransactions = 100,
  }: PoolOptions = {}) {
    this.#options = { maxIdle, idleMs, maxAgeMs, clearForMs, maxTransactions };
  }

  /** How many connections are idle. */
  get size(): number {
    return this.#timers.size;
  }

  /**
   * The most recently idle connection that fits, now the caller's; one that is in clear because TLS failed only if there is no
   * other. Null if there is none.
   */
  take(host: string, fits: (connection: Connection) => boolean, site?: SiteLimits): Connection | null {
    const idle = [...(this.#idle.get(host) ?? [])];
    const connection = idle.findLast((one) => !one.lacksTls && fits(one)) ?? idle.findLast(fits);
    if (connection === undefined) return null;
    this.#forget(connection);
    connection.wake();
    if (site) {
      this.#perSite.movedTo(site.name, connection);
      this.#keepTo(site);
    }
    return connection;
  }

  /** Whether a connection that fits is idle. */
  has(host: string, fits: (connection: Connection) => boolean): boolean {
    return [...(this.#idle.get(host) ?? [])].some(fits);
  }

  /** Opens a connection to a site by `dial`; closes idle ones to the site first if that would exceed its limit. */
  async open(site: SiteLimits, dial: () => Promise<RaceEnd>): Promise<RaceEnd> {
    const { name } = site;
    this.#perSite.dialing(name);
    this.#keepTo(site);
    let opened: Connection | undefined;
    try {
      const end = await dial();
      opened = end.winner?.connection;
      return end;
    } finally {
      if (opened) this.#perSite.opened(name, opened);
      else this.#perSite.dialFailed(name);
    }
  }

  /** Whether the connection may carry another message to this site. */
  mayCarry({ transactions, capabilities }: Connection, site?: SiteLimits): boolean {
    const most = site?.perConnection ?? this.#options.maxTransactions;
    return transactions < Math.min(most, capabilities.mails ?? most);
  }

  /** Keeps a connection for its next message to this site, or says QUIT if it has served long enough. */
  release(connection: Connection, site?: SiteLimits): void {
    const { maxIdle, idleMs, maxAgeMs, clearForMs } = this.#options;
    const mostMs = connection.lacksTls ? Math.min(clearForMs, maxAgeMs) : maxAgeMs;
    const ageLeft = mostMs - (performance.now() - connection.openedAt);
    const fit = !this.#closed && ageLeft > 0 && this.mayCarry(connection, site) && maxIdle > 0;
    if (!fit || !connection.rest(() => this.#forget(connection))) {
      this.dismiss(connection);
      return;
    }

    const { host } = connection.target;
    const kept = this.#idle.get(host) ?? new Set();
    this.#idle.set(host, kept.add(connection));
    const timer = setTimeout(() => this.#retire(connection), Math.min(idleMs, ageLeft));
    this.#timers.set(connection, timer.unref());
    if (this.#timers.size <= maxIdle) return;
    const [longestIdle] = this.#timers.keys();
    if (longestIdle !== undefined) this.#retire(longestIdle);
  }

  /** Says QUIT on a connection that should carry no more messages. */
  dismiss(connection: Connection): void {
    this.#perSite.ended(connection);
    const left = connection.quit().finally(() => this.#leaving.delete(left));
    this.#leaving.add(left);
  }

  /** Says QUIT to all, waits until they are closed (a second at most), and keeps none from now on. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const connection of [...this.#timers.keys()]) this.#retire(connection);
    await Promise.all(this.#leaving);
  }

  /** Retires the longest idle connections of a site that has more than it may have now. */
  #keepTo({ name, connections }: SiteLimits): void {
    const tooMany = this.#perSite.of(name) - connections;
    if (tooMany <= 0) return;
    const waiting = [...this.#timers.keys()].filter((connection) => this.#perSite.isOf(name, connection));
    for (const connection of waiting.slice(0, tooMany)) this.#retire(connection);
  }

  #retire(connection: Connection): void {
    this.#forget(connection);
    this.dismiss(connection);
  }

  #forget(connection: Connection): void {
    const { host } = connection.target;
    clearTimeout(this.#timers.get(connection));
    this.#timers.delete(connection);
    const kept = this.#idle.get(host);
    kept?.delete(connection);
    if (kept?.size === 0) this.#idle.delete(host);
  }
}
