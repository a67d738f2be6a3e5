import { type Answer, type AnswerRecord, startDnsServer } from '../../src/sandbox/dns.ts';
import { createResolver, type Resolver } from '../../src/smtp/dns/resolver.ts';
import type { TlsaRecord } from '../../src/smtp/policies/dane.ts';

/** The records of one name, or how the server fails for it. A name that is not in the zone is NXDOMAIN. */
export type ZoneEntry = ZoneRecords | 'SERVFAIL' | 'NXDOMAIN' | 'REFUSED' | 'drop';

export interface ZoneRecords {
  MX?: [preference: number, exchange: string][];
  A?: string[];
  AAAA?: string[];
  TXT?: string[];
  CNAME?: string;
  PTR?: string[];
  NS?: string[];
  TLSA?: TlsaRecord[];
  /** Whether DNSSEC vouches for this name: false for a name in an unsigned zone. */
  secure?: boolean;
}

export interface Zone {
  /** `ip:port`. */
  address: string;
  /** Asks only this zone; it waits a second for a name that is silent on purpose, and for others as long as a full machine needs. */
  resolver: Resolver;
  /** Every question so far, such as `mx example.test`, oldest first. */
  queries: string[];
  /** Replaces a name's records; undefined removes the name. */
  set(name: string, entry: ZoneEntry | undefined): void;
  /** Sets the AD bit (DNSSEC) on everything outside of unsigned zones, including what does not exist. */
  sign(): void;
  /** Delays all answers from now on by this many milliseconds. */
  delay(ms: number): void;
  close(): Promise<void>;
}

/** A DNS server on loopback that answers from a literal. */
export async function startZone(literal: Record<string, ZoneEntry> = {}): Promise<Zone> {
  const entries = new Map(Object.entries(literal).map(([name, entry]) => [name.toLowerCase(), entry]));
  const queries: string[] = [];
  let delayMs = 0;
  let signed = false;
  const server = await startDnsServer({
    answer: async (name, type) => {
      queries.push(`${type.toLowerCase()} ${name}`);
      if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
      const answer = answerFrom(entries, name, type);
      return answer === 'drop' ? answer : { ...answer, authentic: signed && isSigned(entries, name, type) };
    },
  });
  // After some quick answers c-ares waits a second for the next, whatever it is told: only more tries make it wait longer.
  const patient = createResolver([server.address], { timeoutMs: 5_000, tries: 10, mostMs: 60_000 });
  const impatient = createResolver([server.address], { timeoutMs: 1_000, tries: 1 });
  const resolverOf = (name: string) => (entries.get(name.toLowerCase()) === 'drop' ? impatient : patient);
  return {
    address: server.address,
    resolver: {
      resolveMx: (name) => resolverOf(name).resolveMx(name),
      resolve4: (name) => resolverOf(name).resolve4(name),
      resolve6: (name) => resolverOf(name).resolve6(name),
      resolveTxt: (name) => resolverOf(name).resolveTxt(name),
      resolve: (name, type) => resolverOf(name).resolve(name, type),
    },
    queries,
    set(name, entry) {
      if (entry === undefined) entries.delete(name.toLowerCase());
      else entries.set(name.toLowerCase(), entry);
    },
    sign() {
      signed = true;
    },
    delay(ms) {
      delayMs = ms;
    },
    close: () => server.close(),
  };
}

function answerFrom(entries: Map<string, ZoneEntry>, name: string, type: string): Answer {
  const entry = entries.get(name) ?? 'NXDOMAIN';
  if (entry === 'drop') return 'drop';
  if (typeof entry === 'string') return { rcode: entry, records: [] };
  if (entry.CNAME !== undefined && type !== 'CNAME') {
    const target = entry.CNAME.toLowerCase();
    const rest = answerFrom(entries, target, type);
    const alias: AnswerRecord = { type: 'CNAME', data: entry.CNAME, ttl: 60 };
    if (rest === 'drop') return rest;
    return { ...rest, records: [alias, ...rest.records.map((record) => ({ name: target, ...record }))] };
  }
  return { rcode: 'NOERROR', records: recordsOf(entry, type) };
}

function isSigned(entries: Map<string, ZoneEntry>, name: string, type: string): boolean {
  const entry = entries.get(name);
  if (typeof entry !== 'object') return true;
  if (entry.secure === false || entry.CNAME === undefined || type === 'CNAME') return entry.secure !== false;
  return isSigned(entries, entry.CNAME.toLowerCase(), type);
}

function recordsOf(entry: ZoneRecords, type: string): AnswerRecord[] {
  if (type === 'MX') {
    return (entry.MX ?? []).map(([preference, exchange]) => ({ type, data: { preference, exchange }, ttl: 60 }));
  }
  const data = entry[type as Exclude<keyof ZoneRecords, 'secure'>] ?? [];
  return [data].flat().map((each) => ({ type, data: each, ttl: 60 }));
}
