import { generateKeyPairSync, type KeyObject, randomBytes, sign, X509Certificate } from 'node:crypto';

const dayMs = 86_400_000;

/** Object identifiers as DER: ecdsa-with-SHA256, commonName, subjectAltName, basicConstraints. */
const ecdsaWithSha256 = Buffer.from('06082a8648ce3d040302', 'hex');
const commonName = Buffer.from('0603550403', 'hex');
const subjectAltName = Buffer.from('0603551d11', 'hex');
const basicConstraints = Buffer.from('0603551d13', 'hex');

/** A key and a certificate with those above it, in PEM, as a TLS server takes them. */
export interface Credentials {
  key: string;
  cert: string;
  /** The server's own. */
  x509: X509Certificate;
}

export interface Authority {
  /** Its own certificate, in PEM. */
  cert: string;
  x509: X509Certificate;
  /** A certificate for these host names; from yesterday for two days unless told otherwise. */
  issue(names: string[], options?: { from?: Date; to?: Date; withAuthority?: boolean }): Credentials;
}

/** A certification authority of its own (X.509 v3, P-256). */
export function createAuthority(name = 'Test authority'): Authority {
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const critical = der(0x01, Buffer.of(0xff));
  const cert = certify({
    issuer: name,
    subject: name,
    publicKey: keys.publicKey,
    signer: keys.privateKey,
    from: new Date(Date.now() - 30 * dayMs),
    to: new Date(Date.now() + 30 * dayMs),
    extension: sequence(basicConstraints, critical, der(0x04, sequence(critical))),
  });
  return {
    cert,
    x509: new X509Certificate(cert),
    issue(
      names,
      { from = new Date(Date.now() - dayMs), to = new Date(Date.now() + dayMs), withAuthority = true } = {},
    ) {
      const own = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const altNames = sequence(...names.map((each) => der(0x82, Buffer.from(each))));
      const leaf = certify({
        issuer: name,
        subject: names[0] ?? 'nobody',
        publicKey: own.publicKey,
        signer: keys.privateKey,
        from,
        to,
        extension: sequence(subjectAltName, der(0x04, altNames)),
      });
      return {
        key: own.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
        cert: withAuthority ? leaf + cert : leaf,
        x509: new X509Certificate(leaf),
      };
    },
  };
}

function certify(of: {
  issuer: string;
  subject: string;
  publicKey: KeyObject;
  signer: KeyObject;
  from: Date;
  to: Date;
  extension: Buffer;
}): string {
  const nameOf = (text: string) => sequence(der(0x31, sequence(commonName, der(0x0c, Buffer.from(text)))));
  const certified = sequence(
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, Buffer.concat([Buffer.of(0x01), randomBytes(15)])),
    sequence(ecdsaWithSha256),
    nameOf(of.issuer),
    sequence(utcTime(of.from), utcTime(of.to)),
    nameOf(of.subject),
    of.publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(of.extension)),
  );
  const signature = der(0x03, Buffer.concat([Buffer.of(0), sign('sha256', certified, of.signer)]));
  const base64 = sequence(certified, sequence(ecdsaWithSha256), signature).toString('base64');
  return `-----BEGIN CERTIFICATE-----\n${base64.replaceAll(/(.{64})/g, '$1\n').trimEnd()}\n-----END CERTIFICATE-----\n`;
}

const sequence = (...parts: Buffer[]) => der(0x30, Buffer.concat(parts));

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
