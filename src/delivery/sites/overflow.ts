import type { Claim } from '../../core/recipients/recipients.ts';
import * as recipients from '../../core/recipients/recipients.ts';
import { tooMuchFor } from '../../core/recipients/waiting-for.ts';
import type { Database } from '../../db/client.ts';
import type { Site } from './providers.ts';

/** How many emails are remembered, over all sites; the others become due by themselves. */
const mostRemembered = 10_000;

/** Bounds of how long the end of a line is parked, in ms; chance makes that up to twice as long. */
const shortestMs = 5_000;
const longestMs = 60_000;

interface Parked {
  emailId: string;
  until: Date;
}

/** How long to park the end of a line that would take `lineMs` to go out, in ms; random, so that not all return at once. */
export const overflowMs = (lineMs: number) => Math.min(Math.max(lineMs, shortestMs), longestMs) * (1 + Math.random());

/**
 * The emails that were parked because the line of their site was too long. A site's speed shows only while it has mail, so
 * one that had little passes for slow: if it turns out to be faster, they are *called back*: due before the time
 * that they were parked until.
 */
export class Overflow {
  readonly #db: Database;
  readonly #sites = new Map<string, { site: Site; parked: Parked[] }>();
  #count = 0;

  constructor(db: Database) {
    this.#db = db;
  }

  get sites(): Site[] {
    return [...this.#sites.values()].map(({ site }) => site);
  }

  has({ name }: Site): boolean {
    return this.#sites.has(name);
  }

  /** Parks claims that are too much for this site, and remembers their emails. */
  async park(site: Site, claims: Claim[], until: Date): Promise<void> {
    await recipients.park(this.#db, claims, until, tooMuchFor(site.name));
    this.add(site, claims, until);
  }

  /** Remembers the emails of claims that were parked as too much for this site. */
  add(site: Site, claims: Claim[], until: Date): void {
    const added = claims.slice(0, mostRemembered - this.#count).map(({ emailId }) => ({ emailId, until }));
    if (added.length === 0) return;
    this.#count += added.length;
    const known = this.#sites.get(site.name)?.parked ?? [];
    this.#sites.set(site.name, { site, parked: [...known, ...added] });
  }

  /** Makes the next `count` emails of this site due at once. Does not throw: they become due later by themselves. */
  async callBack(site: Site, count: number, now: Date): Promise<void> {
    const emailIds = this.#take(site, count, now).map(({ emailId }) => emailId);
    if (emailIds.length === 0) return;
    await recipients.unpark(this.#db, emailIds, tooMuchFor(site.name)).catch(() => undefined);
  }

  /** Forgets what is due, to make room for others: the emails of a site that stays slow become due by themselves. */
  forgetDue(now: Date): void {
    for (const site of this.sites) this.#take(site, 0, now);
  }

  /** Takes out the next `count` of this site, and drops all that are due by now. */
  #take(site: Site, count: number, now: Date): Parked[] {
    const known = this.#sites.get(site.name)?.parked ?? [];
    const parked = known.filter(({ until }) => until > now);
    const next = parked.splice(0, count);
    this.#count -= known.length - parked.length;
    if (parked.length > 0) this.#sites.set(site.name, { site, parked });
    else this.#sites.delete(site.name);
    return next;
  }
}
