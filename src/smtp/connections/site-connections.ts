import type { Connection } from './connection.ts';

/** A site (whose servers they are) and how many of our connections it gets at a time. */
export interface SiteLimits {
  name: string;
  /** Connections to all of its hosts, idle ones included. */
  connections: number;
  /** How many messages one connection carries at most; null: the usual number. */
  perConnection: number | null;
}

/**
 * Counts this process's connections to each site: being dialed, in use or idle. A connection no longer counts once it
 * says QUIT, although the server may see it a moment longer.
 */
export class SiteConnections {
  readonly #numbers = new Map<string, number>();
  readonly #sites = new Map<Connection, string>();

  of(site: string): number {
    return this.#numbers.get(site) ?? 0;
  }

  isOf(site: string, connection: Connection): boolean {
    return this.#sites.get(connection) === site;
  }

  /** A connection is being dialed: it counts until `dialFailed`, or from `opened` on until `ended`. */
  dialing(site: string): void {
    this.#add(site, 1);
  }

  dialFailed(site: string): void {
    this.#add(site, -1);
  }

  opened(site: string, connection: Connection): void {
    this.#sites.set(connection, site);
    connection.whenLost(() => this.ended(connection));
  }

  /** The connection now works for this site, which shares hosts with the one before. */
  movedTo(site: string, connection: Connection): void {
    if (this.#sites.get(connection) === site) return;
    const known = this.#sites.has(connection);
    this.ended(connection);
    this.#add(site, 1);
    if (known) this.#sites.set(connection, site);
    else this.opened(site, connection);
  }

  /** The connection is lost or about to say QUIT. */
  ended(connection: Connection): void {
    const site = this.#sites.get(connection);
    if (site === undefined) return;
    this.#sites.delete(connection);
    this.#add(site, -1);
  }

  #add(site: string, change: 1 | -1): void {
    const number = this.of(site) + change;
    if (number > 0) this.#numbers.set(site, number);
    else this.#numbers.delete(site);
  }
}
