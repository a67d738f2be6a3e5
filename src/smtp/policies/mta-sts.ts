import { comparableName } from '../dns/host-name.ts';
import type { Objection, TlsPolicy } from './tls-policy.ts';
import { noTls, objectToCertificate } from './tls-policy.ts';

/** A domain's policy (RFC 8461 section 3.2). */
export interface StsPolicy {
  /** The id in the domain's TXT record when the policy was fetched. */
  id: string;
  mode: 'enforce' | 'testing' | 'none';
  /** Host names in lower case; the first label may be `*`. */
  mx: string[];
  maxAgeSeconds: number;
  fetchedAt: Date;
}

/** The content of the policy file, without its id and when it was fetched. */
export type StsFile = Pick<StsPolicy, 'mode' | 'mx' | 'maxAgeSeconds'>;

/** An invalid policy file; the message completes a sentence about it. */
export class StsFileError extends Error {}

/** RFC 8461 section 3.2: about a year. */
const mostSeconds = 31_557_600;
const mostHosts = 200;

/** When the policy expires unless it is fetched again. */
export const expiresAt = ({ fetchedAt, maxAgeSeconds }: StsPolicy) =>
  new Date(fetchedAt.getTime() + maxAgeSeconds * 1_000);

/**
 * The id in a domain's TXT records at `_mta-sts`; null if there is no policy, two records or a malformed one (RFC 8461
 * section 3.1).
 */
export function readStsId(records: string[]): string | null {
  const [record, ...more] = records.filter((text) => /^v=STSv1\s*;/.test(text));
  if (record === undefined || more.length > 0) return null;
  const fields = record.split(';').map((field) => field.trim());
  return fields.map((field) => /^id=([A-Za-z0-9]{1,32})$/.exec(field)?.[1]).find((id) => id !== undefined) ?? null;
}

/**
 * Reads a policy file (RFC 8461 section 3.2). The first of duplicate fields counts, except for `mx`; unknown fields are
 * ignored.
 *
 * @throws StsFileError
 */
export function readStsFile(text: string): StsFile {
  const values = new Map<string, string>();
  const mx: string[] = [];
  for (const line of text.split(/\r?\n/)) {
    if (line.trim() === '') continue;
    const [, name = '', rest = ''] = /^([A-Za-z0-9][\w.-]{0,31}):(.*)$/.exec(line) ?? [];
    const value = rest.trim();
    if (name === '' || /[\x00-\x1f\x7f]/.test(value)) throw new StsFileError('has a line that is not "name: value"');
    if (name === 'mx') mx.push(readPattern(value));
    else if (!values.has(name)) values.set(name, value);
  }
  const mode = values.get('mode');
  const maxAge = values.get('max_age') ?? '';
  if (values.get('version') !== 'STSv1') throw new StsFileError('does not say "version: STSv1"');
  if (mode !== 'enforce' && mode !== 'testing' && mode !== 'none')
    throw new StsFileError('has no valid mode (enforce, testing or none)');
  if (!/^\d{1,10}$/.test(maxAge)) throw new StsFileError('has no max_age in seconds');
  if (mode !== 'none' && mx.length === 0) throw new StsFileError('has no mx');
  if (mx.length > mostHosts) throw new StsFileError(`has more than ${mostHosts} mx`);
  return { mode, mx, maxAgeSeconds: Math.min(Number(maxAge), mostSeconds) };
}

function readPattern(value: string): string {
  const pattern = comparableName(value);
  const fits = pattern.length <= 253 && /^(\*\.)?([a-z0-9_-]{1,63}\.)+[a-z0-9_-]{1,63}$/.test(pattern);
  if (!fits) throw new StsFileError('has an mx that is not a host name');
  return pattern;
}

/** Whether the policy names this host; `*` stands for exactly one label (RFC 8461 section 4.1). */
export function namesHost({ mx }: Pick<StsPolicy, 'mx'>, host: string): boolean {
  const name = comparableName(host);
  const parent = name.slice(name.indexOf('.') + 1);
  return mx.some((pattern) =>
    pattern.startsWith('*.') ? pattern.slice(2) === parent && name.includes('.') : pattern === name,
  );
}

/** The policy as a rule for deliveries to the domain: only hosts that it names, with a certificate valid for the host. */
export function stsRule(domain: string, policy: Pick<StsPolicy, 'mx'>): TlsPolicy {
  const stranger: Objection = { failure: 'validation-failure', reason: 'is not a host that it names' };
  return {
    name: 'mta-sts',
    source: `the MTA-STS policy of ${domain}`,
    needsTls: true,
    serverName: null,
    mayUseHost: (host) => (namesHost(policy, host) ? null : stranger),
    mayUseConnection: ({ tls }) => (tls === null ? noTls : objectToCertificate(tls)),
  };
}
