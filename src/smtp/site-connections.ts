import type { Connection } from './connection.ts';

/** Whose servers they are, and what these get of us at a time. */
export interface SiteLimits {
  name: string;
  /** Connections to all of its hosts, those that wait for a message too. */
  connections: number;
  /** Messages that one carries, at the most; null: as many as with all. */
  perConnection: number | null;
}

/**
 * How many connections this process has to each site: being dialled, at work or waiting. One that says QUIT is none any
 * more, although the server may see it for a moment longer.
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

  /** One is dialled: it counts until `given` or `opened`. */
  taken(site: string): void {
    this.#numbers.set(site, this.of(site) + 1);
  }

  /** The one that was dialled did not come about. */
  given(site: string): void {
    const left = this.of(site) - 1;
    if (left > 0) this.#numbers.set(site, left);
    else this.#numbers.delete(site);
  }

  /** The one that was dialled is this: it counts until it is lost, or has `left`. */
  opened(site: string, connection: Connection): void {
    this.#sites.set(connection, site);
    connection.whenLost(() => this.left(connection));
  }

  /** It is at work for another site, which has hosts in common with the one before. */
  moved(site: string, connection: Connection): void {
    if (this.#sites.get(connection) === site) return;
    const known = this.#sites.has(connection);
    this.left(connection);
    this.taken(site);
    if (known) this.#sites.set(connection, site);
    else this.opened(site, connection);
  }

  left(connection: Connection): void {
    const site = this.#sites.get(connection);
    if (site === undefined) return;
    this.#sites.delete(connection);
    this.given(site);
  }
}
