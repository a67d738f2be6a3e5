import { capitalized } from '../../mail/text/characters.ts';
import { HostLookUps } from '../dns/host-look-ups.ts';
import type { MxHost } from '../dns/mx.ts';
import type { TlsPolicyName } from '../replies/tls-names.ts';
import type { DaneDestination, DaneFinding, DanePolicies } from './dane-policies.ts';
import { type StsPolicy, stsRule } from './mta-sts.ts';
import type { StsFinding, StsPolicies } from './sts-policies.ts';
import {
  allOf,
  type Objection,
  policyOf,
  shownPolicy,
  type TlsDemand,
  type TlsPolicy,
  unknownPolicy,
} from './tls-policy.ts';

/** The policy that a host's domain publishes; TLS-RPT groups sessions by it (RFC 8460 section 4.2). */
export interface PublishedPolicy {
  type: 'tlsa' | 'sts' | 'no-policy-found';
  domain: string;
  /** The policy as found, line by line. */
  lines: string[];
  /** The hosts that it names. */
  mx: string[];
  /** What a session is judged by, enforced or not; null: only whether it has TLS. */
  rule: TlsPolicy | null;
  /** Why there is no policy although the domain announced one. */
  problem: Objection | null;
}

/** The rules for one host of a destination. */
export interface HostTls {
  policy: TlsPolicy;
  published: PublishedPolicy;
}

/** The rules for a destination, host by host. */
export interface DestinationTls {
  /** A promise only if something must be looked up: whoever waits for nothing lets others take what it has chosen. */
  forHost(host: string): HostTls | Promise<HostTls>;
  /** For hosts whose turn may come later: see `HostLookUps`. */
  lookAhead(hosts: MxHost[]): void;
}

/** For people: the policy in force for a destination, who asks for it, and remarks. */
export interface TlsDescription {
  policy: TlsPolicyName;
  source: string;
  notes: string[];
  /** Hosts that may not be used, with the reason. */
  refused: Map<string, string>;
}

const insecure: DaneDestination = { kind: 'insecure' };
const noFinding: StsFinding = { policy: null, problem: null };

/**
 * Combines what the sender demands with what the receiving domain publishes. The strictest wins. If TLSA records
 * authenticate a host, that satisfies `verified` too, and MTA-STS is ignored (RFC 8461 section 2).
 */
export class TlsPolicies {
  readonly #sts: Pick<StsPolicies, 'find'> | null;
  readonly #dane: DanePolicies | null;

  /** If `sts` or `dane` is missing, its records are not looked up. */
  constructor({ sts, dane }: { sts?: Pick<StsPolicies, 'find'> | null; dane?: DanePolicies | null } = {}) {
    this.#sts = sts ?? null;
    this.#dane = dane ?? null;
  }

  async forDestination(domain: string, demand: TlsDemand): Promise<DestinationTls> {
    return this.#rulesFor(domain, demand, ...(await this.#find(domain)));
  }

  /** The rules that would apply to these hosts of a destination; name and source are those of the first host. */
  async describe(domain: string, demand: TlsDemand, hosts: string[]): Promise<TlsDescription> {
    const [sts, dane] = await this.#find(domain);
    const { forHost } = this.#rulesFor(domain, demand, sts, dane);
    const found = await Promise.all(hosts.map(async (host) => ({ host, ...(await forHost(host)) })));
    const refused = found.flatMap(({ host, policy }): [string, string][] => {
      const objection = policy.mayUseHost(host);
      return objection === null ? [] : [[host, `${host} ${objection.reason}: ${policy.source}`]];
    });
    return {
      ...shownPolicy(found[0]?.policy ?? inForce(domain, demand, sts)),
      notes: [...this.#notes(domain, sts)],
      refused: new Map(refused),
    };
  }

  *#notes(domain: string, sts: StsFinding | Objection): Generator<string> {
    if (!('reason' in sts) && sts.policy?.mode === 'testing') {
      yield `${domain} has an MTA-STS policy in testing mode: violations are reported, but not enforced.`;
    }
    if (!('reason' in sts) && sts.problem !== null) yield `${capitalized(sts.problem.reason)}.`;
    if (this.#sts === null) yield 'MTA-STS is not checked.';
    if (this.#dane === null) yield 'DANE is not checked: no validating resolver is configured.';
  }

  #find(domain: string): Promise<[StsFinding | Objection, DaneDestination]> {
    return Promise.all([this.#findSts(domain), this.#dane?.forDestination(domain) ?? insecure]);
  }

  /** Returns an objection if it is unknown whether there is a policy. */
  async #findSts(domain: string): Promise<StsFinding | Objection> {
    try {
      return (await this.#sts?.find(domain)) ?? noFinding;
    } catch {
      return { failure: 'sts-policy-fetch-error', reason: 'cannot be used (stored policies cannot be read now)' };
    }
  }

  #rulesFor(
    domain: string,
    demand: TlsDemand,
    sts: StsFinding | Objection,
    destination: DaneDestination,
  ): DestinationTls {
    const dane = this.#dane;
    const rest = { policy: inForce(domain, demand, sts), published: publishedSts(domain, sts) };
    if (dane === null || destination.kind === 'insecure') return { forHost: () => rest, lookAhead: () => undefined };
    const lookUps = new HostLookUps(
      (host) => dane.forHost(domain, destination, host),
      (found, host) => found !== null && found.policy.mayUseHost(host) !== null,
    );
    return {
      forHost: async (host) => {
        const found = await lookUps.of(host);
        return found === null ? rest : withDane(found, rest.policy, domain, host);
      },
      lookAhead: (hosts) => lookUps.lookAhead(hosts),
    };
  }
}

function withDane(dane: DaneFinding, rest: TlsPolicy, domain: string, host: string): HostTls {
  const published = { domain, lines: dane.records, mx: [host], rule: dane.policy, problem: null };
  return {
    policy: dane.authenticates ? dane.policy : allOf(rest, dane.policy),
    published: { type: 'tlsa', ...published },
  };
}

function inForce(domain: string, demand: TlsDemand, sts: StsFinding | Objection): TlsPolicy {
  const asked = policyOf(demand);
  if ('reason' in sts) return unknownPolicy('mta-sts', `the MTA-STS policy of ${domain}`, sts);
  return sts.policy?.mode === 'enforce' ? allOf(asked, stsRule(domain, sts.policy)) : asked;
}

function publishedSts(domain: string, sts: StsFinding | Objection): PublishedPolicy {
  const nothing = { domain, lines: [], mx: [], rule: null };
  if ('reason' in sts) return { type: 'sts', ...nothing, problem: sts };
  const { policy, problem } = sts;
  if (policy === null && problem !== null) return { type: 'sts', ...nothing, problem };
  if (policy === null || policy.mode === 'none') return { type: 'no-policy-found', ...nothing, problem: null };
  return { type: 'sts', domain, lines: linesOf(policy), mx: policy.mx, rule: stsRule(domain, policy), problem: null };
}

const linesOf = ({ mode, mx, maxAgeSeconds }: StsPolicy) => [
  'version: STSv1',
  `mode: ${mode}`,
  ...mx.map((pattern) => `mx: ${pattern}`),
  `max_age: ${maxAgeSeconds}`,
];
