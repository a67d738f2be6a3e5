import { createPrivateKey, sign as cryptoSign, generateKeyPair as generate, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';
import { hashRelaxedBody, relaxedField } from './canonical.ts';
import { type RawField, readHeader } from './headers.ts';

/** What one domain signs with. `domain` is the d= (lower-case A-labels), `selector` the s= tag. */
export interface DkimKey {
  domain: string;
  selector: string;
  privateKey: KeyObject;
}

/** A fresh key: the half to encrypt and keep, and the half to publish. */
export interface DkimKeyPair {
  /** PKCS#8 DER */
  privateKey: Buffer;
  /** base64 SubjectPublicKeyInfo, the p= value */
  publicKey: string;
}

// Signed as often as present and once more, so that nobody on the way can add one: readers take the first of two From.
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
// Signed where present, but a mailing list may add its own.
const signed = ['Sender', 'In-Reply-To', 'References', 'Auto-Submitted', 'List-ID', 'Feedback-ID'];

/** A new RSA key of 2048 bits, made in the thread pool. It takes some hundred milliseconds. */
export async function generateKeyPair(): Promise<DkimKeyPair> {
  const pair = await promisify(generate)('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'der' },
  });
  return { privateKey: pair.privateKey, publicKey: pair.publicKey.toString('base64') };
}

/** The key in the form that signs fastest: parse once, keep, sign often. Throws when the bytes are not a PKCS#8 key. */
export function parsePrivateKey(der: Buffer): KeyObject {
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
}

/** The TXT record at `<selector>._domainkey.<domain>` for this public key (RFC 6376 section 3.6.1). */
export function dnsValue(publicKey: string): string {
  return `v=DKIM1; k=rsa; p=${publicKey}`;
}

/**
 * The key in a TXT record whose strings were joined: its p= value without white space, empty for a key that was revoked, null
 * when this is no DKIM record (RFC 6376 sections 3.2 and 3.6.1: v= comes first or not at all, no tag twice).
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
 * Signs a message with CRLF line ends (RFC 6376, rsa-sha256, relaxed/relaxed, the whole body) and returns the complete
 * `DKIM-Signature: ...\r\n` field to put in front of it. The RSA work runs in the thread pool.
 */
export async function sign(message: Buffer, key: DkimKey, at: Date): Promise<Buffer> {
  const { fields, body } = readHeader(message);
  const bodyHash = await hashRelaxedBody(message.subarray(body));
  const { names, canonical } = selectFields(fields);
  const unsigned =
    `DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=${key.domain};\r\n` +
    ` s=${key.selector}; t=${Math.floor(at.getTime() / 1000)};\r\n` +
    ` bh=${bodyHash};\r\n` +
    ` h=${foldNames(names)};\r\n b=`;
  const data = Buffer.from(canonical + relaxedField(Buffer.from(unsigned, 'latin1')), 'latin1');
  const signature = (await signInPool(data, key.privateKey)).toString('base64');
  return Buffer.from(`${unsigned}${signature.match(/.{1,74}/g)?.join('\r\n ')}\r\n`, 'latin1');
}

/** The h= names and the canonical form of the fields they stand for: of several with one name, the last comes first (RFC 6376 section 5.4.2). */
function selectFields(fields: RawField[]): { names: string[]; canonical: string } {
  const byName = new Map<string, RawField[]>();
  for (const field of fields) {
    const name = field.name.toLowerCase();
    const same = byName.get(name);
    if (same) same.unshift(field);
    else byName.set(name, [field]);
  }
  const names: string[] = [];
  let canonical = '';
  for (const name of [...overSigned, ...signed]) {
    for (const field of byName.get(name.toLowerCase()) ?? []) {
      names.push(name);
      canonical += `${relaxedField(field.raw)}\r\n`;
    }
  }
  return { names: [...names, ...overSigned], canonical };
}

function foldNames(names: string[]): string {
  let folded = '';
  let column = 3;
  names.forEach((name, index) => {
    const piece = index < names.length - 1 ? `${name}:` : name;
    if (column + piece.length > 75) {
      folded += '\r\n  ';
      column = 2;
    }
    folded += piece;
    column += piece.length;
  });
  return folded;
}

function signInPool(data: Buffer, key: KeyObject): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    cryptoSign('sha256', data, key, (error, signature) => (error ? reject(error) : resolve(signature)));
  });
}
