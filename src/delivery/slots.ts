import type { Site } from './providers.ts';
import type { Throttle, Ticket, Verdict } from './throttle.ts';

/** An attempt under way is young for so long; then it only waits for a server. */
const youngMs = 300;

/** What sites may have together that took no mail of late: in all, and those of them that have none under way yet. */
const shareOfUnproven = 1 / 2;
const shareOfFirst = 7 / 8;

/** One attempt that has a slot. */
export interface Started {
  site: Site;
  ticket: Ticket;
  /** How much the site gets at the time. */
  remark: string;
  /** Connections that the site may have now: with each success it is one more, also while an email is read and built. */
  readonly connections: number;
  /** The site had taken no mail of late. */
  unproven: boolean;
  /** Null when it is not young any more. */
  ageing: NodeJS.Timeout | null;
}

/**
 * The attempts that this node may have under way. Those that have gone on for a while count for a larger number only, so
 * that servers which let us wait, however many, take no slot from those that do not. Nor do sites that took no mail of late
 * get all of them: hundreds that say nothing at all, which is what somebody can arrange, would hold up everybody's mail.
 */
export class Slots {
  readonly #limits: { running: number; open: number };
  readonly #throttle: Throttle;
  readonly #onFree: () => void;
  #young = 0;
  #all = 0;
  #unproven = 0;

  /** @param onFree called when there is a slot after there was none */
  constructor(limits: { running: number; open: number }, throttle: Throttle, onFree: () => void) {
    this.#limits = limits;
    this.#throttle = throttle;
    this.#onFree = onFree;
  }

  get free(): boolean {
    return this.#young < this.#limits.running && this.#all < this.#limits.open;
  }

  /** Whether this site may have one of them. One that has none under way is tried even where many like it wait for an answer. */
  freeFor(site: Site): boolean {
    return this.free && this.#leftFor(site) > 0;
  }

  /** How many of them this site may have now, about, whatever was seen of it. */
  roomFor(site: Site): number {
    if (!this.free) return 0;
    return Math.min(this.#limits.running - this.#young, this.#leftFor(site), this.#throttle.spare(site));
  }

  /** How many more this site may have under way. */
  #leftFor(site: Site): number {
    const left = this.#limits.open - this.#all;
    const { proven, running } = this.#throttle.record(site);
    if (proven) return left;
    const upTo = (share: number) => Math.ceil(this.#limits.open * share) - this.#unproven;
    const first = running === 0 ? Math.min(1, upTo(shareOfFirst)) : 0;
    return Math.min(left, Math.max(0, first, upTo(shareOfUnproven)));
  }

  take(site: Site): Started {
    this.#young += 1;
    this.#all += 1;
    const unproven = !this.#throttle.record(site).proven;
    if (unproven) this.#unproven += 1;
    const throttle = this.#throttle;
    const ticket = throttle.begin(site);
    const started: Started = {
      site,
      ticket,
      unproven,
      remark: throttle.describe(site),
      get connections() {
        return throttle.connections(site);
      },
      ageing: null,
    };
    started.ageing = setTimeout(() => {
      started.ageing = null;
      this.#change(() => (this.#young -= 1));
    }, youngMs);
    return started;
  }

  /** @param messages that were sent in the attempt */
  give(started: Started, verdict: Verdict, reply: string | null, messages = 1): void {
    this.#throttle.end(started.ticket, verdict, reply, messages);
    this.#free(started);
  }

  /** Gives back one that was not used. */
  cancel(started: Started): void {
    this.#throttle.cancel(started.ticket);
    this.#free(started);
  }

  #free(started: Started): void {
    this.#change(() => {
      if (started.ageing !== null) this.#young -= 1;
      clearTimeout(started.ageing ?? undefined);
      started.ageing = null;
      this.#all -= 1;
      if (started.unproven) this.#unproven -= 1;
    });
  }

  #change(work: () => void): void {
    const before = this.free;
    work();
    if (!before && this.free) this.#onFree();
  }
}
