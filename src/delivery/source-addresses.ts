import { isIPv6 } from 'node:net';
import { type Clock, systemClock } from '../clock.ts';
import type { AttemptRow } from '../core/recipients/attempts.ts';
import { warmUpOf } from '../core/recipients/waiting-for.ts';
import * as warmUp from '../core/recipients/warm-up.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import {
  choosePool,
  dayOf,
  missingPool,
  type SendingAddress,
  type SendingPools,
  type Stream,
  startOf,
  type WarmUp,
  warmUpOn,
} from '../sending-pools.ts';
import { leftFrom } from './outcome.ts';
import { WarmUpBudget } from './warm-up-budget.ts';

/** The addresses that one attempt may leave from. */
export interface Source {
  addresses: string[];
  /** Which pool and why these, for the attempt's record. */
  note: string;
  reserved: warmUp.Unused[];
  /** Why addresses of one family are left out; null: none are. */
  closed: Closed | null;
}

/** A pool, or one address family of it, from which nothing may leave now. */
export interface Closed {
  opensAt: Date;
  /** What is waited for, in words. */
  reason: string;
}

/** An attempt to be made: how many messages of which stream. */
export interface Want {
  stream: Stream;
  messages: number;
}

/** Closed: nothing may be sent now. A null source leaves the choice to the system. */
export type Ruling = { source: Source | null } | { closed: Closed };

interface Warming extends WarmUp {
  ip: string;
  firstDay: string;
}

/** A pool's addresses of one family. */
interface Family {
  settled: string[];
  warming: Warming[];
}

/** What one attempt needs of one family of its pool. */
interface Part {
  family: Family;
  messages: number;
  taken: { from: Warming; number: number } | null;
}

const dayMs = 86_400_000;
/** How long mail waits if another node has room and may take it. */
const elsewhereMs = 20_000;
const lookEveryMs = 5_000;
const mostNamed = 4;

/**
 * Chooses which of this node's addresses each message leaves from. A new address goes first until it has had its plan's
 * messages for the day, on all nodes together; mail that the other addresses of its pool do not take waits. Messages are
 * reserved before an attempt, and given back if they were not sent.
 */
export class SourceAddresses {
  readonly #db: Database;
  readonly #pools: SendingPools;
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #budget: WarmUpBudget;
  #families = new Map<string, Family[]>();
  readonly #warned = new Set<string>();
  #roomElsewhere = new Set<string>();
  #reportedAs: string | null = null;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(db: Database, pools: SendingPools, log: Logger, clock: Clock = systemClock) {
    this.#db = db;
    this.#pools = pools;
    this.#log = log;
    this.#clock = clock;
    this.#budget = new WarmUpBudget(db);
  }

  /** Whether all mail leaves from the same addresses: one pool, with at most one address of each family. */
  get areOne(): boolean {
    const { addresses } = this.#pools;
    const families = new Set(addresses.map(({ ip }) => isIPv6(ip)));
    return families.size === addresses.length && new Set(addresses.map(({ pool }) => pool)).size < 2;
  }

  /** True if any pool of this node is known to have used up its day. */
  get someClosed(): boolean {
    return [...this.#today().values()].some((families) => this.#isFull(families));
  }

  /** What this stream is known to wait for, without asking the database; null: it may have room. */
  closedFor(stream: Stream): Closed | null {
    const pool = this.#poolOf(stream);
    const families = this.#today().get(pool ?? '');
    return pool !== null && families && this.#isFull(families) ? this.#closed(pool, families) : null;
  }

  /** Rules on these in their order: with one statement if an address is new, and none otherwise. */
  async grant(wants: Want[]): Promise<Ruling[]> {
    const today = this.#today();
    const { day } = this.#budget;
    const asked = wants.map(({ stream, messages }) => {
      const pool = this.#poolOf(stream);
      const families = today.get(pool ?? '') ?? [];
      return { pool, stream, parts: families.map((family): Part => ({ family, messages, taken: null })) };
    });
    const parts = asked.flatMap((one) => one.parts);
    const giveUp = () => {
      for (const { taken, messages } of parts) if (taken) this.#budget.release({ ip: taken.from.ip, day, messages });
    };
    await this.#reserve(parts.filter(({ family }) => family.warming.length > 0)).catch((error: Error) => {
      giveUp();
      throw error;
    });
    if (this.#today() !== today) {
      giveUp();
      return this.grant(wants);
    }
    return asked.map((one) => (one.pool === null ? { source: null } : this.#rule(one.pool, one.stream, one.parts)));
  }

  /** Takes back what an attempt did not use. */
  settle({ reserved }: Source, attempts: Pick<AttemptRow, 'phase' | 'localAddress' | 'recipient'>[]): void {
    for (const { ip, day, messages } of reserved) {
      const used = new Set(
        attempts.filter((row) => leftFrom(row, isIPv6(ip))).map(({ recipient }) => (messages > 1 ? recipient : '')),
      );
      this.#budget.release({ ip, day, messages: messages - used.size });
    }
  }

  /** Tells the database this node's addresses and what was not used, and reads what the other nodes did. */
  async exchange(nodeId: string): Promise<void> {
    const { addresses, plan } = this.#pools;
    if (addresses.length === 0) return;
    if (nodeId !== this.#reportedAs && (await warmUp.report(this.#db, nodeId, addresses, plan)))
      this.#reportedAs = nodeId;
    await this.giveBack();
    const someNew = [...this.#today().values()].flat().some(({ warming }) => warming.length > 0);
    if (someNew && Math.abs(this.#clock.now().getTime() - this.#lookedAt) >= lookEveryMs) await this.#look();
  }

  /** Gives what was not used to other messages. */
  giveBack(): Promise<void> {
    return this.#budget.giveBack();
  }

  async #look(): Promise<void> {
    const { day } = this.#budget;
    const all = await warmUp.list(this.#db, day);
    if (day !== this.#budget.day) return;
    this.#lookedAt = this.#clock.now().getTime();
    const own = new Set(this.#pools.addresses.map(({ ip }) => ip));
    for (const { ip, warmUp: at } of all) if (own.has(ip) && at) this.#budget.correct(ip, at.sent);
    const others = all.filter(({ ip, warmUp: at }) => !own.has(ip) && (at === null || at.sent < at.cap));
    this.#roomElsewhere = new Set(others.map(({ pool, ip }) => placeOf(pool, ip)));
  }

  #poolOf(stream: Stream): string | null {
    const chosen = choosePool(this.#pools, stream);
    if (chosen?.missing && !this.#warned.has(chosen.missing)) {
      this.#warned.add(chosen.missing);
      this.#log.warn(
        { pool: chosen.missing, instead: chosen.pool },
        'a pool that a domain names is not configured here',
      );
    }
    return chosen?.pool ?? null;
  }

  #today(): Map<string, Family[]> {
    const day = dayOf(this.#clock.now());
    if (day === this.#budget.day) return this.#families;
    this.#budget.startDay(day);
    this.#lookedAt = Number.NEGATIVE_INFINITY;
    this.#families = new Map();
    for (const [pool, addresses] of Map.groupBy(this.#pools.addresses, (address) => address.pool)) {
      const families = Map.groupBy(addresses, ({ ip }) => isIPv6(ip)).values();
      this.#families.set(
        pool,
        [...families].map((of) => familyOf(of, this.#pools.plan, day)),
      );
    }
    return this.#families;
  }

  #isFull(families: Family[]): boolean {
    return families.every(
      ({ settled, warming }) => settled.length === 0 && warming.every((one) => this.#budget.room(one) < 1),
    );
  }

  /** Reserves for all parts at once; asks again only if other nodes had taken what seemed to be left. */
  async #reserve(parts: Part[]): Promise<void> {
    const { day } = this.#budget;
    for (let open = parts; open.length > 0; open = open.filter(({ taken }) => taken === null)) {
      const asked = new Map<Warming, Part[]>();
      for (const part of open) {
        const left = (one: Warming) => this.#budget.room(one) - sum(asked.get(one) ?? []);
        const most = part.family.warming.toSorted((a, b) => left(b) - left(a))[0];
        if (most && left(most) >= part.messages) asked.set(most, [...(asked.get(most) ?? []), part]);
      }
      if (asked.size === 0) return;
      const asks = [...asked].map(([{ ip, cap }, some]) => ({ ip, cap, messages: sum(some) }));
      const grants = await this.#budget.reserve(asks);
      for (const [index, [from, some]] of [...asked].entries()) {
        const { granted, first } = grants[index] ?? { granted: 0, first: 1 };
        const rest = share(from, some, granted, first);
        this.#budget.release({ ip: from.ip, day, messages: rest });
      }
      if (day !== this.#budget.day) return;
    }
  }

  #rule(pool: string, stream: Stream, parts: Part[]): Ruling {
    const { day } = this.#budget;
    const isShut = ({ taken, family }: Part) => taken === null && family.settled.length === 0;
    const shut = parts.filter(isShut).map(({ family }) => family);
    const need = Math.max(0, ...parts.filter(isShut).map(({ messages }) => messages));
    const closed = shut.length === 0 ? null : this.#closed(pool, shut, need);
    const open = parts.filter((part) => !isShut(part));
    if (closed !== null && open.length === 0) return { closed };
    const missing = choosePool(this.#pools, stream)?.missing ?? null;
    const from = open.map(({ taken, family }) => (taken === null ? named(family.settled) : described(taken)));
    return {
      source: {
        addresses: open.flatMap(({ taken, family }) => (taken === null ? family.settled : [taken.from.ip])),
        note: `${missing === null ? '' : `${missingPool(missing)}; `}pool ${pool}: from ${from.join(' or ')}`,
        reserved: open.flatMap(({ taken, messages }) => (taken === null ? [] : [{ ip: taken.from.ip, day, messages }])),
        closed,
      },
    };
  }

  #closed(pool: string, families: Family[], need = 1): Closed {
    const warming = families.flatMap((family) => family.warming);
    const tomorrow = startOf(this.#budget.day).getTime() + dayMs;
    const opens = new Date(Math.min(...warming.map(({ beginsAt }) => Math.max(tomorrow, beginsAt.getTime()))));
    const why = warming.map((one) =>
      one.day === 0
        ? `${one.ip} begins on ${one.firstDay}`
        : `${one.ip} has had ${this.#budget.sent(one.ip)} of the ${one.cap} messages of day ${one.day}`,
    );
    const together = need > 1 ? `${need} at once need room; ` : '';
    const elsewhere = warming.some(({ ip }) => this.#roomElsewhere.has(placeOf(pool, ip)));
    const then = elsewhere ? 'another node has room' : `more on ${dayOf(opens)} (UTC)`;
    return {
      opensAt: elsewhere ? new Date(this.#clock.now().getTime() + elsewhereMs) : opens,
      reason: `${warmUpOf(pool)}: ${together}${named(why, ', ')}; ${then}`,
    };
  }
}

function familyOf(addresses: SendingAddress[], plan: readonly number[], day: string): Family {
  const all = addresses.map((address) => ({ ...address, at: warmUpOn(day, address, plan) }));
  return {
    settled: all.flatMap(({ ip, at }) => (at === null ? [ip] : [])),
    warming: all.flatMap(({ ip, firstDay, at }) => (at && firstDay ? [{ ...at, ip, firstDay }] : [])),
  };
}

/** Gives each part in turn all it needs or nothing, and returns what is left. */
function share(from: Warming, parts: Part[], granted: number, first: number): number {
  let left = granted;
  for (const part of parts) {
    if (part.messages > left) continue;
    part.taken = { from, number: first + granted - left };
    left -= part.messages;
  }
  return left;
}

/** Names the addresses of one pool and family. */
const placeOf = (pool: string, ip: string) => `${pool} ${isIPv6(ip)}`;

const sum = (parts: Part[]) => parts.reduce((total, { messages }) => total + messages, 0);

const described = ({ from, number }: NonNullable<Part['taken']>) =>
  `${from.ip}, day ${from.day} of its warm-up, message ${number} of ${from.cap} today`;

function named(texts: string[], separator = ' or '): string {
  const more = texts.length - mostNamed;
  return texts.slice(0, mostNamed).join(separator) + (more > 0 ? `${separator}${more} more` : '');
}
