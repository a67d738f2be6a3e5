import type { X509Certificate } from 'node:crypto';
import type { TlsInfo } from '../replies/result.ts';
import { type TlsFailure, type TlsLevel, type TlsPolicyName, tlsLevels } from '../replies/tls-names.ts';

/** Why a host or a connection may not be used. `reason` completes a sentence that starts with the host's name. */
export interface Objection {
  failure: TlsFailure;
  reason: string;
}

/** A connection as far as a policy looks at it. */
export interface SecuredConnection {
  tls: TlsInfo | null;
  /** The certificates that the server showed: its own first, then its issuers. */
  certificates(): X509Certificate[];
}

/** Decides whether a host and a connection may be used. A refused message waits; it never takes another route. */
export interface TlsPolicy {
  readonly name: TlsPolicyName;
  /** Who asks for it, as the subject of a sentence, such as `the MTA-STS policy of example.com`. */
  readonly source: string;
  /** False: mail may go in clear if TLS does not work. */
  readonly needsTls: boolean;
  /** The name to ask the server's certificate for; null: the MX host's. */
  readonly serverName: string | null;
  mayUseHost(host: string): Objection | null;
  /** Asked once TLS is up, and each time that a kept connection is used again. */
  mayUseConnection(connection: SecuredConnection): Objection | null;
}

/** What the sender asks for; `by` is the subject of a sentence. */
export interface TlsDemand {
  level: TlsLevel;
  by: string;
}

/** Nobody asks for anything: mail is encrypted wherever TLS works, and goes in clear where it does not. */
export const opportunistic: TlsDemand = { level: 'opportunistic', by: 'nobody' };

/** What any demand for TLS says about a server without STARTTLS. */
export const noTls: Objection = { failure: 'starttls-not-supported', reason: 'does not offer TLS (STARTTLS)' };

/** The policy that implements a sender's demand. */
export function policyOf({ level, by }: TlsDemand): TlsPolicy {
  return {
    name: level,
    source: by,
    needsTls: level !== 'opportunistic',
    serverName: null,
    mayUseHost: () => null,
    mayUseConnection: (connection) => {
      if (level === 'opportunistic') return null;
      if (connection.tls === null) return noTls;
      return level === 'verified' ? objectToCertificate(connection.tls) : null;
    },
  };
}

/** A policy's name, and who asks for it: nobody for the one that is in force by default. */
export const shownPolicy = ({ name, source }: Pick<TlsPolicy, 'name' | 'source'>) => ({
  policy: name,
  source: name === 'opportunistic' ? 'default' : source,
});

/** The stricter of two demands; the first if they are equal. */
export function stricter(one: TlsDemand, other: TlsDemand): TlsDemand {
  return tlsLevels.indexOf(other.level) > tlsLevels.indexOf(one.level) ? other : one;
}

const strength: TlsPolicyName[] = [...tlsLevels, 'mta-sts', 'dane'];

/** Combines policies under the name of the strongest; an objection of any of them counts. */
export function allOf(first: TlsPolicy, ...others: TlsPolicy[]): TlsPolicy {
  const policies = [first, ...others].toSorted((a, b) => strength.indexOf(b.name) - strength.indexOf(a.name));
  const [strongest = first] = policies;
  const firstOf = (ask: (policy: TlsPolicy) => Objection | null) => {
    for (const policy of policies) {
      const objection = ask(policy);
      if (objection !== null) return objection;
    }
    return null;
  };
  return {
    name: strongest.name,
    source: strongest.source,
    needsTls: policies.some((policy) => policy.needsTls),
    serverName: strongest.serverName,
    mayUseHost: (host) => firstOf((policy) => policy.mayUseHost(host)),
    mayUseConnection: (connection) => firstOf((policy) => policy.mayUseConnection(connection)),
  };
}

/** Stands for a policy that could not be determined: nothing is sent until it can. */
export function unknownPolicy(name: TlsPolicyName, source: string, objection: Objection): TlsPolicy {
  const object = () => objection;
  return { name, source, needsTls: true, serverName: null, mayUseHost: object, mayUseConnection: object };
}

const certificateProblems: Record<string, [TlsFailure, string]> = {
  CERT_HAS_EXPIRED: ['certificate-expired', 'presented a certificate that has expired'],
  CERT_NOT_YET_VALID: ['validation-failure', 'presented a certificate that is not valid yet'],
  ERR_TLS_CERT_ALTNAME_INVALID: ['certificate-host-mismatch', 'presented a certificate for another name'],
};

/** What is wrong with the certificate for the MX host's name, by the usual authorities' rules; null: nothing. */
export function objectToCertificate({ authorized, problem }: TlsInfo): Objection | null {
  if (authorized) return null;
  const untrusted = ['certificate-not-trusted', 'presented a certificate that no trusted authority issued'] as const;
  const [failure, words] = certificateProblems[problem ?? ''] ?? untrusted;
  return { failure, reason: problem === null ? words : `${words} (${problem})` };
}
