import type { Site } from './providers.ts';
import type { Verdict } from './throttle.ts';

/** A destination stands for itself for so long. */
const apartMs = 15 * 60_000;
const mostApart = 10_000;

/** Sites of which some destinations were not reached. */
const mostSites = 10_000;

/** So many destinations of a site, one after the other, that were not reached: then it is the site that cannot be. */
const manyUnreached = 5;

/** Of whom an attempt tells: of the site, of DNS, which did not say which hosts to ask, or of another's host among the MX hosts. */
export type Whose = 'site' | 'dns' | 'another';

/** What an attempt says of the site, and whether the destination stands for itself from now on; `begins`: since now, as this site. */
export interface Judged {
  verdict: Verdict;
  apart: boolean;
  begins: Site | null;
}

/**
 * Destinations that could not be reached, or not at that pace, while nothing speaks against the site that takes their mail: a
 * name server that is down, an MX record that names a dead host of a provider, or a second MX host of somebody else's that
 * wants less mail, must not keep mail from all the others there. Each is a site of its own for a while.
 */
export class Apart {
  readonly #now: () => number;
  readonly #all = new Map<string, { site: Site; of: string; until: number }>();
  /** By site: the destinations that were not reached since it last took or judged mail. */
  readonly #unreached = new Map<string, Set<string>>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** The destination as a site; null: it belongs to one with others. */
  siteOf(destination: string): Site | null {
    return this.#at(destination)?.site ?? null;
  }

  /** The name of the site that it would belong to. */
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

  /** Ends it for the destination or the site of this name. @returns the destinations that belong with others again */
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
