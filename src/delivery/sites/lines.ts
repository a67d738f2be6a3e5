import type { Claim } from '../../core/recipients/recipients.ts';
import { Tally } from '../../pace/tally.ts';
import type { Site } from './providers.ts';

/** How many destinations of one site are remembered. */
const mostMembers = 500;

/** The claims that wait here for one site: those with a higher priority first, otherwise in the order that they came. */
export interface Line {
  readonly site: Site;
  claims: Claim[];
  timer?: NodeJS.Timeout | undefined;
}

/** All claims that wait in this process, by site, and those whose site is not known yet. */
export class Lines {
  readonly #lines = new Map<string, Line>();
  readonly #expected = new Map<string, Set<Claim[]>>();
  /** How many wait for each destination. */
  readonly #counts = new Tally<string>();
  /** By site: the destinations whose claims joined its line since that began. A site is supplied as a whole. */
  readonly #members = new Map<string, Set<string>>();
  /** Lines that were not short when last asked. */
  readonly #supplied = new Set<string>();

  /** Notes claims whose site is being looked up. */
  expect(destination: string, claims: Claim[]): void {
    const expected = this.#expected.get(destination) ?? new Set();
    this.#expected.set(destination, expected.add(claims));
    this.#counts.add(destination, claims.length);
  }

  /** Puts expected claims into their line; false if they are no longer expected. */
  arrive(destination: string, claims: Claim[], site: Site): boolean {
    const expected = this.#expected.get(destination);
    if (!expected?.delete(claims)) return false;
    if (expected.size === 0) this.#expected.delete(destination);
    this.#addMember(site.name, destination);
    const line = this.#lines.get(site.name);
    if (line) queueUp(line, claims);
    else this.#lines.set(site.name, { site, claims: [...claims] });
    return true;
  }

  /** The destinations that need nothing more for now: they have claims waiting here, in a line that is not short. */
  supplied(isShort: (line: Line) => boolean): string[] {
    const supplied = new Set(this.#counts.kinds());
    this.#supplied.clear();
    for (const [name, line] of this.#lines) {
      if (isShort(line)) {
        for (const { destination } of line.claims) supplied.delete(destination);
      } else {
        this.#supplied.add(name);
        for (const destination of this.#members.get(name) ?? []) supplied.add(destination);
      }
    }
    return [...supplied];
  }

  /** The destinations that need nothing of this priority for now: their site is not known yet, or so many go before it there. */
  suppliedWith(priority: number, enough: number): string[] {
    const supplied = new Set(this.#expected.keys());
    for (const [name, { claims }] of this.#lines) {
      const last = claims[enough - 1];
      if (last === undefined || last.priority < priority) continue;
      for (const destination of this.#members.get(name) ?? []) supplied.add(destination);
    }
    return [...supplied];
  }

  /** True once for a line that needed nothing when last asked, and now does. */
  ranShort(line: Line, isShort: (line: Line) => boolean): boolean {
    const { name } = line.site;
    return this.#supplied.has(name) && isShort(line) && this.#supplied.delete(name);
  }

  names(): string[] {
    return [...this.#lines.keys()];
  }

  get(name: string): Line | undefined {
    return this.#lines.get(name);
  }

  lengthOf(name: string): number {
    return this.#lines.get(name)?.claims.length ?? 0;
  }

  /** Takes the first claim out of a line, which must not be empty. */
  shift(line: Line): Claim {
    const claim = line.claims.shift() as Claim;
    this.#removed(line, [claim]);
    return claim;
  }

  /** Takes out all but the first `keep`. */
  cut(line: Line, keep: number): Claim[] {
    const rest = line.claims.splice(keep);
    this.#removed(line, rest);
    return rest;
  }

  remove(line: Line, claims: Claim[]): void {
    const gone = new Set(claims);
    line.claims = line.claims.filter((claim) => !gone.has(claim));
    this.#removed(line, claims);
  }

  /** Calls `wake` once after `ms`, however often this is called meanwhile. */
  wakeIn(line: Line, ms: number, wake: () => void): void {
    line.timer ??= setTimeout(() => {
      line.timer = undefined;
      wake();
    }, ms);
  }

  /** Takes out everything. */
  empty(): Claim[] {
    const waiting = [...this.#lines.values()].flatMap((line) => {
      clearTimeout(line.timer);
      return line.claims;
    });
    const expected = [...this.#expected.values()].flatMap((sets) => [...sets].flat());
    this.#lines.clear();
    this.#expected.clear();
    this.#counts.clear();
    this.#members.clear();
    return [...waiting, ...expected];
  }

  #addMember(name: string, destination: string): void {
    const members = this.#members.get(name) ?? new Set();
    members.add(destination);
    const [oldest] = members;
    if (members.size > mostMembers && oldest !== undefined) members.delete(oldest);
    this.#members.set(name, members);
  }

  #removed(line: Line, claims: Claim[]): void {
    for (const { destination } of claims) this.#counts.add(destination, -1);
    if (line.claims.length > 0) return;
    this.#lines.delete(line.site.name);
    this.#members.delete(line.site.name);
    clearTimeout(line.timer);
  }
}

/** @param coming in the order of a line */
function queueUp(line: Line, coming: Claim[]): void {
  const isBehind = (line.claims.at(-1)?.priority ?? 0) >= (coming[0]?.priority ?? 0);
  line.claims.push(...coming);
  if (!isBehind) line.claims.sort((a, b) => b.priority - a.priority);
}
