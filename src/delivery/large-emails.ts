import { setImmediate as nextTurn } from 'node:timers/promises';
import type { OutgoingEmail, Unread } from '../core/outgoing/outgoing.ts';
import { isPersonal } from '../core/outgoing/outgoing-message.ts';
import type { Claim } from '../core/recipients/recipients.ts';
import { Tally } from '../tally.ts';
import type { Started } from './slots.ts';

/** Most bytes read together, unless a single email is larger. */
const heaviestRead = 4 * 1024 * 1024;

/** One account's share of the room and of the places to wait, in all and at a site; and the unproven sites' share of the room. */
const part = 1 / 2;

/** A claim that waits here holds a slot, which small mail needs as well. */
const mostWaiting = 250;

/** The share of a site's connections for claims that wait here for room: they hold them without sending anything. */
const partOfSite = 1 / 2;

/** Claims put back return at the pace of this many bytes a second: neither all at once nor long after there is room. */
const bytesPerSecond = 50 * 1024 * 1024;
const shortestMs = 5_000;

/** A claim that has a slot. */
interface WithSlot {
  claim: Pick<Claim, 'destination' | 'jobId'>;
  started: Pick<Started, 'unproven' | 'connections'> & { site: { name: string } };
}

/** An unread email with all claims that wait for it; a personal one has a single claim, as each copy is built separately. */
interface Large<Ready> {
  name: string;
  accountId: string;
  unread: Unread;
  ready: Ready[];
}

/** Reads these and lets them go on; calls `gone` for each when it is done. */
type Prepare<Ready> = (some: Ready[], gone: (ready: Ready) => void) => Promise<void>;

const nameOf = (email: OutgoingEmail, { claim }: WithSlot) =>
  isPersonal(email) ? `${email.id} ${claim.destination} ${claim.jobId}` : email.id;

const weightOf = ({ unread: { bodies, files } }: { unread: Unread }) => bodies + files;

/**
 * Handles large emails apart from the others: reads a few at a time, and only as many as fit in memory with those not sent
 * yet. Each goes in its turn; one whose own share of the room is full takes nothing from the others.
 */
export class LargeEmails<Ready extends WithSlot> {
  readonly #room: number;
  readonly #prepare: Prepare<Ready>;
  /** By name, in the order they came. */
  readonly #waiting = new Map<string, Large<Ready>>();
  /** Bytes in use, by holder. */
  readonly #taken = new Tally<string>();
  #reading = false;
  #backAt = 0;

  /**
   * @param room in bytes of stored content; with its built message, an email takes about two and a half times as much
   */
  constructor(room: number, prepare: Prepare<Ready>) {
    this.#room = room;
    this.#prepare = prepare;
  }

  /** Whether too many would wait here with this one: of its account, on its site's connections, or in all. */
  isCrowdedFor(ready: Ready, email: OutgoingEmail, unread: Unread): boolean {
    const { accountId } = email;
    let [own, all] = [0, 0];
    for (const { accountId: other, ready } of this.#waiting.values()) {
      all += ready.length;
      if (other === accountId) own += ready.length;
    }
    if (all >= mostWaiting || own >= mostWaiting * part) return true;
    const last = { name: nameOf(email, ready), accountId, unread, ready: [ready] };
    const lacking = this.#lackingRoom(last);
    if (!lacking.has(last)) return false;
    const { site, connections } = ready.started;
    let [ownOfSite, allOfSite] = [0, 0];
    for (const { accountId: other, ready } of lacking) {
      const many = ready.filter(({ started }) => started.site.name === site.name).length;
      allOfSite += many;
      if (other === accountId) ownOfSite += many;
    }
    const most = connections * partOfSite;
    return allOfSite > Math.max(1, most) || ownOfSite > Math.max(1, most * part);
  }

  /** The emails for which there is no room after those ahead of them, with `last` at the end. */
  #lackingRoom(last: Large<Ready>): Set<Large<Ready>> {
    const lacking = new Set<Large<Ready>>();
    const full = new Set<string>();
    const before = new Tally<string>();
    for (const large of [...this.#waiting.values(), last]) {
      const name = this.#fullFor(large, full, before);
      if (name === null) for (const holder of this.#holdersOf(large)) before.add(holder.name, weightOf(large));
      else {
        full.add(name);
        lacking.add(large);
      }
    }
    return lacking;
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

  async #readAll(): Promise<void> {
    this.#reading = true;
    await nextTurn();
    for (let some = this.#take(); some.length > 0; some = this.#take()) await this.#read(some);
    this.#reading = false;
  }

  async #read(some: Large<Ready>[]): Promise<void> {
    const emailOf = new Map(some.flatMap((large) => large.ready.map((ready) => [ready, large])));
    await this.#prepare([...emailOf.keys()], (ready) => {
      const large = emailOf.get(ready);
      emailOf.delete(ready);
      if (large && ![...emailOf.values()].includes(large)) this.#letGo(large);
    });
  }

  #letGo(large: Large<Ready>): void {
    for (const { name } of this.#holdersOf(large)) this.#taken.add(name, -weightOf(large));
    if (!this.#reading) void this.#readAll();
  }

  /** Takes the next emails that have room, to be read together. */
  #take(): Large<Ready>[] {
    const some: Large<Ready>[] = [];
    const full = new Set<string>();
    const filesOfSome = new Set<string>();
    let left = heaviestRead;
    for (const large of this.#waiting.values()) {
      const lacking = this.#fullFor(large, full);
      if (lacking !== null) {
        // Nobody overtakes while waiting for the same room: otherwise there would never be enough for the largest.
        full.add(lacking);
        continue;
      }
      const { bodies, files, filesKey } = large.unread;
      const bytes = bodies + (filesOfSome.has(filesKey) ? 0 : files);
      if (bytes > left && some.length > 0) break;
      // However large it is, others with the same files can come with it.
      left -= Math.min(bytes, heaviestRead / 2);
      filesOfSome.add(filesKey);
      some.push(large);
      for (const { name } of this.#holdersOf(large)) this.#taken.add(name, weightOf(large));
    }
    for (const { name } of some) this.#waiting.delete(name);
    return some;
  }

  /** The holder without room for it; null: it has room. @param before what those ahead of it will take, besides what is taken */
  #fullFor(large: Large<Ready>, full: Set<string>, before?: Tally<string>): string | null {
    const lacking = this.#holdersOf(large).find(({ name, most }) => {
      const taken = this.#taken.of(name) + (before?.of(name) ?? 0);
      // An email larger than the whole room gets it alone.
      return full.has(name) || (taken > 0 && taken + weightOf(large) > most);
    });
    return lacking?.name ?? null;
  }

  /** The holders whose room an email takes, and how much each may have; the smallest first. */
  #holdersOf({ accountId, ready }: Large<Ready>): { name: string; most: number }[] {
    const unproven = ready.some(({ started }) => started.unproven);
    return [
      { name: accountId, most: this.#room * part },
      ...(unproven ? [{ name: 'unproven', most: this.#room * part }] : []),
      { name: 'all', most: this.#room },
    ];
  }
}
