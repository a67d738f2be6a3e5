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

/** What an attempt says about the site, and whether the destination is its own site now; `begins`: that site, if it is new. */
export interface Judged {
  verdict: Verdict;
  apart: boolean;
  begins: Site | null;
}

/**
 * Destinations that cannot be reached, or not at the current pace, while nothing is wrong with the site that takes their mail.
 * A name server that is down, an MX record that names a dead host of a provider, or another operator's second MX host that
 * wants less mail must not hold up all the others there. So each such destination is a site of its own for a while.
 */
export class Apart {
  readonly #now: () => number;
  readonly #all = new Map<string, { site: Site; of: string; until: number }>();
  /** By site: the destinations that were not reached since the site last took or judged mail. */
  readonly #unreached = new Map<string, Set<string>>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** The destination as its own site; null: it shares a site with others. */
  siteOf(destination: string): Site | null {
    return this.#at(destination)?.site ?? null;
  }

  /** The name of the site that it would otherwise belong to. */
  wouldBeOf(destination: string): string | null {
    return this.#at(destination)?.of ?? null;
  }

  judge(site: Site, destination: string, verdict: Verdict, whose: Whose): Judged {
    if (verdict === 'fine' || (verdict === 'slower' && whose === 'site')) this.#unreached.delete(site.name);
    if (verdict === 'fine' && site.name === destination) this.#all.delete(destination);
    const leaves = verdict === 'unreachable' || (verdict === 'slower' && whose === 'another');
    if (!leaves || site.name === destination) return { verdict, apart: false, begins: null };
    const before = this.siteOf(destination);
    const itself = this.#add(site, destination);
    const ofSite = verdict === 'unreachable' && whose === 'site' && this.#areMany(site, destination);
    return { verdict: ofSite ? verdict : 'nothing', apart: true, begins: before ? null : itself };
  }

  /** Puts the destination of this name, or all of the site, back into their site. @returns the destinations put back */
  end(name: string): string[] {
    this.#unreached.delete(name);
    const ended = [...this.#all].filter(([destination, { of }]) => destination === name || of === name);
    for (const [destination] of ended) this.#all.delete(destination);
    return ended.map(([destination]) => destination);
  }

  #at(destination: string): { site: Site; of: string } | null {
    const found = this.#all.get(destination);
    return found && found.until > this.#now() ? found : null;
  }

  #add(site: Site, destination: string): Site {
    if (this.#all.size >= mostApart) this.#all.clear();
    const itself = { ...site, name: destination };
    this.#all.set(destination, { site: itself, of: site.name, until: this.#now() + apartMs });
    return itself;
  }

  #areMany(site: Site, destination: string): boolean {
    const unreached = (this.#unreached.get(site.name) ?? new Set()).add(destination);
    const many = unreached.size >= manyUnreached;
    if (this.#unreached.size >= mostSites) this.#unreached.clear();
    if (many) this.#unreached.delete(site.name);
    else this.#unreached.set(site.name, unreached);
    return many;
  }
}
