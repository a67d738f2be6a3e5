import type { Site } from './providers.ts';
import type { Throttle, Ticket, Verdict } from './throttle.ts';

/** How long an attempt under way is young; after that it only waits for a server. */
const youngMs = 300;

/** The share of all slots for unproven sites, which took no mail lately. */
const shareOfUnproven = 1 / 2;
/** Beyond that, and up to this share, an unproven site gets a first slot if it has no attempt under way. */
const shareOfFirst = 7 / 8;

/** The place of one attempt under way. */
export interface Slot {
  site: Site;
  ticket: Ticket;
  /** The site's limits at the time, as a sentence. */
  remark: string;
  /** Connections that the site may have now: grows with each success, even while an email is read and built. */
  readonly connections: number;
  /** The site had taken no mail lately. */
  unproven: boolean;
  /** Null once it is no longer young. */
  aging: NodeJS.Timeout | null;
}

/**
 * The attempts that this node may have under way. Those that have gone on for a while count only against a larger limit, so
 * that slow servers, however many, take no slot from the others. Sites that took no mail lately never get all slots: hundreds
 * of silent servers, which anybody can set up, would hold up everybody's mail.
 */
export class Slots {
  readonly #limits: { running: number; open: number };
  readonly #throttle: Throttle;
  readonly #onFree: () => void;
  readonly #onRoom: (name: string) => void;
  /** Sites that wait until those that took no mail lately have fewer attempts under way, by name. */
  readonly #waiting = new Set<string>();
  #young = 0;
  #all = 0;
  #unproven = 0;

  /**
   * @param onFree called when there is a slot after there was none
   * @param onRoom called with the name of a site that was noted as waiting, when it may have its first slot
   */
  constructor(
    limits: { running: number; open: number },
    throttle: Throttle,
    onFree: () => void,
    onRoom: (name: string) => void,
  ) {
    this.#limits = limits;
    this.#throttle = throttle;
    this.#onFree = onFree;
    this.#onRoom = onRoom;
  }

  get free(): boolean {
    return this.#young < this.#limits.running && this.#all < this.#limits.open;
  }

  /** Whether this site may have a slot. One with no attempt under way is tried even if many like it wait for an answer. */
  freeFor(site: Site): boolean {
    return this.free && this.#leftFor(site) > 0;
  }

  /** To be called for a site that has more to send: if only the share of unproven sites is used up, `onRoom` follows once. */
  noteWaiting(site: Site): void {
    if (this.free && !this.#hasRoomForFirst && !this.freeFor(site)) this.#waiting.add(site.name);
  }

  /** Roughly how many slots this site may have now, whatever its record. */
  roomFor(site: Site): number {
    if (!this.free) return 0;
    return Math.min(this.#limits.running - this.#young, this.#leftFor(site), this.#throttle.spare(site));
  }

  /** How many more this site may have under way. */
  #leftFor(site: Site): number {
    const left = this.#limits.open - this.#all;
    const { proven, running } = this.#throttle.record(site);
    if (proven) return left;
    const first = running === 0 ? Math.min(1, this.#leftOf(shareOfFirst)) : 0;
    return Math.min(left, Math.max(0, first, this.#leftOf(shareOfUnproven)));
  }

  /** How many more attempts unproven sites may have under way, up to this share. */
  #leftOf(share: number): number {
    return Math.ceil(this.#limits.open * share) - this.#unproven;
  }

  get #hasRoomForFirst(): boolean {
    return this.free && this.#leftOf(shareOfFirst) > 0;
  }

  take(site: Site): Slot {
    this.#young += 1;
    this.#all += 1;
    const unproven = !this.#throttle.record(site).proven;
    if (unproven) this.#unproven += 1;
    const throttle = this.#throttle;
    const ticket = throttle.begin(site);
    const slot: Slot = {
      site,
      ticket,
      unproven,
      remark: throttle.describe(site),
      get connections() {
        return throttle.connections(site);
      },
      aging: null,
    };
    slot.aging = setTimeout(() => {
      slot.aging = null;
      this.#change(() => (this.#young -= 1));
    }, youngMs);
    return slot;
  }

  /** Gives back the slot of an attempt that is over. @param messages sent in the attempt */
  give(slot: Slot, verdict: Verdict, reply: string | null, messages: number): void {
    this.#throttle.end(slot.ticket, verdict, reply, messages);
    this.#free(slot);
  }

  /** Gives back a slot in which no attempt was made. */
  cancel(slot: Slot): void {
    this.#throttle.cancel(slot.ticket);
    this.#free(slot);
  }

  #free(slot: Slot): void {
    this.#change(() => {
      if (slot.aging !== null) this.#young -= 1;
      clearTimeout(slot.aging ?? undefined);
      slot.aging = null;
      this.#all -= 1;
      if (slot.unproven) this.#unproven -= 1;
    });
  }

  #change(work: () => void): void {
    const before = this.free;
    work();
    if (!before && this.free) this.#onFree();
    for (const name of this.#waiting) {
      if (!this.#hasRoomForFirst) return;
      this.#waiting.delete(name);
      this.#onRoom(name);
    }
  }
}
