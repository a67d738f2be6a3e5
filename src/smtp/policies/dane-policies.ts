import type { Answer as DnsRecord, RecordType } from 'dns-packet';
import { comparableName, sameName } from '../dns/host-name.ts';
import type { SecureAnswer, ValidatingResolver } from '../dns/validating-resolver.ts';
import { daneRule, encryptOnly, type TlsaRecord, usable, writeTlsa } from './dane.ts';
import type { TlsPolicy } from './tls-policy.ts';
import { unknownPolicy } from './tls-policy.ts';

/** What DANE says about a host; `authenticates` is false if its records only promise TLS. */
export interface DaneFinding {
  policy: TlsPolicy;
  authenticates: boolean;
  /** The records as text: 20 at most, whole certificates truncated. */
  records: string[];
}

/** Whether DNSSEC vouches for a domain's MX records, and for which hosts; `unknown` says why that cannot be determined. */
export type DaneDestination = { kind: 'insecure' } | PerhapsSigned;

type PerhapsSigned = { kind: 'secure'; hosts: string[] } | { kind: 'unknown'; reason: string };

/** The DANE rules of MX hosts (RFC 7672), based on the answers of a validating resolver. */
export class DanePolicies {
  readonly #resolver: ValidatingResolver;
  readonly #port: number;

  constructor(resolver: ValidatingResolver, port: number) {
    this.#resolver = resolver;
    this.#port = port;
  }

  /** TLSA records count only for hosts named by MX records that DNSSEC vouches for (RFC 7672 section 2.2.1). */
  async forDestination(domain: string): Promise<DaneDestination> {
    const found = await this.#ask(domain, 'MX');
    if ('reason' in found) return { kind: 'unknown', reason: found.reason };
    if (!found.secure) return { kind: 'insecure' };
    const hosts = found.records.flatMap((record) => (record.type === 'MX' ? [record.data.exchange] : []));
    return { kind: 'secure', hosts: hosts.length > 0 ? hosts : [domain] };
  }

  /** The rule for one host of a domain; null if DANE has nothing to say about it. */
  async forHost(domain: string, destination: PerhapsSigned, host: string): Promise<DaneFinding | null> {
    if (destination.kind === 'unknown') return refuse(`DNSSEC for ${domain}`, `its MX records: ${destination.reason}`);
    if (!destination.hosts.some((name) => sameName(name, host))) {
      return refuse(`DNSSEC for ${domain}`, 'the signed MX records do not name this host');
    }
    const bases = await this.#bases(host);
    if ('reason' in bases) return refuse(`DNSSEC for ${host}`, `its addresses: ${bases.reason}`);
    for (const base of bases) {
      const found = await this.#ask(`_${this.#port}._tcp.${base}`, 'TLSA');
      if ('reason' in found) return refuse(`DANE for ${host}`, `its TLSA records: ${found.reason}`);
      const records = found.records.flatMap((record) => (record.type === 'TLSA' ? [record.data as TlsaRecord] : []));
      if (found.secure && records.length > 0) return findingOf(host, records, [base, domain, host]);
    }
    return null;
  }

  /** The names that may have TLSA records, the end of the alias chain first (RFC 7672 section 2.2.2). */
  async #bases(host: string): Promise<string[] | { reason: string }> {
    const found = await this.#ask(host, 'A');
    if ('reason' in found) return found;
    const expanded = followAliases(found.records, host);
    if (found.secure) return sameName(expanded, host) ? [host] : [expanded, host];
    if (sameName(expanded, host)) return [];
    // The alias itself may be signed although its target is not.
    const alias = await this.#ask(host, 'CNAME');
    return 'reason' in alias ? alias : alias.secure ? [host] : [];
  }

  async #ask(name: string, type: RecordType): Promise<SecureAnswer | { reason: string }> {
    const answer = await this.#resolver.query(name, type);
    if (answer.kind === 'temporary') return { reason: answer.reason };
    return answer.kind === 'records' && answer.records[0] ? answer.records[0] : { secure: false, records: [] };
  }
}

function findingOf(host: string, records: TlsaRecord[], names: [string, ...string[]]): DaneFinding {
  const fit = usable(records);
  const policy = fit.length > 0 ? daneRule(host, fit, names) : encryptOnly(host);
  return {
    policy,
    authenticates: fit.length > 0,
    records: records.slice(0, 20).map((record) => writeTlsa(record).slice(0, 200)),
  };
}

/** An attacker who wants the mail may be blocking the look-up (RFC 7672 section 2.1.2). */
function refuse(source: string, reason: string): DaneFinding {
  const objection = { failure: 'dnssec-invalid' as const, reason: `cannot be used (${reason})` };
  return { policy: unknownPolicy('dane', source, objection), authenticates: true, records: [] };
}

const mostAliases = 8;

function followAliases(records: DnsRecord[], from: string): string {
  let name = from;
  for (let left = mostAliases; left > 0; left--) {
    const alias = records.find((record) => record.type === 'CNAME' && sameName(record.name, name));
    if (alias?.type !== 'CNAME') break;
    name = comparableName(alias.data);
  }
  return name;
}
