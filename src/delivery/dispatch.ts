import { mostInJob } from '../core/emails/mail-lines.ts';
import type { OutgoingEmail } from '../core/outgoing/outgoing.ts';
import { ClaimsInDoubt } from '../core/recipients/claims-in-doubt.ts';
import type { Claim } from '../core/recipients/recipients.ts';
import * as recipients from '../core/recipients/recipients.ts';
import type { Database } from '../db/client.ts';
import type { Queue } from '../queue.ts';
import { type AttemptTools, attempt, withoutRoom } from './attempt.ts';
import type { AttemptRecord } from './attempt-record.ts';
import { ClaimsInHand } from './claims-in-hand.ts';
import { LastTries } from './last-tries.ts';
import { defaultLimits, type Limits } from './limits.ts';
import { type Line, Lines } from './lines.ts';
import { measureOf } from './measure.ts';
import { lacksFamily } from './outcome.ts';
import { Preparation, type Ready } from './preparation.ts';
import type { Site } from './providers.ts';
import { PutOff, putOffMs } from './put-off.ts';
import type { Recorder } from './record.ts';
import { findWaiting, type Waiting, waits } from './room.ts';
import { isOver } from './schedule.ts';
import { Slots } from './slots.ts';
import type { Closed, Source, SourceAddresses } from './source-addresses.ts';
import type { Standing } from './standing.ts';
import type { Turn } from './throttle.ts';
import { WindingDown } from './winding-down.ts';

/** Claims per batch, roughly: taking few costs as much as taking many. */
const takenAtOnce = 200;
const tickEveryMs = 1_000;

/** A site whose turn comes within this time keeps its line here; otherwise the line waits as rows. */
const patienceMs = 2_000;

/** A line that would be empty within this time is refilled before it is. */
const refillMs = 100;

/** What goes out within this time is loaded ahead. */
const soonMs = 500;

/**
 * Takes jobs in batches and starts an attempt for each as soon as its site has room. Jobs for destinations that already have
 * work waiting here stay in the queue, so a slow destination holds neither a batch nor a slot that another could use. Claims
 * that would wait here for long go back as rows that are due later, without using up an attempt.
 */
export class Dispatcher {
  /** Destinations whose jobs were last left in the queue, because claims for them wait here. */
  supplied: ReadonlySet<string> = new Set();
  readonly #db: Database;
  readonly #queue: Queue;
  readonly #tools: AttemptTools;
  readonly #standing: Standing;
  readonly #sources: SourceAddresses;
  readonly #recorder: Recorder;
  readonly #limits: Limits;
  readonly #lines = new Lines();
  readonly #putOff: PutOff;
  readonly #lastTries: LastTries;
  readonly #slots: Slots;
  readonly #inHand: ClaimsInHand;
  readonly #inDoubt: ClaimsInDoubt;
  readonly #preparation: Preparation;
  readonly #windingDown = new WindingDown();
  /** There was no room when jobs could last have been taken. */
  #full = false;
  /** As of the last batch that was not empty. */
  #claimsPerJob = mostInJob;
  #pumping: Promise<void> | null = null;
  #pumpAgain = false;
  #stopping = false;
  #timer: NodeJS.Timeout | undefined;
  #unsubscribe: () => void = () => undefined;

  constructor(
    db: Database,
    queue: Queue,
    tools: AttemptTools,
    standing: Standing,
    sources: SourceAddresses,
    recorder: Recorder,
    limits: Limits = defaultLimits,
  ) {
    this.#db = db;
    this.#queue = queue;
    this.#tools = tools;
    this.#standing = standing;
    this.#sources = sources;
    this.#recorder = recorder;
    this.#limits = limits;
    this.#inHand = new ClaimsInHand(db, tools.clock, () => this.#takeAgain());
    this.#putOff = new PutOff(db);
    this.#lastTries = new LastTries(db, tools);
    this.#inDoubt = new ClaimsInDoubt(db, 'recipients');
    this.#preparation = new Preparation(db, tools, sources, {
      run: (ready, email, source) => this.#run(ready, email, source),
      keepBack: (ready, email, closed) => this.#keepBack(ready, email, closed),
      handBack: (some) => this.#handBack(some),
      behind: (some, many) => this.#behind(some, many),
    });
    this.#slots = new Slots(limits, standing.throttle, () => this.#serveAll());
  }

  /** Claims that are running or wait for their site. */
  get held(): number {
    return this.#inHand.size;
  }

  start(): void {
    this.#unsubscribe = this.#queue.onWake(() => this.#pump());
    this.#timer = setInterval(() => this.#tick(), tickEveryMs);
    this.#tick();
  }

  /** Takes no new work, hands back what has not begun, and waits for what has: at most about 25 seconds. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#inHand.stop();
    this.#windingDown.begin();
    this.#preparation.stop();
    clearInterval(this.#timer);
    this.#unsubscribe();
    // A batch being taken now would end up in lines that nobody serves any more.
    await this.#pumping;
    const untouched = this.#lines.empty();
    this.#inHand.letGo(untouched);
    await recipients.release(this.#db, untouched).catch((error: Error) => {
      this.#tools.log.warn({ error: error.message }, 'claims could not be handed back; others will take them over');
    });
    this.#recorder.giveUpAfter(this.#windingDown.drainMs);
    await this.#inHand.none();
    this.#windingDown.done();
    await this.#sources.giveBack().catch((error: Error) => {
      this.#tools.log.warn({ error: error.message }, 'what new addresses were not used for counts as sent today');
    });
  }

  #tick(): void {
    const { log, lease } = this.#tools;
    this.#standing
      .exchange(lease.nodeId, (site) => this.#lines.lengthOf(site))
      .catch((error: Error) => log.warn({ error: error.message }, 'how destinations stand could not be exchanged'));
    this.#sources
      .exchange(lease.nodeId)
      .catch((error: Error) => log.warn({ error: error.message }, 'the use of new addresses could not be exchanged'));
    if (lease.onHold) this.#putDown();
    this.#serveAll();
    this.#putOff.forgetDue(this.#tools.clock.now());
    for (const site of this.#putOff.sites) this.#callBack(site);
    this.#pump();
  }

  #putDown(): void {
    const untouched = this.#lines.empty();
    if (untouched.length > 0) void this.#inHand.putBack(untouched, () => recipients.release(this.#db, untouched));
  }

  #pump(): void {
    this.#pumpAgain = true;
    if (this.#pumping || this.#stopping) return;
    this.#pumping = this.#takeAll()
      .catch((error: Error) => this.#tools.log.warn({ error: error.message }, 'no jobs could be taken; trying again'))
      .finally(() => {
        this.#pumping = null;
      });
  }

  async #takeAll(): Promise<void> {
    const freed = await this.#inDoubt.free(this.#tools.lease.nodeId, this.#inHand.all);
    if (freed > 0)
      this.#tools.log.warn({ recipients: freed }, 'a claim was committed without an answer; it is free again');
    while (this.#pumpAgain && !this.#stopping) {
      this.#pumpAgain = false;
      const room = Math.min(takenAtOnce, this.#limits.held - this.#inHand.size);
      const jobs = Math.ceil(room / this.#claimsPerJob);
      this.#full = room <= 0 || !this.#slots.free || !this.#tools.lease.valid();
      if (this.#full || this.#tools.lease.onHold) return;
      // A short batch was all there is; whoever adds jobs wakes this.
      if ((await this.#take(jobs)) === jobs) this.#pumpAgain = true;
    }
  }

  /** Takes and claims in one transaction, so that recipients always have a job or a node that holds them. */
  async #take(limit: number): Promise<number> {
    const nodeId = this.#tools.lease.nodeId;
    const claiming = this.#db.transaction(async (tx) => {
      const supplied = this.#lines.supplied((line) => this.#isShort(line));
      this.supplied = new Set(supplied);
      const jobs = await this.#queue.take(tx, limit, supplied);
      if (jobs.length === 0) return { taken: 0, claims: [] };
      return { taken: jobs.length, claims: await recipients.claim(tx, nodeId, jobs) };
    });
    const { taken, claims } = await this.#inDoubt.watch(claiming);
    if (taken > 0) this.#claimsPerJob = Math.max(1, claims.length / taken);
    this.#inHand.add(claims);
    const placed = await this.#withRoom(claims);
    for (const [destination, some] of Map.groupBy(placed, (claim) => claim.destination))
      void this.#place(destination, some);
    return taken;
  }

  /** True if the site will soon have nothing to do. */
  #isShort({ site, claims }: Line): boolean {
    return this.#standing.throttle.waitFor(site, claims.length) < refillMs;
  }

  /** Puts back claims whose pool is known to have no room today, before they join a line or are loaded. */
  async #withRoom(claims: Claim[]): Promise<Claim[]> {
    const waiting = await findWaiting(this.#db, this.#sources, this.#tools, claims);
    this.#parkClosed(waiting);
    const gone = new Set(waiting.map(({ claim }) => claim));
    return claims.filter((claim) => !gone.has(claim));
  }

  /** Puts claims into the line of their site once it is known. */
  async #place(destination: string, claims: Claim[]): Promise<void> {
    this.#lines.expect(destination, claims);
    const site = await this.#standing.siteOf(destination);
    // If the dispatcher stopped meanwhile, they have been handed back.
    if (!this.#lines.arrive(destination, claims, site)) return;
    this.#serve(site.name);
    // While the site was unknown, nothing more was taken for this destination.
    if (this.supplied.has(destination)) this.#pump();
  }

  /** Moves the claims for a destination into the line of the site that it belongs to now. */
  #move({ name }: Site, destination: string): void {
    const line = this.#lines.get(name);
    const claims = line?.claims.filter((claim) => claim.destination === destination) ?? [];
    if (!line || claims.length === 0) return;
    this.#lines.remove(line, claims);
    void this.#place(destination, claims);
  }

  #serveAll(): void {
    for (const name of this.#lines.names()) {
      if (!this.#slots.free) return;
      this.#serve(name);
    }
  }

  /** Starts as much of this site's line as can start, and puts back what would wait for long. */
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
      this.#begin(line, this.#lines.shift(line));
    }
    if (this.#lines.ranShort(line, (line) => this.#isShort(line))) this.#pump();
    // A fast site will soon be through its line.
    if (this.#standing.throttle.waitFor(line.site, line.claims.length) < patienceMs) return;
    // Many slow sites together must not fill up all that this node may hold.
    const most = this.#inHand.size < this.#limits.held / 2 ? this.#limits.line : this.#limits.crowded;
    const beyond = this.#lines.cut(line, most);
    if (beyond.length === 0) return;
    const wait = this.#standing.throttle.waitFor(line.site, most + beyond.length);
    const until = new Date(this.#tools.clock.now().getTime() + putOffMs(wait));
    void this.#inHand.putBack(beyond, () => this.#putOff.park(line.site, beyond, until));
  }

  /** Calls back what was too much for a site, once the site will soon have nothing to do. */
  #callBack(site: Site): void {
    if (!this.#putOff.has(site) || this.#standing.throttle.turn(site).when === 'later') return;
    if (this.#standing.throttle.waitFor(site, this.#lines.lengthOf(site.name)) >= refillMs) return;
    void this.#putOff.callBack(site, this.#limits.line, this.#tools.clock.now());
  }

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
    if (turn.by === 'rate') this.#inHand.parkFor(backMs, claims, reason);
    else void this.#tryLast(line, claims, backMs, reason);
  }

  /** Begins the last tries of claims whose time is over, as many as the site may have at once; the rest follow soon. */
  async #tryLast(line: Line, claims: Claim[], backMs: number, reason: string): Promise<void> {
    const room = () => (this.#stopping || this.#tools.lease.onHold ? 0 : this.#slots.roomFor(line.site));
    const { now, known, later } = await this.#lastTries.sort(claims, backMs, room);
    for (const claim of now) this.#begin(line, claim);
    for (const { claim, outcome } of known) void this.#finish(claim, outcome);
    for (const { ms, claims } of later) this.#inHand.parkFor(ms, claims, reason);
  }

  #parkPaused(line: Line): void {
    if (!this.#standing.somePaused) return;
    const paused = Map.groupBy(line.claims, ({ destination }) => this.#standing.pausedAs(destination, line.site));
    for (const [name, claims] of paused) {
      if (name === null) continue;
      this.#lines.remove(line, claims);
      void this.#inHand.putBack(claims, () => recipients.parkForPause(this.#db, claims, name));
    }
  }

  #begin(line: Line, claim: Claim): void {
    this.#preparation.add({ claim, started: this.#slots.take(line.site) });
  }

  #handBack(some: Ready[]): void {
    for (const { started } of some) this.#slots.cancel(started);
    const claims = some.map(({ claim }) => claim);
    void this.#inHand.putBack(claims, () => recipients.release(this.#db, claims));
  }

  /** The claims behind these whose turn comes soon: about `many`, over all sites. */
  #behind(ready: Ready[], many: number): Claim[] {
    const sites = new Map(ready.map(({ started }) => [started.site.name, started.site]));
    const each = Math.ceil(many / sites.size);
    return [...sites.values()].flatMap((site) => {
      const fast = this.#standing.throttle.waitFor(site, each) < soonMs;
      return fast ? (this.#lines.get(site.name)?.claims.slice(0, each) ?? []) : [];
    });
  }

  async #run({ claim, started }: Ready, email: OutgoingEmail | undefined, source: Source | null): Promise<void> {
    let messages = 0;
    const outcome = await attempt(this.#tools, claim, email, {
      site: { ...started.site, connections: started.connections },
      remark: started.remark,
      source,
      ending: this.#windingDown,
      onMessage: () => (messages += 1),
    });
    this.#tools.metrics.attempted(started.site.name, measureOf(outcome, email));
    if (this.#sources.areOne) this.#lastTries.heard(claim.destination, outcome, source);
    const judged = this.#standing.judge(started.site, claim.destination, outcome);
    this.#slots.give(started, judged.verdict, outcome.reply, messages);
    if (judged.moved) this.#move(started.site, claim.destination);
    this.#serve(started.site.name);
    this.#callBack(started.site);
    if (source) this.#sources.settle(source, outcome.attempts);
    if (source?.closed && email && lacksFamily(outcome.attempts) && !this.#isOver(email.dueAt))
      this.#parkClosed([{ claim, dueAt: email.dueAt, closed: source.closed }]);
    else await this.#finish(claim, outcome);
  }

  /** Puts back a claim that has no room in its pool; if its time is over it ends, as nothing is sent above a cap. */
  #keepBack({ claim, started }: Ready, email: OutgoingEmail, closed: Closed): void {
    this.#slots.cancel(started);
    this.#serve(started.site.name);
    if (this.#isOver(email.dueAt)) void this.#finish(claim, withoutRoom(this.#tools, claim, email, closed.reason));
    else this.#parkClosed([{ claim, dueAt: email.dueAt, closed }]);
  }

  async #finish(claim: Claim, outcome: AttemptRecord): Promise<void> {
    if (await this.#recorder.add(outcome)) this.#tools.journal.recorded(claim);
    this.#inHand.letGo([claim]);
  }

  #parkClosed(waiting: Waiting[]): void {
    for (const { claims, until, reason } of waits(this.#tools, waiting)) this.#inHand.park(claims, until, reason);
  }

  #isOver(dueAt: Date): boolean {
    return isOver(this.#tools.policy, dueAt, this.#tools.clock.now());
  }

  /** Takes more once half of the claims that filled the room have gone. */
  #takeAgain(): void {
    if (this.#full && this.#inHand.size < this.#limits.held / 2) this.#pump();
  }
}
