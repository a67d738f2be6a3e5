import {
  createHash,
  createPrivateKey,
  createPublicKey,
  sign as cryptoSign,
  generateKeyPair as generate,
  type KeyObject,
} from 'node:crypto';
import { promisify } from 'node:util';
import { hashRelaxedBody, relaxedField } from './canonical.ts';
import { readHeader } from './headers.ts';

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

// Signed once more than present, so that nobody on the way can add one: mail programs show the first of two From fields.
const overSigned = [
  'From',
  'To',
  'Cc',
  'Subject',
  'Date',
  'Message-ID',
  'Reply-To',
  'MIME-Version',
  'Content-Type',
  'Content-Transfer-Encoding',
  'List-Unsubscribe',
  'List-Unsubscribe-Post',
];
// Signed if present, but a mailing list may add its own.
const signed = [
  'Sender',
  'In-Reply-To',
  'References',
  'Auto-Submitted',
  'List-ID',
  'Feedback-ID',
  'TLS-Report-Domain',
  'TLS-Report-Submitter',
];

const selectable = [...overSigned, ...signed];
const places = new Map(selectable.map((name, place) => [name.toLowerCase(), place]));

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

/**
 * Signs a message with CRLF line ends (RFC 6376, relaxed/relaxed, the whole body) and returns the complete
 * `DKIM-Signature: ...\r\n` fields to put in front of it, one for each key in the order of the keys. The work with the
 * keys runs in the thread pool.
 */
export async function sign(message: Buffer, keys: DkimKey[], at: Date): Promise<Buffer> {
  const { body } = readHeader(message);
  return signHeader(message.subarray(0, body), await hashRelaxedBody(message.subarray(body)), keys, at);
}

/** The same for a message whose header and body hash are known apart. */
export async function signHeader(header: Buffer, bodyHash: string, keys: DkimKey[], at: Date): Promise<Buffer> {
  const selected = selectFields(header.toString('latin1'));
  const [only, ...others] = keys;
  if (only && others.length === 0) return signatureField(only, selected, bodyHash, at);
  return Buffer.concat(await Promise.all(keys.map((key) => signatureField(key, selected, bodyHash, at))));
}

async function signatureField(
  { domain, selector, privateKey }: DkimKey,
  { list, canonical }: Selected,
  bodyHash: string,
  at: Date,
): Promise<Buffer> {
  const tags = [
    `v=1; a=${privateKey.asymmetricKeyType}-sha256; c=relaxed/relaxed; d=${domain}`,
    `s=${selector}; t=${Math.floor(at.getTime() / 1000)}`,
    `bh=${bodyHash}`,
  ];
  const data = Buffer.from(`${canonical}dkim-signature:${tags.join('; ')}; h=${list.relaxed}; b=`, 'latin1');
  const signature = (await signInPool(data, privateKey)).toString('base64');
  const folded = `${tags.join(';\r\n ')};\r\n h=${list.folded};\r\n b=${signature.match(/.{1,74}/g)?.join('\r\n ')}`;
  return Buffer.from(`DKIM-Signature: ${folded}\r\n`, 'latin1');
}

/** The signed part of a header: the list for h=, and the canonical form of the fields that it names, each with its CRLF. */
interface Selected {
  list: NameList;
  canonical: string;
}

/** The h= list as written in the field, and as signed. */
interface NameList {
  folded: string;
  relaxed: string;
}

/** If several fields have one name, the last comes first (RFC 6376 section 5.4.2). */
function selectFields(header: string): Selected {
  const selected: { place: number; field: string }[] = [];
  for (const field of header.split(/\r\n(?![ \t])/).reverse()) {
    // The obsolete syntax allows white space before the colon. Not `trimEnd`, which removes other octets too.
    let end = Math.max(0, field.indexOf(':'));
    while (field[end - 1] === ' ' || field[end - 1] === '\t') end--;
    const place = places.get(field.slice(0, end).toLowerCase());
    if (place !== undefined) selected.push({ place, field });
  }
  selected.sort((one, other) => one.place - other.place);
  let names = '';
  let canonical = '';
  for (const { place, field } of selected) {
    names += `${selectable[place]}:`;
    canonical += `${relaxedField(field)}\r\n`;
  }
  return { list: listOf(names), canonical };
}

/** The latest list is kept, because nearly all messages have the same fields. */
let latest = { names: '', list: foldNames('') };

function listOf(names: string): NameList {
  if (latest.names !== names) latest = { names, list: foldNames(names) };
  return latest.list;
}

/** @param names of the fields that are present, each followed by a colon */
function foldNames(names: string): NameList {
  const lines = [''];
  let column = 3;
  for (const [piece] of `${names}${overSigned.join(':')}`.matchAll(/[^:]+:?/g)) {
    if (column + piece.length > 75) {
      lines.push('');
      column = 2;
    }
    lines[lines.length - 1] += piece;
    column += piece.length;
  }
  return { folded: lines.join('\r\n  '), relaxed: lines.join(' ') };
}

/** Ed25519 signs the hash of the data (RFC 8463 section 3). */
function signInPool(data: Buffer, key: KeyObject): Promise<Buffer> {
  const [digest, input] =
    key.asymmetricKeyType === 'ed25519' ? [null, createHash('sha256').update(data).digest()] : ['sha256', data];
  return new Promise((resolve, reject) => {
    cryptoSign(digest, input, key, (error, signature) => (error ? reject(error) : resolve(signature)));
  });
}
