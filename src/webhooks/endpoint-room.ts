/** How a call to an endpoint went. */
export interface Answered {
  works: boolean;
  durationMs: number;
}

interface Known {
  /** Calls at once; a part of one is what has been learned towards the next. */
  room: number;
  /** What a call takes that waits for no other there: as long as the quickest. */
  bestMs: number;
  since: number;
}

/** Whoever answers so soon is not crowded, however much sooner it was before. */
const soonMs = 100;
/** Calls that take so many times as long as the best wait for each other at the endpoint. */
const crowdedFrom = 2;
/** What one answer changes: half as much again with each round of good ones. */
const step = 0.5;
/** Then it begins anew: among many calls at once nobody sees how long one takes by itself, and that may have changed. */
const knownForMs = 300_000;
const mostKnown = 10_000;

/**
 * How many calls each endpoint gets at once. At first, and while it fails, that is `least`: it may be a small site. With each one
 * that it answers well there is a little more, up to `most`, so that a newsletter is told of in minutes and not in hours; with each
 * that takes so much longer that it only waited there, a little less, and with a failure half.
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
    const known = this.#fresh(webhookId);
    const { room, since, bestMs: best } = known ?? { room: this.#least, since: this.#now(), bestMs: Infinity };
    // A refusal may come sooner than any answer.
    const bestMs = works ? Math.min(durationMs, best) : best;
    const isCrowded = durationMs > Math.max(soonMs, bestMs * crowdedFrom);
    const isUsed = underWay >= Math.floor(room);
    const change = isCrowded ? -step : isUsed ? step : 0;
    const next = works ? room + change : room / 2;
    this.#known.delete(webhookId);
    this.#known.set(webhookId, {
      room: Math.min(this.#most, Math.max(this.#least, next)),
      bestMs,
      since,
    });
    const [oldest] = this.#known.keys();
    if (this.#known.size > mostKnown && oldest !== undefined) this.#known.delete(oldest);
  }

  #fresh(webhookId: string): Known | undefined {
    const known = this.#known.get(webhookId);
    return known && this.#now() - known.since < knownForMs ? known : undefined;
  }
}
