import type { Site } from './providers.ts';

/**
 * What an attempt says about the site: it took or judged mail, it wants less, it was not reached, this server could not
 * even try, or nothing.
 */
export type Verdict = 'fine' | 'slower' | 'unreachable' | 'untried' | 'nothing';

/** When the site may get another message: now, after one under way ends, or at a given time, by its rate or a back-off. */
export type Turn =
  | { when: 'now' }
  | { when: 'after another' }
  | { when: 'later'; at: number; by: 'rate' | 'backoff'; reason: string };

export interface ThrottleOptions {
  /** The first back-off from a site that is not reached, in ms; it doubles each time, up to `longestMs`. */
  backoffMs: number;
  longestMs: number;
  /** How many nodes share the limits. */
  nodes?: () => number;
  /** Milliseconds on any clock that does not jump. */
  now?: () => number;
}

/** How this node stands with a site. */
export interface SiteState {
  site: Site;
  running: number;
  /** Connections that it may have now. */
  window: number;
  /** The most connections it can have, as this node's share. */
  most: number;
  /** Nothing is tried until then, on the throttle's clock; null: no back-off. */
  backoffUntil: number | null;
  /** Why the window is below its maximum. */
  reason: string | null;
  lastReply: string | null;
  /** When it last took or judged mail, on the throttle's clock; null: not yet. */
  lastSuccessAt: number | null;
  /** Attempts that ended per second: a moving average, with which `waitFor` estimates. */
  perSecond: number;
}

interface Entry extends Omit<SiteState, 'most'> {
  /** True until the site first wants less: the window grows by one per success until then, and by one per window afterwards. */
  slowStart: boolean;
  /** Back-offs in a row. */
  failures: number;
  /** Attempts that began before this say nothing new about the site. */
  judgedAt: number;
  /** When the rate allows the next message. */
  nextAt: number;
  /** When an attempt last ended. */
  endedAt: number;
  /** When an attempt last began or ended. */
  usedAt: number;
}

/** An attempt that was begun. */
export interface Ticket {
  name: string;
  startedAt: number;
}

/** Connections that a site may have at first, and once it can be reached again. */
const firstWindow = 5;
/** Once it can be reached again, but lets in only some of our connections. */
const besideWindow = 2;

const couldNotTry = 'this server could not open a connection';
const notAllLetIn = 'the server took mail, but not all connections';
const forgetAfterMs = 3_600_000;

/** How long a site counts as one that takes mail. */
const provenMs = 900_000;
/** How long after it took mail a failed connection is no sign that the site is down. */
const upMs = 10_000;

/**
 * Limits how much each site gets at once. It begins with a few connections, gets one more with each success, half of them
 * when the site asks for less or lets in only some, and none for a while when it cannot be reached; mail that waits meanwhile
 * uses up no attempt.
 * Limits are for all nodes together, and each node keeps to its share.
 */
export class Throttle {
  readonly #options: Required<ThrottleOptions>;
  readonly #entries = new Map<string, Entry>();

  constructor(options: ThrottleOptions) {
    this.#options = { nodes: () => 1, now: () => performance.now(), ...options };
  }

  /** When the site may get its next message. */
  turn(site: Site): Turn {
    const entry = this.#entry(site);
    const now = this.#options.now();
    if (entry.backoffUntil !== null && now < entry.backoffUntil) {
      const reason = entry.reason ?? 'the server could not be reached';
      return { when: 'later', at: entry.backoffUntil, by: 'backoff', reason };
    }
    if (entry.running >= this.#windowOf(entry)) return { when: 'after another' };
    if (now < entry.nextAt) {
      const reason = `${site.name} gets ${site.perMinute} messages a minute`;
      return { when: 'later', at: entry.nextAt, by: 'rate', reason };
    }
    return { when: 'now' };
  }

  /** Whether the site took or judged mail within the last quarter of an hour, and how many attempts are under way. */
  record(site: Site): { proven: boolean; running: number } {
    const entry = this.#entries.get(site.name);
    if (!entry) return { proven: false, running: 0 };
    return { proven: this.#options.now() - fineAt(entry) < provenMs, running: entry.running };
  }

  /** How many more attempts it could have now, whatever its record: up to its connections, and with a rate one at a time. */
  spare(site: Site): number {
    const { running, nextAt } = this.#entry(site);
    const free = Math.max(0, this.#most(site) - running);
    if (site.perMinute === null) return free;
    return this.#options.now() < nextAt ? 0 : Math.min(free, 1);
  }

  /** Counts an attempt that begins; `end` or `cancel` gets the ticket. */
  begin(site: Site): Ticket {
    const entry = this.#entry(site);
    const now = this.#options.now();
    entry.running += 1;
    entry.usedAt = now;
    if (site.perMinute !== null) entry.nextAt = Math.max(entry.nextAt, now) + this.#stepOf(site);
    return { name: site.name, startedAt: now };
  }

  /** Takes back an attempt that was begun but not made. */
  cancel({ name }: Ticket): void {
    const entry = this.#entries.get(name);
    if (!entry) return;
    entry.running = Math.max(0, entry.running - 1);
    entry.nextAt -= this.#stepOf(entry.site);
  }

  /** How many connections it may have now, including those that wait for a message. */
  connections(site: Site): number {
    return this.#windowOf(this.#entry(site));
  }

  /** How much the site gets now, as one sentence. */
  describe(site: Site): string {
    const entry = this.#entry(site);
    const most = this.#most(site);
    const rate = site.perMinute === null ? '' : `, ${site.perMinute} messages a minute`;
    return `${site.name}: ${entry.running} under way, ${this.#windowOf(entry)} at once for now, at most ${most}${rate}`;
  }

  /**
   * Learns from an attempt that is over.
   *
   * @param reply what the server said, or why it said nothing
   * @param messages sent in the attempt: `begin` counted the first, and each of the others delays the next turn
   */
  end(ticket: Ticket, verdict: Verdict, reply: string | null, messages = 1): void {
    const entry = this.#entries.get(ticket.name);
    if (!entry) return;
    const now = this.#options.now();
    entry.running = Math.max(0, entry.running - 1);
    entry.usedAt = now;
    const rate = 1_000 / Math.max(1, now - entry.endedAt);
    entry.perSecond += (Math.min(rate, 10_000) - entry.perSecond) / 20;
    entry.endedAt = now;
    if (messages > 1 && entry.site.perMinute !== null)
      entry.nextAt = Math.max(entry.nextAt, now) + (messages - 1) * this.#stepOf(entry.site);
    if (reply !== null) entry.lastReply = reply;
    if (verdict === 'nothing') return;
    if (verdict === 'fine') {
      this.#grow(entry, ticket);
    } else if (verdict === 'untried') {
      this.#pause(entry);
    } else if (ticket.startedAt >= entry.judgedAt) {
      // A firewall that lets in a few connections at a time resets the others.
      const isUp = fineAt(entry) >= entry.judgedAt && now - fineAt(entry) < upMs;
      entry.judgedAt = now;
      entry.slowStart = false;
      if (verdict === 'slower')
        this.#halve(entry, 'the server wanted less mail at a time', 'the server wants less mail at a time');
      else if (isUp) this.#halve(entry, notAllLetIn, 'the server could not be reached');
      else this.#backOff(entry, 'the server could not be reached');
    }
  }

  /** Lets a site be tried at once, whatever its record. */
  forget(name: string): void {
    const entry = this.#entries.get(name);
    if (entry) Object.assign(entry, { backoffUntil: null, failures: 0, reason: null, nextAt: 0 });
  }

  /** The sites that were used within the last hour. */
  states(): SiteState[] {
    const now = this.#options.now();
    for (const [name, entry] of this.#entries) {
      if (entry.running === 0 && now - entry.usedAt > forgetAfterMs) this.#entries.delete(name);
    }
    return [...this.#entries.values()].map((entry) => ({
      ...entry,
      window: this.#windowOf(entry),
      most: this.#most(entry.site),
      backoffUntil: entry.backoffUntil !== null && now < entry.backoffUntil ? entry.backoffUntil : null,
    }));
  }

  /** Estimates how long a line of this length would take to go out, in ms. */
  waitFor(site: Site, line: number): number {
    return (line / Math.max(0.2, this.#entry(site).perSecond)) * 1_000;
  }

  #grow(entry: Entry, { startedAt }: Ticket): void {
    entry.lastSuccessAt = this.#options.now();
    const recovered = entry.failures > 0;
    entry.failures = 0;
    entry.backoffUntil = null;
    // It began before the site counted as out of reach, and was let in while others were not.
    const beside = recovered && startedAt < entry.judgedAt;
    if (beside) entry.reason = notAllLetIn;
    if (recovered) entry.window = beside ? besideWindow : firstWindow;
    else entry.window += entry.slowStart ? 1 : 1 / entry.window;
    entry.window = Math.min(entry.window, entry.site.connections);
    if (entry.window >= this.#most(entry.site) || entry.reason === couldNotTry) entry.reason = null;
  }

  /** @param ifNone the reason if a single connection is still too much */
  #halve(entry: Entry, reason: string, ifNone: string): void {
    const before = this.#windowOf(entry);
    if (before < 2) {
      this.#backOff(entry, ifNone);
      return;
    }
    entry.window = Math.floor(before / 2);
    const connections = entry.window === 1 ? '1 connection' : `${entry.window} connections`;
    entry.reason = `${reason}: ${connections} instead of ${before}`;
  }

  /** Not held against the site: the pause does not grow, and the window and its reason stay as they are. */
  #pause(entry: Entry): void {
    const until = this.#options.now() + this.#options.backoffMs;
    if (entry.backoffUntil !== null && entry.backoffUntil >= until) return;
    entry.backoffUntil = until;
    entry.reason ??= couldNotTry;
  }

  #backOff(entry: Entry, reason: string): void {
    const { backoffMs, longestMs, now } = this.#options;
    entry.failures += 1;
    entry.backoffUntil = now() + Math.min(backoffMs * 2 ** (entry.failures - 1), longestMs);
    // The next attempt goes alone, as a probe.
    entry.window = 1;
    entry.reason = reason;
  }

  /** The time between two messages by the rate, in ms. */
  #stepOf({ perMinute }: Site): number {
    return perMinute === null ? 0 : (60_000 * this.#options.nodes()) / perMinute;
  }

  #windowOf(entry: Entry): number {
    return Math.max(1, Math.min(Math.floor(entry.window), this.#most(entry.site)));
  }

  #most(site: Site): number {
    return Math.max(1, Math.floor(site.connections / Math.max(1, this.#options.nodes())));
  }

  #entry(site: Site): Entry {
    const known = this.#entries.get(site.name);
    if (known) return known;
    const now = this.#options.now();
    const entry: Entry = {
      site,
      running: 0,
      window: firstWindow,
      slowStart: true,
      failures: 0,
      judgedAt: Number.NEGATIVE_INFINITY,
      backoffUntil: null,
      nextAt: 0,
      reason: null,
      lastReply: null,
      lastSuccessAt: null,
      perSecond: 1,
      endedAt: now,
      usedAt: now,
    };
    this.#entries.set(site.name, entry);
    return entry;
  }
}

const fineAt = ({ lastSuccessAt }: Entry) => lastSuccessAt ?? Number.NEGATIVE_INFINITY;
