import type { FreshBodies } from '../core/emails/fresh-bodies.ts';
import type { OutgoingEmail } from '../core/outgoing/outgoing.ts';
import type { Claim } from '../core/recipients/recipients.ts';
import type { Database } from '../db/client.ts';
import { type AttemptTools, attempt, withoutRoom } from './attempt/attempt.ts';
import type { LastTries } from './attempt/last-tries.ts';
import type { ClaimsInHand } from './claims/claims-in-hand.ts';
import type { AttemptRecord } from './outcome/attempt-record.ts';
import { measureOf } from './outcome/measure.ts';
import { lacksFamily } from './outcome/outcome.ts';
import type { Recorder } from './outcome/record.ts';
import { isOver } from './outcome/schedule.ts';
import type { Standing } from './outcome/standing.ts';
import type { Ending } from './outcome/winding-down.ts';
import type { Closed, Source, SourceAddresses } from './pools/source-addresses.ts';
import { parkWithoutRoom } from './preparation/pool-room.ts';
import { Preparation, type Ready } from './preparation/preparation.ts';
import type { Site } from './sites/providers.ts';
import type { Slots } from './sites/slots.ts';

/** What attempts need, and what their results are told to. */
export interface Parts {
  tools: AttemptTools & { fresh: FreshBodies };
  standing: Standing;
  sources: SourceAddresses;
  recorder: Recorder;
  slots: Slots;
  inHand: ClaimsInHand;
  lastTries: LastTries;
  /** The node's shutdown. */
  ending: Ending;
}

/** The claims that wait. */
interface Waiting {
  /** The site of this name may have room again. */
  serve(name: string): void;
  /** The site may soon be through with what waits here. */
  callBack(site: Site): void;
  /** The destination belongs to another site from now on. */
  move(destination: string, from: Site): void;
  /** The claims after these whose turn comes soon, about `count`. */
  comingAfter(some: Ready[], count: number): Claim[];
}

/**
 * The claims whose turn has come. Each has a slot of its site until its attempt is over, and is settled then; one that cannot
 * be attempted now is parked or released.
 */
export class UnderWay {
  readonly #parts: Parts;
  readonly #waiting: Waiting;
  readonly #preparation: Preparation;

  constructor(db: Database, parts: Parts, waiting: Waiting) {
    this.#parts = parts;
    this.#waiting = waiting;
    this.#preparation = new Preparation(db, parts.tools, parts.sources, {
      run: (ready, email, source) => this.#run(ready, email, source),
      park: (ready, email, closed) => this.#park(ready, email, closed),
      release: (some) => this.#release(some),
      comingAfter: (some, count) => waiting.comingAfter(some, count),
    });
  }

  /** Gives a claim its slot. */
  begin(site: Site, claim: Claim): void {
    this.#preparation.add({ claim, slot: this.#parts.slots.take(site) });
  }

  /** From now on, large emails that wait for room are released once there is some. */
  stop(): void {
    this.#preparation.stop();
  }

  /** Records what became of a claim; until then this node holds it. */
  async settle(claim: Claim, outcome: AttemptRecord): Promise<void> {
    const { recorder, tools, inHand } = this.#parts;
    if (await recorder.add(outcome)) tools.journal.recorded(claim);
    inHand.remove([claim]);
  }

  async #run({ claim, slot }: Ready, email: OutgoingEmail | undefined, source: Source | null): Promise<void> {
    const { tools, standing, sources, slots, inHand, lastTries, ending } = this.#parts;
    const { site } = slot;
    let messages = 0;
    const outcome = await attempt(tools, claim, email, {
      site: { ...site, connections: slot.connections },
      remark: slot.remark,
      source,
      ending,
      onMessage: () => (messages += 1),
    });
    tools.metrics.attempted(site.name, measureOf(outcome, email));
    if (sources.areOne) lastTries.heard(claim.destination, outcome, source);
    const judged = standing.judge(site, claim.destination, outcome);
    slots.give(slot, judged.verdict, outcome.reply, messages);
    if (judged.moved) this.#waiting.move(claim.destination, site);
    this.#waiting.serve(site.name);
    this.#waiting.callBack(site);
    if (source) sources.noteUnused(source, outcome.attempts);
    if (source?.closed && email && lacksFamily(outcome.attempts) && !this.#isOver(email))
      parkWithoutRoom(inHand, tools, [{ claim, dueAt: email.dueAt, closed: source.closed }]);
    else await this.settle(claim, outcome);
  }

  /** Parks a claim; if its time is over it has failed, as nothing is sent above a cap. */
  #park({ claim, slot }: Ready, email: OutgoingEmail, closed: Closed): void {
    const { tools, slots, inHand } = this.#parts;
    slots.cancel(slot);
    this.#waiting.serve(slot.site.name);
    if (this.#isOver(email)) void this.settle(claim, withoutRoom(tools, claim, email, closed.reason));
    else parkWithoutRoom(inHand, tools, [{ claim, dueAt: email.dueAt, closed }]);
  }

  #release(some: Ready[]): void {
    const { slots, inHand } = this.#parts;
    for (const { slot } of some) slots.cancel(slot);
    inHand.release(some.map(({ claim }) => claim));
  }

  #isOver({ dueAt }: OutgoingEmail): boolean {
    const { policy, clock } = this.#parts.tools;
    return isOver(policy, dueAt, clock.now());
  }
}
