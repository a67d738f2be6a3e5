import { createPrivateKey, createPublicKey, generateKeyPair as generate, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';

/** A domain signs with RSA, which every receiver verifies, and optionally with Ed25519 (RFC 8463) too, which is shorter. */
export const dkimAlgorithms = ['rsa', 'ed25519'] as const;
export type DkimAlgorithm = (typeof dkimAlgorithms)[number];

/** A domain's signing key. `domain` is d= (lower-case A-labels), `selector` is s=; the key implies the algorithm. */
export interface DkimKey {
  domain: string;
  selector: string;
  privateKey: KeyObject;
}

/** A key pair: the private half is to be encrypted and kept, the public one published. */
export interface DkimKeyPair {
  algorithm: DkimAlgorithm;
  /** PKCS#8 DER */
  privateKey: Buffer;
  /** The p= value in base64: the SubjectPublicKeyInfo of RSA, the 32 bytes of Ed25519. */
  publicKey: string;
}

/** An imported key cannot be used; the message is for the user who supplied it. */
export class DkimKeyError extends Error {
  override readonly name = 'DkimKeyError';
}

const fewestRsaBits = 1024;
const mostRsaBits = 4096;

/** A new key, RSA of 2048 bits or Ed25519, generated in the thread pool. RSA takes some hundred milliseconds. */
export async function generateKeyPair(algorithm: DkimAlgorithm = 'rsa'): Promise<DkimKeyPair> {
  const { privateKey } =
    algorithm === 'rsa'
      ? await promisify(generate)('rsa', { modulusLength: 2048 })
      : await promisify(generate)('ed25519', {});
  return pairOf(privateKey, algorithm);
}

/**
 * Imports a key from another system, as PEM: PKCS#8 or PKCS#1, without a password.
 *
 * @throws {DkimKeyError} when it is not an RSA or Ed25519 private key, or RSA of fewer than 1024 or more than 4096 bits
 */
export function importKeyPair(pem: string): DkimKeyPair {
  let key: KeyObject;
  try {
    // One block and nothing else: OpenSSL would ignore anything around it.
    key = createPrivateKey(/^\s*-----BEGIN [A-Z ]+-----[\w+/=\s]+-----END [A-Z ]+-----\s*$/.test(pem) ? pem : '');
  } catch {
    throw new DkimKeyError('must be a private key in PEM without a passphrase (-----BEGIN PRIVATE KEY-----)');
  }
  if (key.asymmetricKeyType === 'ed25519') return pairOf(key, 'ed25519');
  if (key.asymmetricKeyType !== 'rsa') throw new DkimKeyError('must be an RSA or an Ed25519 key');
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
  if (bits < fewestRsaBits || bits > mostRsaBits)
    throw new DkimKeyError(`an RSA key must have ${fewestRsaBits} to ${mostRsaBits} bits; this one has ${bits}`);
  return pairOf(key, 'rsa');
}

function pairOf(key: KeyObject, algorithm: DkimAlgorithm): DkimKeyPair {
  const info = createPublicKey(key).export({ type: 'spki', format: 'der' });
  return {
    algorithm,
    privateKey: key.export({ type: 'pkcs8', format: 'der' }),
    publicKey: (algorithm === 'rsa' ? info : info.subarray(-32)).toString('base64'),
  };
}

/** The key in the form that signs fastest: parse it once and keep it. Throws when the bytes are not a PKCS#8 key. */
export function parsePrivateKey(der: Buffer): KeyObject {
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
}

/** The TXT record at `<selector>._domainkey.<domain>` for this public key (RFC 6376 section 3.6.1, RFC 8463 section 4). */
export function dnsValue(publicKey: string, algorithm: DkimAlgorithm = 'rsa'): string {
  return `v=DKIM1; k=${algorithm}; p=${publicKey}`;
}

/**
 * The key in a TXT record whose strings were joined: its p= value without white space, empty for a revoked key, null when
 * this is not a DKIM record (RFC 6376 sections 3.2 and 3.6.1: v= comes first or not at all, no tag twice).
 */
export function publishedKey(txt: string): string | null {
  const tags = new Map<string, string>();
  const list = txt.split(';');
  if (list.at(-1)?.trim() === '') list.pop();
  for (const [index, tag] of list.entries()) {
    const equals = tag.indexOf('=');
    const name = tag.slice(0, Math.max(0, equals)).trim();
    const value = tag.slice(equals + 1).trim();
    if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name) || tags.has(name)) return null;
    if (name === 'v' && (index > 0 || value !== 'DKIM1')) return null;
    tags.set(name, value);
  }
  return tags.get('p')?.replaceAll(/\s+/g, '') ?? null;
}
