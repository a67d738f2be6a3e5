import { setImmediate as nextTurn } from 'node:timers/promises';
import { BoundedMap } from '../../bounded-map.ts';
import * as orders from '../../core/destinations/destination-orders.ts';
import * as destinations from '../../core/destinations/destinations.ts';
import * as lastDeliveries from '../../core/destinations/last-deliveries.ts';
import type { Database } from '../../db/client.ts';
import type { Transport } from '../../smtp/deliver.ts';
import { resolveDestination } from '../../smtp/dns/mx.ts';
import { Apart } from '../sites/apart.ts';
import { type Provider, type Site, siteOf } from '../sites/providers.ts';
import { type SiteState, Throttle, type ThrottleOptions, type Verdict } from '../sites/throttle.ts';
import type { AttemptRecord } from './attempt-record.ts';
import type { Judgment } from './outcome.ts';

const siteKeptMs = 300_000;
const mostSites = 100_000;
const destinationsShown = 50;
/** How many sites are looked at before other work gets its turn: a newsletter goes to tens of thousands. */
const sitesAtOnce = 1_000;

/**
 * How this node stands with the destinations: which site each belongs to, how much the site gets, and what operators
 * ordered. It reports this to the database, from which `GET /admin/destinations` reads it.
 */
export class Standing {
  readonly throttle: Throttle;
  readonly #db: Database;
  readonly #transport: Transport;
  readonly #providers: readonly Provider[];
  /** The throttle's clock. */
  readonly #now: () => number;
  readonly #sites = new BoundedMap<string, { site: Promise<Site>; until: number }>(mostSites);
  /** By site: destinations whose mail goes there. */
  readonly #seen = new Map<string, Set<string>>();
  readonly #apart: Apart;
  #paused = new Set<string>();
  /** When each name was last flushed, as far as is known; null: nothing was read yet. */
  #flushes: Map<string, Date> | null = null;
  /** When mail last arrived at each domain and site, on the throttle's clock; only what has not been noted yet. */
  #delivered = new Map<string, number>();
  /** What this node last reported about each site, as one text. */
  #reported = new Map<string, string>();
  #reportedAs: string | null = null;

  constructor(db: Database, transport: Transport, providers: readonly Provider[], throttle: ThrottleOptions) {
    this.#db = db;
    this.#transport = transport;
    this.#providers = providers;
    this.#now = throttle.now ?? (() => performance.now());
    this.throttle = new Throttle(throttle);
    this.#apart = new Apart(throttle.now);
  }

  /**
   * The site whose servers take the destination's mail. The destination is its own site if DNS does not say, and while it
   * alone cannot be reached.
   */
  async siteOf(destination: string): Promise<Site> {
    const apart = this.#apart.siteOf(destination);
    if (apart) return apart;
    const site = await this.#knownSiteOf(destination);
    const seen = this.#seen.get(site.name) ?? new Set();
    if (seen.size < destinationsShown) this.#seen.set(site.name, seen.add(destination));
    return site;
  }

  #knownSiteOf(destination: string): Promise<Site> {
    const known = this.#sites.get(destination);
    if (known && known.until > performance.now()) return known.site;
    const site = this.#findSite(destination);
    this.#sites.set(destination, { site, until: performance.now() + siteKeptMs });
    return site;
  }

  async #findSite(destination: string): Promise<Site> {
    const found = await resolveDestination(destination, this.#transport).catch(() => null);
    if (found?.kind !== 'hosts') this.#sites.delete(destination);
    return siteOf(destination, found?.kind === 'hosts' ? (found.hosts[0]?.name ?? null) : null, this.#providers);
  }

  /** False while nothing is paused, which is nearly always. */
  get somePaused(): boolean {
    return this.#paused.size > 0;
  }

  /**
   * What an attempt says about the site: nothing if DNS named no hosts to ask, or if another operator's host wants less.
   *
   * @returns `moved`: true if the destination is its own site from now on
   */
  judge(
    site: Site,
    destination: string,
    { verdict, reply, host, attempts }: Judgment & Pick<AttemptRecord, 'attempts'>,
  ): { verdict: Verdict; moved: boolean } {
    if (attempts.some(({ outcome }) => outcome === 'delivered'))
      for (const name of [site.name, destination]) this.#delivered.set(name, this.#now());
    const isOfAnother = verdict === 'slower' && host !== null && siteOf(host, host, this.#providers).name !== site.name;
    const whose = isOfAnother ? 'another' : attempts.some(({ phase }) => phase !== 'dns') ? 'site' : 'dns';
    const judged = this.#apart.judge(site, destination, verdict, whose);
    // The new site backs off from this attempt on; those under way beside it say nothing new.
    if (judged.newSite) this.throttle.end(this.throttle.begin(judged.newSite), verdict, reply);
    return { verdict: judged.verdict, moved: judged.apart };
  }

  /** The name under which the destination is paused; null if it is not. */
  pausedAs(destination: string, site: Site): string | null {
    const names = [destination, site.name, this.#apart.sharedSiteOf(destination)];
    return names.find((name) => name !== null && this.#paused.has(name)) ?? null;
  }

  /** Reads new orders of operators. To be called every second, one call after the other. */
  async readOrders(): Promise<void> {
    const given = await orders.list(this.#db);
    this.#paused = new Set(given.filter(({ pausedAt }) => pausedAt !== null).map(({ name }) => name));
    const flushes = new Map(given.flatMap(({ name, flushedAt }) => (flushedAt ? [[name, flushedAt]] : [])));
    // Flushes from before this node began concern nothing that it has seen.
    const heard = this.#flushes ?? flushes;
    for (const [name, at] of flushes) {
      // Any other time is another flush: the database's clock may have been set back.
      if (at.getTime() === heard.get(name)?.getTime()) continue;
      await this.#flush(name);
      // Only once it is done: if the database is away, this flush and those behind it are tried again.
      heard.set(name, at);
    }
    this.#flushes = flushes;
  }

  async #flush(name: string): Promise<void> {
    const site = (await this.#sites.get(name)?.site)?.name ?? name;
    for (const one of [...this.#apart.end(name), site]) this.throttle.forget(one);
    this.#sites.delete(name);
    await orders.wakeParked(this.#db, name, [name, ...(this.#seen.get(site) ?? [])]);
  }

  /**
   * Reports how this node stands with the sites that it used within the hour: only those with news, as there may be thousands.
   * To be called every few seconds, one call after the other.
   *
   * @param waitingOf how many claims wait here for the site
   */
  async report(nodeId: string, waitingOf: (site: string) => number): Promise<void> {
    // Under a new name it has reported nothing yet.
    const before = nodeId === this.#reportedAs ? this.#reported : new Map<string, string>();
    const states = this.throttle.states();
    // At once: a site that comes into use later on must not lose what was just seen there.
    const used = new Set(states.map(({ site }) => site.name));
    for (const name of this.#seen.keys()) if (!used.has(name)) this.#seen.delete(name);
    const current = new Map<string, string>();
    for (const [index, state] of states.entries()) {
      if (index % sitesAtOnce === sitesAtOnce - 1) await nextTurn();
      current.set(state.site.name, this.#summaryOf(state, waitingOf));
    }
    const news = states.filter(({ site }) => current.get(site.name) !== before.get(site.name));
    const gone = [...before.keys()].filter((name) => !current.has(name));
    const reports = news.map((state) => this.#reportOf(state, waitingOf));
    await destinations.report(this.#db, nodeId, reports, gone);
    this.#reported = current;
    this.#reportedAs = nodeId;
  }

  /** Notes in the database where mail has arrived since the last time. To be called once a minute, and at the end. */
  async noteDeliveries(): Promise<void> {
    const delivered = this.#delivered;
    if (delivered.size === 0) return;
    this.#delivered = new Map();
    try {
      await lastDeliveries.note(
        this.#db,
        new Map([...delivered].map(([name, moment]) => [name, this.#timeOf(moment)])),
      );
    } catch (error) {
      for (const [name, moment] of delivered) if (!this.#delivered.has(name)) this.#delivered.set(name, moment);
      throw error;
    }
  }

  /** The destinations whose mail is counted under this site: one that is apart counts under its own name. */
  #destinationsOf(site: string): string[] {
    if (this.#apart.siteOf(site)) return [site];
    return [...(this.#seen.get(site) ?? [])].filter((destination) => this.#apart.sharedSiteOf(destination) !== site);
  }

  /** Changes whenever anything in the report does. */
  #summaryOf(state: SiteState, waitingOf: (site: string) => number): string {
    const { site, running, window, most, backoffUntil, reason, lastReply, lastSuccessAt } = state;
    const figures = [running, waitingOf(site.name), window, most, site.perMinute, backoffUntil, lastSuccessAt];
    return [...figures, this.#destinationsOf(site.name).join(), reason, lastReply].join(' ');
  }

  #reportOf(state: SiteState, waitingOf: (site: string) => number): destinations.Report {
    const { site } = state;
    return {
      site: site.name,
      destinations: this.#destinationsOf(site.name),
      running: state.running,
      waiting: waitingOf(site.name),
      connections: state.window,
      mostConnections: state.most,
      perMinute: site.perMinute,
      backoffUntil: state.backoffUntil === null ? null : this.#timeOf(state.backoffUntil),
      reason: state.reason,
      lastReply: state.lastReply,
      lastSuccessAt: state.lastSuccessAt === null ? null : this.#timeOf(state.lastSuccessAt),
    };
  }

  /** The time of day of a moment on the throttle's clock, as the database sees it: whoever reads the report compares it with its own. */
  #timeOf(moment: number): Date {
    return new Date(this.#transport.clock.now().getTime() + moment - this.#now());
  }
}
