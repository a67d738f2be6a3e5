import { createHash, type X509Certificate } from 'node:crypto';
import type { Objection, SecuredConnection, TlsPolicy } from './tls-policy.ts';
import { noTls } from './tls-policy.ts';

/** A TLSA record (RFC 6698 section 2.1). */
export interface TlsaRecord {
  usage: number;
  selector: number;
  matchingType: number;
  certificate: Buffer;
}

const trustAnchor = 2;
const endEntity = 3;
const wholeCertificate = 0;
const publicKey = 1;
const hashes: Record<number, { name: 'sha256' | 'sha512'; bytes: number }> = {
  1: { name: 'sha256', bytes: 32 },
  2: { name: 'sha512', bytes: 64 },
};
const mostRecords = 40;

/** The records that SMTP can use (RFC 7672 section 3.1): usages 2 and 3, with digests of the right length. */
export function usable(records: TlsaRecord[]): TlsaRecord[] {
  const fit = records.filter(({ usage, selector, matchingType, certificate }) => {
    const length = matchingType === 0 ? certificate.length > 0 : certificate.length === hashes[matchingType]?.bytes;
    const ofSmtp = usage === trustAnchor || usage === endEntity;
    return ofSmtp && (selector === wholeCertificate || selector === publicKey) && length;
  });
  return fit.slice(0, mostRecords);
}

/** In the presentation format of zone files. */
export const writeTlsa = ({ usage, selector, matchingType, certificate }: TlsaRecord) =>
  `${usage} ${selector} ${matchingType} ${certificate.toString('hex')}`;

/**
 * The rule that a host's usable records make: TLS, with a certificate that one of the records matches.
 *
 * @param names names that a certificate under a trust anchor may be for; the first is sent as SNI (RFC 7672
 *   sections 3.2.2 and 8.1)
 */
export function daneRule(host: string, records: TlsaRecord[], names: [string, ...string[]]): TlsPolicy {
  return {
    name: 'dane',
    source: `the TLSA records (DANE) of ${host}`,
    needsTls: true,
    serverName: names[0],
    mayUseHost: () => null,
    mayUseConnection: (connection) => {
      try {
        return object(connection, records, names);
      } catch {
        // Its kind of key is unknown here.
        return { failure: 'certificate-not-trusted', reason: 'presented a certificate that cannot be read' };
      }
    },
  };
}

/** Records that are all unusable still promise TLS (RFC 7672 section 2.2). */
export function encryptOnly(host: string): TlsPolicy {
  return {
    name: 'required',
    source: `the TLSA records (DANE) of ${host}`,
    needsTls: true,
    serverName: null,
    mayUseHost: () => null,
    mayUseConnection: ({ tls }) => (tls === null ? noTls : null),
  };
}

function object(connection: SecuredConnection, records: TlsaRecord[], names: string[]): Objection | null {
  if (connection.tls === null) return noTls;
  const chain = connection.certificates();
  const [own] = chain;
  const matches = (certificate: X509Certificate, usage: number) =>
    records.some((record) => record.usage === usage && isNamedBy(record, certificate));
  // DNSSEC vouches for the key: the certificate's names and dates are ignored (RFC 7672 section 3.1.1).
  if (own !== undefined && matches(own, endEntity)) return null;
  const anchor = chain.findIndex((certificate, at) => at > 0 && matches(certificate, trustAnchor));
  if (own === undefined || anchor === -1) {
    return { failure: 'validation-failure', reason: 'presented a certificate that does not match its TLSA records' };
  }
  return objectToPath(chain.slice(0, anchor + 1), names);
}

function isNamedBy({ selector, matchingType, certificate: named }: TlsaRecord, certificate: X509Certificate): boolean {
  const bytes =
    selector === wholeCertificate ? certificate.raw : certificate.publicKey.export({ type: 'spki', format: 'der' });
  const hash = hashes[matchingType];
  return (hash === undefined ? bytes : createHash(hash.name).update(bytes).digest()).equals(named);
}

/** Validates a path whose last certificate is the trust anchor; null: valid. */
function objectToPath(path: X509Certificate[], names: string[]): Objection | null {
  const now = Date.now();
  for (const [at, certificate] of path.entries()) {
    const issuer = path[at + 1];
    const signed = !issuer || (issuer.ca && certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey));
    if (!signed) {
      return {
        failure: 'certificate-not-trusted',
        reason: 'presented certificates that do not match its TLSA records',
      };
    }
    if (now < Date.parse(certificate.validFrom) || now > Date.parse(certificate.validTo)) {
      return { failure: 'certificate-expired', reason: 'presented a certificate that has expired or is not valid yet' };
    }
  }
  const fits = names.some(
    (name) => path[0]?.checkHost(name, { subject: 'default', partialWildcards: false }) !== undefined,
  );
  if (fits) return null;
  return { failure: 'certificate-host-mismatch', reason: 'presented a certificate for another name' };
}
