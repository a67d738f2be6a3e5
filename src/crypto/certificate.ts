import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

/** A TLS server's certificate and its private key, as PEM. */
export interface TlsCertificate {
  key: string;
  cert: string;
}

/** Paths of the PEM files of both; that of the certificate may hold the chain, the server's own certificate first. */
export interface CertificateFiles {
  cert: string;
  key: string;
}

const dayMs = 86_400_000;
const validForDays = 365;

/** Object identifiers as DER: ecdsa-with-SHA256, commonName, subjectAltName. */
const ecdsaWithSha256 = Buffer.from('06082a8648ce3d040302', 'hex');
const commonName = Buffer.from('0603550403', 'hex');
const subjectAltName = Buffer.from('0603551d11', 'hex');

/**
 * A key and a certificate that it signed itself (X.509 v3, P-256), for a host name and a year, for a mail exchanger that
 * has no certificate from an authority. Both are PEM.
 *
 * @param others more names of the same host
 */
export function selfSignedCertificate(
  host: string,
  now: Date = new Date(),
  others: readonly string[] = [],
): TlsCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const cert = certify({
    issuer: host,
    subject: host,
    publicKey,
    signer: privateKey,
    from: new Date(now.getTime() - dayMs),
    to: new Date(now.getTime() + validForDays * dayMs),
    extension: forHosts([host, ...others]),
  });
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), cert };
}

/** A certificate (X.509 v3) in PEM, signed with the P-256 key of its issuer; `extension` is the only one that it has. */
export function certify(of: {
  issuer: string;
  subject: string;
  publicKey: KeyObject;
  signer: KeyObject;
  from: Date;
  to: Date;
  extension: Buffer;
}): string {
  const algorithm = sequence(ecdsaWithSha256);
  const nameOf = (text: string) => sequence(der(0x31, sequence(commonName, der(0x0c, Buffer.from(text)))));
  const certified = sequence(
    der(0xa0, der(0x02, Buffer.of(2))),
    // The first bit of a serial number is its sign.
    der(0x02, Buffer.concat([Buffer.of(0x01), randomBytes(15)])),
    algorithm,
    nameOf(of.issuer),
    sequence(utcTime(of.from), utcTime(of.to)),
    nameOf(of.subject),
    of.publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(of.extension)),
  );
  const signature = der(0x03, Buffer.concat([Buffer.of(0), sign('sha256', certified, of.signer)]));
  const base64 = sequence(certified, algorithm, signature)
    .toString('base64')
    .replaceAll(/(.{64})/g, '$1\n')
    .trimEnd();
  return `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`;
}

/** subjectAltName: the extension with the host names that a certificate is for. */
export function forHosts(names: string[]): Buffer {
  return sequence(subjectAltName, der(0x04, sequence(...names.map((name) => der(0x82, Buffer.from(name))))));
}

const sequence = (...parts: Buffer[]) => der(0x30, Buffer.concat(parts));

/** UTCTime holds two digits of the year, which is enough until 2050 (RFC 5280 section 4.1.2.5). */
const utcTime = (at: Date) => der(0x17, Buffer.from(`${at.toISOString().slice(2, 19).replaceAll(/[-:T]/g, '')}Z`));

function der(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size =
    length < 0x80
      ? Buffer.of(length)
      : length < 0x100
        ? Buffer.of(0x81, length)
        : Buffer.of(0x82, length >> 8, length & 0xff);
  return Buffer.concat([Buffer.of(tag), size, content]);
}
