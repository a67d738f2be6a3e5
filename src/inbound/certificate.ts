import { createPrivateKey, randomUUID, X509Certificate } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { type CertificateFiles, selfSignedCertificate, type TlsCertificate } from '../crypto/certificate.ts';
import { makeDataDir, unusableDataDir } from '../process/data-dir.ts';
import { StartError } from '../process/start-error.ts';

/** Where the certificate of the SMTP servers comes from. */
export interface CertificateSource {
  dataDir: string;
  /** The host that it is for, if we make it. */
  host: string;
  /** Null: none were given. */
  files: CertificateFiles | null;
}

/** One of ours that expires sooner is replaced. */
const renewMs = 90 * 86_400_000;

/**
 * The certificate of the SMTP servers: the operator's, or a self-signed one that we keep in DATA_DIR, readable only by its
 * owner.
 *
 * @throws StartError naming the variable, when a file cannot be read, the two do not belong together, or TLS refuses them
 */
export async function readCertificate({ dataDir, host, files }: CertificateSource): Promise<TlsCertificate> {
  return files ? readGiven(files) : readOwn(dataDir, host);
}

async function readGiven(files: CertificateFiles): Promise<TlsCertificate> {
  const [cert, key] = await Promise.all([read('SMTP_TLS_CERT', files.cert), read('SMTP_TLS_KEY', files.key)]);
  const certificate = parsed('SMTP_TLS_CERT', files.cert, 'a certificate', () => new X509Certificate(cert));
  const privateKey = parsed('SMTP_TLS_KEY', files.key, 'a private key without a password', () => createPrivateKey(key));
  if (!certificate.checkPrivateKey(privateKey))
    throw new StartError(
      `SMTP_TLS_KEY ${files.key} is not the key of SMTP_TLS_CERT ${files.cert}: set both to files that belong together`,
    );
  try {
    createSecureContext({ key, cert });
  } catch (error) {
    const { reason = 'unknown reason' } = error as { reason?: string };
    throw new StartError(
      `SMTP_TLS_CERT ${files.cert} is refused by OpenSSL (${reason}): set it to another certificate`,
    );
  }
  return { key, cert };
}

async function read(variable: string, file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { message } = error as Error;
    throw new StartError(`${variable} cannot be read (${message}): set it to a PEM file that this user can read`);
  }
}

function parsed<T>(variable: string, file: string, content: string, parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new StartError(`${variable} ${file} does not contain ${content}: set it to a PEM file that does`);
  }
}

async function readOwn(dataDir: string, host: string): Promise<TlsCertificate> {
  const file = join(dataDir, 'smtp-tls.pem');
  const kept = await readFile(file, 'utf8').catch(() => '');
  if (isUsable(kept, host)) return split(kept);
  await makeDataDir(dataDir);
  // Programs of this machine submit at localhost, and one that trusts the certificate still compares the name.
  const { key, cert } = selfSignedCertificate(host, new Date(), ['localhost']);
  const unfinished = `${file}.${randomUUID()}`;
  try {
    await writeFile(unfinished, key + cert, { mode: 0o600, flag: 'wx' });
    await rename(unfinished, file);
  } catch (error) {
    // With a full disk every start would leave another one.
    await rm(unfinished, { force: true });
    throw unusableDataDir(dataDir, error as Error);
  }
  // If two processes do this at once, both use the file that was renamed last.
  return split(await readFile(file, 'utf8'));
}

function isUsable(pem: string, host: string): boolean {
  try {
    const { key, cert } = split(pem);
    const certificate = new X509Certificate(cert);
    return (
      lastsLong(cert) && certificate.checkHost(host) === host && certificate.checkPrivateKey(createPrivateKey(key))
    );
  } catch {
    return false;
  }
}

/** Whether a certificate of ours is not to be replaced yet. */
export const lastsLong = (cert: string): boolean =>
  Date.parse(new X509Certificate(cert).validTo) - Date.now() > renewMs;

/** Splits the file: key and certificate share one, so that both are replaced in one step. */
function split(pem: string): TlsCertificate {
  const at = pem.indexOf('-----BEGIN CERTIFICATE-----');
  return { key: pem.slice(0, at), cert: pem.slice(at) };
}
