import * as orders from '../core/destinations/destination-orders.ts';
import type { Claim } from '../core/recipients/recipients.ts';
import * as recipients from '../core/recipients/recipients.ts';
import type { Database } from '../db/client.ts';
import { Rounds } from '../pace/rounds.ts';
import type { Queue } from '../queue.ts';
import type { AttemptTools } from './attempt/attempt.ts';
import { LastTries } from './attempt/last-tries.ts';
import { ClaimsInHand } from './claims/claims-in-hand.ts';
import { Intake } from './claims/intake.ts';
import type { Recorder } from './outcome/record.ts';
import type { Standing } from './outcome/standing.ts';
import { WindingDown } from './outcome/winding-down.ts';
import type { SourceAddresses } from './pools/source-addresses.ts';
import { findWithoutRoom, parkWithoutRoom } from './preparation/pool-room.ts';
import type { Ready } from './preparation/preparation.ts';
import { defaultLimits, type Limits } from './sites/limits.ts';
import { type Line, Lines } from './sites/lines.ts';
import { Overflow, overflowMs } from './sites/overflow.ts';
import type { Site } from './sites/providers.ts';
import { Slots } from './sites/slots.ts';
import type { Turn } from './sites/throttle.ts';
import { type Parts, UnderWay } from './under-way.ts';

const tickEveryMs = 1_000;
const sourcesEveryMs = 1_000;
const reportEveryMs = 5_000;
const deliveriesEveryMs = 60_000;

/** A site whose turn comes within this time keeps its line here; otherwise the line waits as rows. */
const patienceMs = 2_000;

/** A line that would be empty within this time is refilled before it is. */
const refillMs = 100;

/** What goes out within this time is loaded ahead. */
const soonMs = 500;

/**
 * Places claims in the line of their site and begins each as soon as the site has room; `UnderWay` attempts it then. Jobs for
 * destinations that already have work waiting here stay in the queue, so a slow destination holds neither a batch nor a slot
 * that another could use. Claims that would wait here for long are parked; `ClaimsInHand` says what that means.
 */
export class Dispatcher {
  readonly #db: Database;
  readonly #tools: AttemptTools;
  readonly #standing: Standing;
  readonly #sources: SourceAddresses;
  readonly #recorder: Recorder;
  readonly #limits: Limits;
  readonly #lines = new Lines();
  readonly #overflow: Overflow;
  readonly #lastTries: LastTries;
  readonly #slots: Slots;
  readonly #inHand: ClaimsInHand;
  readonly #intake: Intake;
  readonly #underWay: UnderWay;
  readonly #windingDown = new WindingDown();
  #stopping = false;
  /** This node's name when it last looked. */
  #claimsAs: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #exchanges: Rounds;

  constructor(
    db: Database,
    queue: Queue,
    given: Pick<Parts, 'tools' | 'standing' | 'sources' | 'recorder'>,
    limits: Limits = defaultLimits,
  ) {
    const { tools, standing, sources, recorder } = given;
    this.#db = db;
    this.#tools = tools;
    this.#standing = standing;
    this.#sources = sources;
    this.#recorder = recorder;
    this.#exchanges = new Rounds(tools.log);
    this.#limits = limits;
    this.#inHand = new ClaimsInHand(db, tools, () => this.#intake.takeIfDrained());
    this.#intake = new Intake(db, queue, tools, {
      inHand: this.#inHand,
      mostHeld: limits.inHand,
      canBegin: () => this.#slots.free,
      supplied: () => this.#lines.supplied((line) => this.#isShort(line)),
      suppliedWith: (priority) => this.#lines.suppliedWith(priority, limits.first),
      place: (claims) => this.#placeAll(claims),
    });
    this.#overflow = new Overflow(db);
    this.#lastTries = new LastTries(db, tools);
    this.#slots = new Slots(
      limits,
      standing.throttle,
      () => this.#serveAll(),
      (name) => this.#serve(name),
    );
    const parts = {
      ...given,
      slots: this.#slots,
      inHand: this.#inHand,
      lastTries: this.#lastTries,
      ending: this.#windingDown,
    };
    this.#underWay = new UnderWay(db, parts, {
      serve: (name) => this.#serve(name),
      callBack: (site) => this.#callBack(site),
      move: (destination, from) => this.#move(destination, from),
      comingAfter: (some, count) => this.#comingAfter(some, count),
    });
  }

  /** Claims that are running or wait for their site. */
  get inHand(): number {
    return this.#inHand.size;
  }

  /** Destinations whose jobs were last left in the queue, because claims for them wait here. */
  get supplied(): ReadonlySet<string> {
    return this.#intake.supplied;
  }

  start(): void {
    const { lease } = this.#tools;
    this.#exchanges.every(orders.readEveryMs, 'orders of operators', () => this.#standing.readOrders());
    this.#exchanges.every(reportEveryMs, 'state of destinations', () =>
      this.#standing.report(lease.nodeId, (site) => this.#lines.lengthOf(site)),
    );
    this.#exchanges.every(deliveriesEveryMs, 'when mail last arrived', () => this.#standing.noteDeliveries());
    this.#exchanges.every(sourcesEveryMs, 'use of new addresses', () => this.#sources.exchange(lease.nodeId));
    this.#intake.start();
    this.#timer = setInterval(() => this.#tick(), tickEveryMs);
    this.#tick();
  }

  /**
   * Takes no new work, releases what has not begun, and waits for what has: at most 20 seconds, and some for saying how it went.
   *
   * @param withinMs how long it may wait for what has begun
   */
  async stop(withinMs?: number): Promise<void> {
    const { log } = this.#tools;
    this.#stopping = true;
    this.#inHand.stop();
    this.#windingDown.begin(withinMs);
    // From the beginning on: everything else that waits for the database here may take long.
    this.#recorder.giveUpAfter(this.#windingDown.drainMs);
    this.#underWay.stop();
    clearInterval(this.#timer);
    // Without waiting for those under way, which may wait for the database.
    void this.#exchanges.stop();
    // A batch being taken now would end up in lines that nobody serves any more.
    await this.#intake.stop();
    const unbegun = this.#lines.empty();
    this.#inHand.remove(unbegun);
    const releasing = recipients.release(this.#db, unbegun).catch((error: Error) => {
      log.warn({ error: error.message }, 'claims could not be released; other nodes will take them over');
    });
    await Promise.all([releasing, this.#inHand.none()]);
    this.#windingDown.done();
    await this.#standing.noteDeliveries().catch((error: Error) => {
      log.warn({ error: error.message }, 'where mail arrived within the last minute could not be noted');
    });
    await this.#sources.giveBack().catch((error: Error) => {
      log.warn(
        { error: error.message },
        'unused messages of new addresses could not be given back; they count as sent today',
      );
    });
  }

  #tick(): void {
    const { lease } = this.#tools;
    const isRenamed = lease.nodeId !== this.#claimsAs;
    this.#claimsAs = lease.nodeId;
    // While mail is on hold, operators may decide about what has not begun. If this node was taken for dead, others may have it.
    if (lease.onHold || isRenamed) this.#inHand.release(this.#lines.empty());
    this.#serveAll();
    this.#overflow.forgetDue(this.#tools.clock.now());
    for (const site of this.#overflow.sites) this.#callBack(site);
    this.#intake.take();
  }

  /** Parks new claims whose pool is known to have no room today, and places the others. */
  async #placeAll(claims: Claim[]): Promise<void> {
    const full = await findWithoutRoom(this.#db, this.#sources, this.#tools, claims);
    parkWithoutRoom(this.#inHand, this.#tools, full);
    const parked = new Set(full.map(({ claim }) => claim));
    const rest = claims.filter((claim) => !parked.has(claim));
    for (const [destination, some] of Map.groupBy(rest, (claim) => claim.destination))
      void this.#place(destination, some);
  }

  /** Puts claims into the line of their site once it is known. */
  async #place(destination: string, claims: Claim[]): Promise<void> {
    this.#lines.expect(destination, claims);
    const site = await this.#standing.siteOf(destination);
    // If the dispatcher stopped meanwhile, they have been released.
    if (!this.#lines.arrive(destination, claims, site)) return;
    this.#serve(site.name);
    // While the site was unknown, nothing more was taken for this destination.
    if (this.supplied.has(destination)) this.#intake.take();
  }

  /** Moves the claims for a destination into the line of the site that it belongs to now. */
  #move(destination: string, from: Site): void {
    const line = this.#lines.get(from.name);
    const claims = line?.claims.filter((claim) => claim.destination === destination) ?? [];
    if (!line || claims.length === 0) return;
    this.#lines.remove(line, claims);
    void this.#place(destination, claims);
  }

  /** True if the site will soon have nothing to do. */
  #isShort({ site, claims }: Line): boolean {
    return this.#standing.throttle.waitFor(site, claims.length) < refillMs;
  }

  #serveAll(): void {
    for (const name of this.#lines.names()) {
      if (!this.#slots.free) return;
      this.#serve(name);
    }
  }

  /** Starts as much of this site's line as can start, and parks what would wait for long. */
  #serve(name: string): void {
    const line = this.#lines.get(name);
    if (!line || this.#stopping || this.#tools.lease.onHold) return;
    this.#parkPaused(line);
    while (line.claims.length > 0 && this.#slots.freeFor(line.site)) {
      const turn = this.#standing.throttle.turn(line.site);
      if (turn.when !== 'now') {
        this.#wait(line, turn);
        break;
      }
      this.#underWay.begin(line.site, this.#lines.shift(line));
    }
    if (line.claims.length > 0) this.#slots.noteWaiting(line.site);
    if (this.#lines.ranShort(line, (line) => this.#isShort(line))) this.#intake.take();
    this.#parkOverflow(line);
  }

  /** Parks claims of paused destinations. */
  #parkPaused(line: Line): void {
    if (!this.#standing.somePaused) return;
    const paused = Map.groupBy(line.claims, ({ destination }) => this.#standing.pausedAs(destination, line.site));
    for (const [name, claims] of paused) {
      if (name === null) continue;
      this.#lines.remove(line, claims);
      this.#inHand.parkForPause(claims, name);
    }
  }

  /** Lets the line wait for the turn of its site: here if that comes soon, and parked otherwise. */
  #wait(line: Line, turn: Exclude<Turn, { when: 'now' }>): void {
    if (turn.when === 'after another') return;
    const ms = turn.at - performance.now();
    if (ms <= patienceMs) {
      this.#lines.wakeIn(line, ms, () => this.#serve(line.site.name));
      return;
    }
    const backMs = ms * (1 + Math.random() / 10);
    const reason = `${line.site.name}: ${turn.reason}`;
    const claims = this.#lines.cut(line, 0);
    // A rate holds for every message, including the last try.
    if (turn.by === 'rate') this.#inHand.parkFor(claims, backMs, reason);
    else void this.#tryLast(line, claims, backMs, reason);
  }

  /** Begins last tries for claims whose time is over, as many as the site may have at once, and parks the others. */
  async #tryLast(line: Line, claims: Claim[], backMs: number, reason: string): Promise<void> {
    const room = () => (this.#stopping || this.#tools.lease.onHold ? 0 : this.#slots.roomFor(line.site));
    const { now, known, later } = await this.#lastTries.sort(claims, backMs, room);
    for (const claim of now) this.#underWay.begin(line.site, claim);
    for (const { claim, outcome } of known) void this.#underWay.settle(claim, outcome);
    for (const { ms, claims } of later) this.#inHand.parkFor(claims, ms, reason);
  }

  /** Parks the end of a line that is too long, unless its site will soon be through it. */
  #parkOverflow(line: Line): void {
    if (this.#standing.throttle.waitFor(line.site, line.claims.length) < patienceMs) return;
    // Many slow sites together must not fill up all that this node may hold.
    const most = this.#inHand.size < this.#limits.inHand / 2 ? this.#limits.line : this.#limits.lineIfHalfFull;
    const beyond = this.#lines.cut(line, most);
    if (beyond.length === 0) return;
    const lineMs = this.#standing.throttle.waitFor(line.site, most + beyond.length);
    const until = new Date(this.#tools.clock.now().getTime() + overflowMs(lineMs));
    void this.#inHand.removeAfter(beyond, () => this.#overflow.park(line.site, beyond, until));
  }

  /** Calls back what was too much for a site, once the site will soon have nothing to do. */
  #callBack(site: Site): void {
    if (!this.#overflow.has(site) || this.#standing.throttle.turn(site).when === 'later') return;
    if (this.#standing.throttle.waitFor(site, this.#lines.lengthOf(site.name)) >= refillMs) return;
    void this.#overflow.callBack(site, this.#limits.line, this.#tools.clock.now());
  }

  /** The next claims for the sites of these, if their turn comes soon: about `count`, over all sites. */
  #comingAfter(ready: Ready[], count: number): Claim[] {
    const sites = new Map(ready.map(({ slot }) => [slot.site.name, slot.site]));
    const each = Math.ceil(count / sites.size);
    return [...sites.values()].flatMap((site) => {
      const fast = this.#standing.throttle.waitFor(site, each) < soonMs;
      return fast ? (this.#lines.get(site.name)?.claims.slice(0, each) ?? []) : [];
    });
  }
}
