/** How a call to an endpoint went. */
export interface Answered {
  works: boolean;
  durationMs: number;
}

interface Known {
  /** Calls at once; a part of one is what has been learned towards the next. */
  room: number;
  /** Good answers so far. */
  count: number;
  /** The logarithm of what a call takes lately, in ms: the mean of that is not moved much by one answer that is late. */
  usual: number;
  /** The least that `usual` has been: what a call takes that waits for no other there. */
  best: number;
  since: number;
}

/** Whoever answers so soon is not crowded, however much sooner it was before. */
const soonMs = 100;
/** Calls that take so many times as long as the best wait for each other at the endpoint. */
const crowdedFrom = 2;
/**
 * Answers that say what is usual. A single one does not: where some take 50 ms and some 500, as with most endpoints, nearly all
 * take more than twice as long as the quickest.
 */
const usualOf = 48;
/** Without so many nothing is known: the first that are answered are the quickest of those that were asked together. */
const leastKnown = 24;
/** What one answer changes: a quarter more with each round of good ones, so that `usual` can follow. */
const step = 0.25;
/** Then it begins anew: among many calls at once nobody sees how long one takes by itself, and that may have changed. */
const knownForMs = 300_000;
const mostKnown = 10_000;

/**
 * How many calls each endpoint gets at once. At first, and while it fails, that is `least`: it may be a small site. Once it is known
 * what it takes for a call there is a little more with each good answer, up to `most`, so that a newsletter is told of in minutes and not
 * in hours; while calls take so much longer that they only wait there, a little less with each, and with a failure half.
 */
export class EndpointRoom {
  readonly #least: number;
  readonly #most: number;
  readonly #now: () => number;
  /** Those that have more than the least, or are on their way; the latest last. */
  readonly #known = new Map<string, Known>();

  constructor(least: number, most: number, now = () => performance.now()) {
    this.#least = least;
    this.#most = most;
    this.#now = now;
  }

  of(webhookId: string): number {
    return Math.floor(this.#fresh(webhookId)?.room ?? this.#least);
  }

  /** @param underWay calls to it when this one ended, itself among them: what it was not given it has not shown to bear */
  learn(webhookId: string, { works, durationMs }: Answered, underWay: number): void {
    const known = this.#fresh(webhookId) ?? this.#unknown();
    this.#known.delete(webhookId);
    // A refusal may come sooner than any answer.
    this.#known.set(webhookId, works ? this.#after(known, durationMs, underWay) : this.#bounded(known, known.room / 2));
    const [oldest] = this.#known.keys();
    if (this.#known.size > mostKnown && oldest !== undefined) this.#known.delete(oldest);
  }

  #after(known: Known, durationMs: number, underWay: number): Known {
    const count = known.count + 1;
    const usual = known.usual + (Math.log(Math.max(1, durationMs)) - known.usual) / Math.min(count, usualOf);
    if (count < leastKnown) return { ...known, count, usual };
    const best = Math.min(usual, known.best);
    const isCrowded = usual > Math.max(Math.log(soonMs), best + Math.log(crowdedFrom));
    const isUsed = underWay >= Math.floor(known.room);
    return this.#bounded({ ...known, count, usual, best }, known.room + (isCrowded ? -step : isUsed ? step : 0));
  }

  #bounded(known: Known, room: number): Known {
    return { ...known, room: Math.min(this.#most, Math.max(this.#least, room)) };
  }

  #unknown(): Known {
    return { room: this.#least, count: 0, usual: 0, best: Infinity, since: this.#now() };
  }

  #fresh(webhookId: string): Known | undefined {
    const known = this.#known.get(webhookId);
    return known && this.#now() - known.since < knownForMs ? known : undefined;
  }
}
