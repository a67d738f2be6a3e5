import type { Site } from './providers.ts';
import type { Verdict } from './throttle.ts';

/** A destination stands for itself for so long. */
const apartMs = 15 * 60_000;
const mostApart = 10_000;

/** So many destinations of a site, one after the other, that were not reached: then it is the site that cannot be. */
const manyUnreached = 5;

/**
 * Destinations that could not be reached while nothing speaks against the site that takes their mail: a name server that
 * is down, or an MX record that names a dead host of a provider, must not keep mail from all the others there. Each is a
 * site of its own for a while.
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

  /**
   * @param resolved false where DNS did not say which hosts to ask, which says nothing of them
   * @returns what the attempt says of the site; and whether the destination stands for itself from now on
   */
  judge(site: Site, destination: string, verdict: Verdict, resolved: boolean): { verdict: Verdict; apart: boolean } {
    if (verdict === 'fine' || verdict === 'slower') this.#unreached.delete(site.name);
    if (verdict === 'fine' && site.name === destination) this.#all.delete(destination);
    if (verdict !== 'unreachable' || site.name === destination) return { verdict, apart: false };
    this.#add(site, destination);
    return { verdict: resolved && this.#areMany(site, destination) ? verdict : 'nothing', apart: true };
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

  #add(site: Site, destination: string): void {
    if (this.#all.size >= mostApart) this.#all.clear();
    this.#all.set(destination, {
      site: { ...site, name: destination },
      of: site.name,
      until: this.#now() + apartMs,
    });
  }

  #areMany(site: Site, destination: string): boolean {
    const unreached = (this.#unreached.get(site.name) ?? new Set()).add(destination);
    const many = unreached.size >= manyUnreached;
    if (many) this.#unreached.delete(site.name);
    else this.#unreached.set(site.name, unreached);
    return many;
  }
}
