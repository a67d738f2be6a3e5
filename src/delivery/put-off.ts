import type { Claim } from '../core/recipients.ts';
import * as recipients from '../core/recipients.ts';
import { tooMuchFor } from '../core/waiting-for.ts';
import type { Database } from '../db/client.ts';
import type { Site } from './providers.ts';

/** So many are remembered of all sites together; the others are due by themselves. */
const mostRemembered = 10_000;

interface Waiting {
  emailId: string;
  until: Date;
}

const shortestMs = 5_000;
const longestMs = 60_000;

/** For how long the end of a line is put off that would take so long to go out, in ms: not all to the same moment. */
export const putOffMs = (lineMs: number) => Math.min(Math.max(lineMs, shortestMs), longestMs) * (1 + Math.random());

/**
 * The emails that were put back because the line of their site was too long. How fast a site is can be told while it has
 * mail only, so one that had little is taken for a slow one: where it turns out to be faster, they are called back before
 * their time.
 */
export class PutOff {
  readonly #db: Database;
  readonly #sites = new Map<string, { site: Site; waiting: Waiting[] }>();
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

  /** Parks claims that are too much for this site, and remembers them. */
  async park(site: Site, claims: Claim[], until: Date): Promise<void> {
    await recipients.park(this.#db, claims, until, tooMuchFor(site.name));
    this.add(site, claims, until);
  }

  /** Remembers claims that were parked as too much for this site. */
  add(site: Site, claims: Claim[], until: Date): void {
    const added = claims.slice(0, mostRemembered - this.#count).map(({ emailId }) => ({ emailId, until }));
    if (added.length === 0) return;
    this.#count += added.length;
    const known = this.#sites.get(site.name)?.waiting ?? [];
    this.#sites.set(site.name, { site, waiting: [...known, ...added] });
  }

  /** Has the next of this site be due at once, so many. Does not throw: they are due later by themselves. */
  async callBack(site: Site, many: number, now: Date): Promise<void> {
    const emailIds = this.#take(site, many, now).map(({ emailId }) => emailId);
    if (emailIds.length === 0) return;
    await recipients.callBack(this.#db, emailIds, tooMuchFor(site.name)).catch(() => undefined);
  }

  /** Makes room for others: what a site that stays slow was spared is due by itself in the end. */
  forgetDue(now: Date): void {
    for (const site of this.sites) this.#take(site, 0, now);
  }

  /** Takes out the next of this site, so many, and all that are due by now. */
  #take(site: Site, many: number, now: Date): Waiting[] {
    const known = this.#sites.get(site.name)?.waiting ?? [];
    const waiting = known.filter(({ until }) => until > now);
    const next = waiting.splice(0, many);
    this.#count -= known.length - waiting.length;
    if (waiting.length > 0) this.#sites.set(site.name, { site, waiting });
    else this.#sites.delete(site.name);
    return next;
  }
}
