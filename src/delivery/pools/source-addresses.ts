import { isIPv6 } from 'node:net';
import type { Clock } from '../../clock.ts';
import type { AttemptRow } from '../../core/recipients/attempts.ts';
import { warmUpOf } from '../../core/recipients/waiting-for.ts';
import * as warmUp from '../../core/sources/warm-up.ts';
import type { Database } from '../../db/client.ts';
import type { Logger } from '../../log.ts';
import {
  type ChosenPool,
  choosePool,
  dayOf,
  missingPool,
  type SendingPools,
  type Stream,
  startOf,
} from '../../smtp/connections/sending-pools.ts';
import { leftFrom } from '../outcome/outcome.ts';
import { type Family, familiesOn } from './pool-families.ts';
import { WarmUpBudget } from './warm-up-budget.ts';
import { type Need, reserveAll, undoAll } from './warm-up-reservation.ts';

/** The addresses that one attempt may leave from. */
export interface Source {
  addresses: string[];
  /** Which pool and why these, for the attempt's record. */
  note: string;
  reserved: warmUp.Unused[];
  /** Why addresses of one family are left out; null: none are. */
  closed: Closed | null;
}

/** Why nothing may leave now, such as a pool or one address family of it without room, and until when. */
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

/** What an attempt leaves from; a null source leaves that to the system. Closed: nothing may be sent now. */
export type Choice = { source: Source | null } | { closed: Closed };

const dayMs = 86_400_000;
/** How long mail waits if another node has room and may take it. */
const elsewhereMs = 20_000;
const readEveryMs = 5_000;
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
  /** By pool, on the budget's day. */
  #families = new Map<string, Family[]>();
  readonly #warned = new Set<string>();
  /** Pools, each with an address family, that have room on another node. */
  #roomElsewhere = new Set<string>();
  #reportedAs: string | null = null;
  /** When the other nodes' use of addresses was last read. */
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(db: Database, pools: SendingPools, log: Logger, clock: Clock) {
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
    return [...this.#today().values()].some((families) => this.#areFull(families));
  }

  /** What this stream is known to wait for, without asking the database; null: it may have room. */
  closedFor(stream: Stream): Closed | null {
    const chosen = this.#poolFor(stream);
    if (chosen === null) return null;
    const families = this.#today().get(chosen.pool);
    return families && this.#areFull(families) ? this.#closed(chosen.pool, families) : null;
  }

  /** Chooses for each of these in their order: with one statement if an address is new, and none otherwise. */
  async choose(wants: Want[]): Promise<Choice[]> {
    const today = this.#today();
    const { day } = this.#budget;
    const asked = wants.map(({ stream, messages }) => {
      const chosen = this.#poolFor(stream);
      const families = today.get(chosen?.pool ?? '') ?? [];
      return { chosen, needs: families.map((family): Need => ({ family, messages, reserved: null })) };
    });
    const needs = asked.flatMap((one) => one.needs);
    try {
      const ofNew = needs.filter(({ family }) => family.warming.length > 0);
      await reserveAll(this.#budget, ofNew);
    } catch (error) {
      undoAll(this.#budget, needs, day);
      throw error;
    }
    if (this.#today() !== today) {
      undoAll(this.#budget, needs, day);
      return this.choose(wants);
    }
    return asked.map(({ chosen, needs: own }) => (chosen === null ? { source: null } : this.#choiceFor(chosen, own)));
  }

  /** Notes what was reserved for an attempt and not used by it, for the next `giveBack`. */
  noteUnused({ reserved }: Source, attempts: Pick<AttemptRow, 'phase' | 'localAddress' | 'recipient'>[]): void {
    for (const { ip, day, messages } of reserved) {
      const used = new Set(
        attempts.filter((row) => leftFrom(row, isIPv6(ip))).map(({ recipient }) => (messages > 1 ? recipient : '')),
      );
      this.#budget.noteUnused({ ip, day, messages: messages - used.size });
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
    if (someNew && Math.abs(this.#clock.now().getTime() - this.#readAt) >= readEveryMs) await this.#readOthers();
  }

  /** Gives what was not used to other messages. */
  giveBack(): Promise<void> {
    return this.#budget.giveBack();
  }

  async #readOthers(): Promise<void> {
    const { day } = this.#budget;
    const all = await warmUp.list(this.#db, day);
    if (day !== this.#budget.day) return;
    this.#readAt = this.#clock.now().getTime();
    const own = new Set(this.#pools.addresses.map(({ ip }) => ip));
    for (const { ip, warmUp: use } of all) if (own.has(ip) && use) this.#budget.correct(ip, use.sent);
    const roomy = all.filter(({ ip, warmUp: use }) => !own.has(ip) && (use === null || use.sent < use.cap));
    this.#roomElsewhere = new Set(roomy.map(({ pool, ip }) => familyName(pool, ip)));
  }

  /** Warns once of each pool that is missing. */
  #poolFor(stream: Stream): ChosenPool | null {
    const chosen = choosePool(this.#pools, stream);
    if (chosen?.missing && !this.#warned.has(chosen.missing)) {
      this.#warned.add(chosen.missing);
      this.#log.warn(
        { pool: chosen.missing, instead: chosen.pool },
        'a pool that a domain names is not configured here',
      );
    }
    return chosen;
  }

  #today(): Map<string, Family[]> {
    const day = dayOf(this.#clock.now());
    if (day === this.#budget.day) return this.#families;
    this.#budget.startDay(day);
    this.#readAt = Number.NEGATIVE_INFINITY;
    this.#families = familiesOn(day, this.#pools);
    return this.#families;
  }

  #areFull(families: Family[]): boolean {
    return families.every(
      ({ settled, warming }) => settled.length === 0 && warming.every((address) => this.#budget.room(address) < 1),
    );
  }

  #choiceFor({ pool, missing }: ChosenPool, needs: Need[]): Choice {
    const { day } = this.#budget;
    const open = needs.filter(hasAddress);
    const shut = needs.filter((need) => !hasAddress(need));
    const families = shut.map(({ family }) => family);
    const closed = shut.length === 0 ? null : this.#closed(pool, families, mostOf(shut));
    if (closed !== null && open.length === 0) return { closed };
    const from = open.map(({ reserved, family }) => (reserved === null ? listed(family.settled) : described(reserved)));
    return {
      source: {
        addresses: open.flatMap(({ reserved, family }) => (reserved === null ? family.settled : [reserved.from.ip])),
        note: `${missing === null ? '' : `${missingPool(missing)}; `}pool ${pool}: from ${from.join(' or ')}`,
        reserved: open.flatMap(({ reserved, messages }) =>
          reserved === null ? [] : [{ ip: reserved.from.ip, day, messages }],
        ),
        closed,
      },
    };
  }

  /** @param messages how many have to go together */
  #closed(pool: string, families: Family[], messages = 1): Closed {
    const warming = families.flatMap((family) => family.warming);
    const tomorrow = startOf(this.#budget.day).getTime() + dayMs;
    const opens = new Date(Math.min(...warming.map(({ beginsAt }) => Math.max(tomorrow, beginsAt.getTime()))));
    const why = warming.map(({ ip, day, cap, firstDay }) =>
      day === 0
        ? `${ip} begins on ${firstDay}`
        : `${ip} has had ${this.#budget.sent(ip)} of the ${cap} messages of day ${day}`,
    );
    const together = messages > 1 ? `${messages} at once need room; ` : '';
    const elsewhere = warming.some(({ ip }) => this.#roomElsewhere.has(familyName(pool, ip)));
    const then = elsewhere ? 'another node has room' : `more on ${dayOf(opens)} (UTC)`;
    return {
      opensAt: elsewhere ? new Date(this.#clock.now().getTime() + elsewhereMs) : opens,
      reason: `${warmUpOf(pool)}: ${together}${listed(why, ', ')}; ${then}`,
    };
  }
}

const hasAddress = ({ reserved, family }: Need) => reserved !== null || family.settled.length > 0;

const mostOf = (needs: Need[]) => Math.max(...needs.map(({ messages }) => messages));

/** Names the addresses of one pool and family. */
const familyName = (pool: string, ip: string) => `${pool} ${isIPv6(ip)}`;

const described = ({ from, number }: NonNullable<Need['reserved']>) =>
  `${from.ip}, day ${from.day} of its warm-up, message ${number} of ${from.cap} today`;

function listed(texts: string[], separator = ' or '): string {
  const more = texts.length - mostNamed;
  return texts.slice(0, mostNamed).join(separator) + (more > 0 ? `${separator}${more} more` : '');
}
