import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { certify, forHosts } from '../../src/crypto/certificate.ts';

const dayMs = 86_400_000;

/** basicConstraints, critical: the extension of a certificate that issues others, as DER. */
const forAuthority = Buffer.from('300f0603551d130101ff040530030101ff', 'hex');

/** A key and its certificate chain, in PEM, as a TLS server takes them. */
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
  /** A certificate for these host names, valid from yesterday for two days unless told otherwise. */
  issue(names: string[], options?: IssueOptions): Credentials;
}

interface IssueOptions {
  from?: Date;
  to?: Date;
  withAuthority?: boolean;
  /** The authority allows it to issue others itself. */
  mayIssue?: boolean;
  /** Issued with this key instead, whether the authority allows that or not. */
  by?: Credentials;
}

/** A certification authority of its own (X.509 v3, P-256). */
export function createAuthority(name = 'Test authority'): Authority {
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const cert = certify({
    issuer: name,
    subject: name,
    publicKey: keys.publicKey,
    signer: keys.privateKey,
    from: new Date(Date.now() - 30 * dayMs),
    to: new Date(Date.now() + 30 * dayMs),
    extension: forAuthority,
  });
  return {
    cert,
    x509: new X509Certificate(cert),
    issue(
      names,
      {
        from = new Date(Date.now() - dayMs),
        to = new Date(Date.now() + dayMs),
        withAuthority = true,
        mayIssue = false,
        by,
      } = {},
    ) {
      const own = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const leaf = certify({
        issuer: by?.x509.subject.replace('CN=', '') ?? name,
        subject: names[0] ?? 'nobody',
        publicKey: own.publicKey,
        signer: by ? createPrivateKey(by.key) : keys.privateKey,
        from,
        to,
        extension: mayIssue ? forAuthority : forHosts(names),
      });
      return {
        key: own.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
        cert: withAuthority ? leaf + (by?.cert ?? cert) : leaf,
        x509: new X509Certificate(leaf),
      };
    },
  };
}
