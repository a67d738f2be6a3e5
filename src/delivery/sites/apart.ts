import { BoundedMap } from '../../bounded-map.ts';
import type { Site } from './providers.ts';
import type { Verdict } from './throttle.ts';

/** How long a destination stays a site of its own. */
const apartMs = 15 * 60_000;
const mostApart = 10_000;

/** How many sites with unreached destinations are remembered. */
const mostSites = 10_000;

/** After this many unreached destinations in a row, the site itself counts as unreachable. */
const manyUnreached = 5;

/** What an attempt's result is about: the site, DNS (it named no hosts to ask), or another operator's host among the MX hosts. */
export type Whose = 'site' | 'dns' | 'another';

/** What an attempt says about the site, and what follows for the destination. */
export interface Judged {
  verdict: Verdict;
  /** The destination is a site of its own from now on. */
  apart: boolean;
  /** That site, if the destination had none of its own before. */
  newSite: Site | null;
}

interface Entry {
  site: Site;
  /** The name of the site that takes its mail. */
  sharedSite: string;
  until: number;
}

/**
 * Destinations that cannot be reached, or not at the current pace, while nothing is wrong with the site that takes their mail.
 * A name server that is down, an MX record that names a dead host of a provider, or another operator's second MX host that
 * wants less mail must not hold up all the others there. So each such destination is a site of its own for a while.
 */
export class Apart {
  readonly #now: () => number;
  readonly #entries = new BoundedMap<string, Entry>(mostApart);
  /** By site: the destinations that were not reached since the site last took or judged mail. */
  readonly #unreached = new BoundedMap<string, Set<string>>(mostSites);

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** The destination as its own site; null: it shares a site with others. */
  siteOf(destination: string): Site | null {
    return this.#find(destination)?.site ?? null;
  }

  /** The name of the site that takes the mail of a destination that is apart; null: it is not apart. */
  sharedSiteOf(destination: string): string | null {
    return this.#find(destination)?.sharedSite ?? null;
  }

  judge(site: Site, destination: string, verdict: Verdict, whose: Whose): Judged {
    if (verdict === 'fine' || (verdict === 'slower' && whose === 'site')) this.#unreached.delete(site.name);
    const isOwnSite = site.name === destination;
    if (isOwnSite && verdict === 'fine') this.#entries.delete(destination);
    const isReason = verdict === 'unreachable' || (verdict === 'slower' && whose === 'another');
    if (isOwnSite || !isReason) return { verdict, apart: false, newSite: null };
    const wasApart = this.#find(destination) !== null;
    const ownSite = this.#add(destination, site);
    const isOfSite = verdict === 'unreachable' && whose === 'site' && this.#areManyUnreached(site, destination);
    return { verdict: isOfSite ? verdict : 'nothing', apart: true, newSite: wasApart ? null : ownSite };
  }

  /** Lets the destination of this name, or all of the site of this name, share a site again. @returns the destinations */
  end(name: string): string[] {
    this.#unreached.delete(name);
    const ended = [...this.#entries].filter(
      ([destination, { sharedSite }]) => destination === name || sharedSite === name,
    );
    for (const [destination] of ended) this.#entries.delete(destination);
    return ended.map(([destination]) => destination);
  }

  #find(destination: string): Entry | null {
    const entry = this.#entries.get(destination);
    return entry && entry.until > this.#now() ? entry : null;
  }

  #add(destination: string, shared: Site): Site {
    const site = { ...shared, name: destination };
    this.#entries.set(destination, { site, sharedSite: shared.name, until: this.#now() + apartMs });
    return site;
  }

  /** Counts the destination as not reached; true if so many are that it is the site, and then they are counted anew. */
  #areManyUnreached(site: Site, destination: string): boolean {
    const unreached = (this.#unreached.get(site.name) ?? new Set()).add(destination);
    const many = unreached.size >= manyUnreached;
    if (many) this.#unreached.delete(site.name);
    else this.#unreached.set(site.name, unreached);
    return many;
  }
}
