import { BoundedMap } from '../bounded-map.ts';

/** How a call to an endpoint went. */
export interface Answered {
  works: boolean;
  durationMs: number;
  /** What was called. */
  url: string;
}

interface Known {
  /** Another one may be another server's, about which this says nothing. */
  url: string;
  /** Calls at once; the fraction is progress towards one more. */
  room: number;
  /** Good answers so far. */
  count: number;
  /** The logarithm of a call's recent duration in ms: one late answer hardly moves its mean. */
  usual: number;
  /** The least that `usual` has been: the duration of a call that waits for no other at the endpoint. */
  best: number;
  since: number;
}

/** An endpoint that answers within this time is not crowded, even if it was much faster before. */
const soonMs = 100;
/** Calls that take this many times as long as the best are waiting for each other at the endpoint. */
const crowdedFrom = 2;
/**
 * How many answers define what is usual. A single one cannot: if some take 50 ms and some 500, as at most endpoints, nearly all
 * take more than twice as long as the quickest.
 */
const usualOf = 48;
/** With fewer answers nothing is known: the first to arrive are the quickest of the calls made together. */
const leastKnown = 24;
/** What one answer changes. A round of good answers adds a quarter, so that `usual` can keep up. */
const step = 0.25;
/** Then learning starts over: how long a single call takes may have changed, and cannot be seen while there are many at once. */
const knownForMs = 300_000;
const mostKnown = 10_000;

/**
 * How many calls each endpoint gets at once. At first, and while it fails, that is `least`: it may be a small site. Once the
 * usual duration of a call is known, each good answer adds a little, up to `most`, so that the events of a newsletter arrive
 * in minutes and not in hours. While calls take so long that they only wait there, each takes a little off; a failure halves.
 */
export class EndpointRoom {
  readonly #least: number;
  readonly #most: number;
  readonly #now: () => number;
  /** Endpoints that have answered or failed. */
  readonly #known = new BoundedMap<string, Known>(mostKnown);

  constructor(least: number, most: number, now = () => performance.now()) {
    this.#least = least;
    this.#most = most;
    this.#now = now;
  }

  of(webhookId: string): number {
    return Math.floor(this.#fresh(webhookId)?.room ?? this.#least);
  }

  /** @param underWay calls to it when this one ended, including it: an endpoint gets more room only if it used what it had */
  learn(webhookId: string, { works, durationMs, url }: Answered, underWay: number): void {
    const fresh = this.#fresh(webhookId);
    const known = fresh?.url === url ? fresh : this.#unknown(url);
    // A refusal may come faster than any answer, so its duration teaches nothing.
    this.#known.set(webhookId, works ? this.#after(known, durationMs, underWay) : this.#bounded(known, known.room / 2));
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

  #unknown(url: string): Known {
    return { url, room: this.#least, count: 0, usual: 0, best: Infinity, since: this.#now() };
  }

  #fresh(webhookId: string): Known | undefined {
    const known = this.#known.get(webhookId);
    return known && this.#now() - known.since < knownForMs ? known : undefined;
  }
}
