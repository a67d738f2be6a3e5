import { setImmediate as nextTurn } from 'node:timers/promises';
import type { OutgoingEmail, Unread } from '../../core/outgoing/outgoing.ts';
import { isPersonal } from '../../core/outgoing/outgoing-message.ts';
import type { Claim } from '../../core/recipients/recipients.ts';
import type { Slot } from '../sites/slots.ts';
import { type Heavy, LargeEmailRoom } from './large-email-room.ts';

/** Most bytes read together, unless a single email is larger. */
const heaviestRead = 4 * 1024 * 1024;

/** A claim that waits here holds a slot, which small mail needs as well. */
const mostWaiting = 250;

/** The share of a site's connections for claims that wait here for room: they hold them without sending anything. */
const partOfSite = 1 / 2;

/** One account's share of the places to wait, in all and at a site. */
const partOfAccount = 1 / 2;

/** Claims that were parked return at the pace of this many bytes a second: neither all at once nor long after there is room. */
const bytesPerSecond = 50 * 1024 * 1024;
const shortestMs = 5_000;

/** A claim that has a slot. */
interface WithSlot {
  claim: Pick<Claim, 'destination' | 'jobId'>;
  slot: Pick<Slot, 'unproven' | 'connections'> & { site: { name: string } };
}

/** An unread email with all claims that wait for it; a personal one has a single claim, as each copy is built separately. */
interface Large<Ready> {
  name: string;
  accountId: string;
  unread: Unread;
  ready: Ready[];
}

/** Reads these and lets them go on; calls `done` for each when its attempt is over. */
type Prepare<Ready> = (some: Ready[], done: (ready: Ready) => void) => Promise<void>;

/**
 * Handles large emails apart from the others: reads a few at a time, and only as many as fit in memory with those not sent
 * yet. Each goes in its turn; one whose own share of the room is full takes nothing from the others.
 */
export class LargeEmails<Ready extends WithSlot> {
  readonly #prepare: Prepare<Ready>;
  readonly #room: LargeEmailRoom;
  /** By name, in the order they came. */
  readonly #waiting = new Map<string, Large<Ready>>();
  #reading = false;
  #backAt = 0;

  /**
   * @param room in bytes of stored content; with its built message, an email takes about two and a half times as much
   */
  constructor(room: number, prepare: Prepare<Ready>) {
    this.#room = new LargeEmailRoom(room);
    this.#prepare = prepare;
  }

  /** Whether too many would wait here with this one: of its account, on its site's connections, or in all. */
  isCrowdedFor(ready: Ready, email: OutgoingEmail, unread: Unread): boolean {
    const { accountId } = email;
    const { all, own } = countClaims(this.#waiting.values(), accountId);
    if (all >= mostWaiting || own >= mostWaiting * partOfAccount) return true;
    const last = { name: nameOf(email, ready), accountId, unread, ready: [ready] };
    const waiting = this.#withoutRoom(last);
    if (!waiting.has(last)) return false;
    const { site, connections } = ready.slot;
    const most = connections * partOfSite;
    const ofSite = countClaims(waiting, accountId, ({ slot }) => slot.site.name === site.name);
    return ofSite.all > Math.max(1, most) || ofSite.own > Math.max(1, most * partOfAccount);
  }

  add(ready: Ready, email: OutgoingEmail, unread: Unread): void {
    const { accountId } = email;
    const name = nameOf(email, ready);
    const large = this.#waiting.get(name) ?? { name, accountId, unread, ready: [] };
    large.ready.push(ready);
    this.#waiting.set(name, large);
    if (!this.#reading) void this.#readAll();
  }

  /** When an email that found this too crowded should come back. */
  backAt({ bodies, files }: Unread, now: Date): Date {
    const soonest = now.getTime() + shortestMs;
    this.#backAt = Math.max(this.#backAt, soonest) + ((bodies + files) * 1_000) / bytesPerSecond;
    return new Date(this.#backAt);
  }

  /** The emails that still have no room once those ahead of them have theirs, with `last` at the end. */
  #withoutRoom(last: Large<Ready>): Set<Large<Ready>> {
    const without = new Set<Large<Ready>>();
    const reserved = new Set<string>();
    const room = this.#room.copy();
    for (const large of [...this.#waiting.values(), last]) {
      const heavy = heavyOf(large);
      const lacking = room.lackingFor(heavy, reserved);
      if (lacking === null) room.take(heavy);
      else {
        reserved.add(lacking);
        without.add(large);
      }
    }
    return without;
  }

  async #readAll(): Promise<void> {
    this.#reading = true;
    await nextTurn();
    for (let some = this.#take(); some.length > 0; some = this.#take()) await this.#read(some);
    this.#reading = false;
  }

  /** Takes the next emails that have room, to be read together. */
  #take(): Large<Ready>[] {
    const some: Large<Ready>[] = [];
    const reserved = new Set<string>();
    const filesOfSome = new Set<string>();
    let left = heaviestRead;
    for (const large of this.#waiting.values()) {
      const heavy = heavyOf(large);
      const lacking = this.#room.lackingFor(heavy, reserved);
      if (lacking !== null) {
        // Nobody overtakes while waiting for the same room: otherwise there would never be enough for the largest.
        reserved.add(lacking);
        continue;
      }
      const { bodies, files, filesKey } = large.unread;
      const bytes = bodies + (filesOfSome.has(filesKey) ? 0 : files);
      if (bytes > left && some.length > 0) break;
      // However large it is, others with the same files can come with it.
      left -= Math.min(bytes, heaviestRead / 2);
      filesOfSome.add(filesKey);
      some.push(large);
      this.#room.take(heavy);
    }
    for (const { name } of some) this.#waiting.delete(name);
    return some;
  }

  async #read(some: Large<Ready>[]): Promise<void> {
    const largeOf = new Map(some.flatMap((large) => large.ready.map((ready) => [ready, large])));
    await this.#prepare([...largeOf.keys()], (ready) => {
      const large = largeOf.get(ready);
      largeOf.delete(ready);
      if (large && ![...largeOf.values()].includes(large)) this.#free(large);
    });
  }

  #free(large: Large<Ready>): void {
    this.#room.free(heavyOf(large));
    if (!this.#reading) void this.#readAll();
  }
}

const nameOf = (email: OutgoingEmail, { claim }: WithSlot) =>
  isPersonal(email) ? `${email.id} ${claim.destination} ${claim.jobId}` : email.id;

const heavyOf = ({ accountId, unread: { bodies, files }, ready }: Large<WithSlot>): Heavy => ({
  accountId,
  bytes: bodies + files,
  unproven: ready.some(({ slot }) => slot.unproven),
});

/** How many such claims wait for these emails, in all and of one account. */
function countClaims<Ready>(
  emails: Iterable<Large<Ready>>,
  accountId: string,
  isSuch: (ready: Ready) => boolean = () => true,
): { all: number; own: number } {
  let [all, own] = [0, 0];
  for (const large of emails) {
    const count = large.ready.filter(isSuch).length;
    all += count;
    if (large.accountId === accountId) own += count;
  }
  return { all, own };
}
