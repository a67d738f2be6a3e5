import { createHash, sign as cryptoSign, type KeyObject } from 'node:crypto';
import { hashRelaxedBody, relaxedField } from '../encoding/canonical.ts';
import { readHeader } from '../headers/raw-header.ts';
import type { DkimKey } from './dkim-key.ts';

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
