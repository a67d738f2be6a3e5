import { type Parameterized, parseParameters } from '../headers/parameters.ts';
import { only, type ReceivedField, readFields } from '../headers/received-fields.ts';
import { MimeError } from '../text/mime-error.ts';

/** A part of a message that has no parts itself. */
export interface MimePart {
  type: Parameterized;
  disposition: Parameterized | null;
  /** Without its angle brackets. */
  contentId: string | null;
  /** The Content-Transfer-Encoding in lower case, empty if there is none. */
  encoding: string;
  /** Still encoded; a view into the message. */
  body: Buffer;
}

/** A part that contains others: alternatives, or parts that are shown one after the other. */
export interface Multipart {
  isAlternative: boolean;
  parts: MimeTree[];
}

export type MimeTree = MimePart | Multipart;

const tab = 0x09;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const hyphen = 0x2d;

// An email of ours has two bodies and ten files. Signatures and footers added by servers are parts too.
const mostParts = 100;
const deepest = 10;
/** Composing these anew would break what they promise, or turn them into another kind of message. */
const unsendable = new Set(['signed', 'encrypted', 'report', 'appledouble']);

/**
 * A message's MIME tree (RFC 2046). The number and depth of parts are limited before anything is decoded. It takes as long as
 * searching for the boundaries, even for a message of nothing but boundaries.
 *
 * @throws {MimeError}
 */
export function readParts(fields: ReceivedField[], body: Buffer): MimeTree {
  let partCount = 0;
  const readPart = (part: Buffer, depth: number, defaultType: string): MimeTree => {
    partCount += 1;
    if (partCount > mostParts) throw new MimeError(`the message has more than ${mostParts} parts`);
    const { fields, body: start } = readFields(part, partCount);
    return readTree(fields, part.subarray(start), depth, defaultType);
  };
  const readTree = (fields: ReceivedField[], body: Buffer, depth: number, defaultType: string): MimeTree => {
    const type = typeOf(fields, defaultType);
    if (!type.value.startsWith('multipart/')) return leaf(fields, type, body);
    const subtype = type.value.slice('multipart/'.length);
    if (unsendable.has(subtype)) throw new MimeError(`${type.value} cannot be sent`);
    if (depth === deepest) throw new MimeError(`the parts are nested more than ${deepest} deep`);
    const defaultOfParts = subtype === 'digest' ? 'message/rfc822' : 'text/plain';
    const parts = split(body, boundaryOf(type)).map((part) => readPart(part, depth + 1, defaultOfParts));
    return { isAlternative: subtype === 'alternative', parts };
  };
  return readTree(fields, body, 0, 'text/plain');
}

/** The parts of a tree that have no parts themselves, in order. */
export function leavesOf(tree: MimeTree): MimePart[] {
  return 'parts' in tree ? tree.parts.flatMap(leavesOf) : [tree];
}

/**
 * An invalid Content-Type counts as none (RFC 2045 section 5.2), except for `text/html charset=utf-8`, which many scripts write
 * and whose meaning is clear.
 */
function typeOf(fields: ReceivedField[], defaultType: string): Parameterized {
  const text = only(fields, 'content-type');
  if (text === null) return { value: defaultType, parameters: new Map() };
  const type = parseParameters(text.replace(/^( *[^\s/;"(]+\/[^\s/;"(]+) +(?=charset=)/i, '$1; '));
  if (/^[^\s/]+\/[^\s/]+$/.test(type.value)) return type;
  const isFile = type.parameters.has('name') || /attachment|filename/i.test(only(fields, 'content-disposition') ?? '');
  return { ...type, value: isFile ? 'application/octet-stream' : defaultType };
}

function leaf(fields: ReceivedField[], type: Parameterized, body: Buffer): MimePart {
  const disposition = only(fields, 'content-disposition');
  const contentId = only(fields, 'content-id');
  return {
    type,
    disposition: disposition === null ? null : parseParameters(disposition),
    contentId: contentId?.replace(/^<(.*)>$/, '$1') || null,
    encoding: parseParameters(only(fields, 'content-transfer-encoding') ?? '').value,
    body,
  };
}

function boundaryOf({ parameters }: Parameterized): string {
  const boundary = parameters.get('boundary') ?? '';
  if (/^[\x20-\x7e]{1,200}$/.test(boundary)) return boundary;
  throw new MimeError('Content-Type: multipart without a boundary');
}

/** The parts between the lines of this boundary; the closing line may be missing. */
function split(body: Buffer, boundary: string): Buffer[] {
  const delimiter = Buffer.from(`--${boundary}`);
  const parts: Buffer[] = [];
  /** Where the part begins whose end is looked for; -1 before the first one. */
  let partStart = -1;
  let from = 0;
  for (;;) {
    const at = body.indexOf(delimiter, from);
    if (at === -1) break;
    from = at + delimiter.length;
    if (at > 0 && body[at - 1] !== lineFeed) continue;
    const line = restOfDelimiterLine(body, from);
    if (!line) continue;
    // The line end before a delimiter belongs to it. Between two delimiters there may be nothing else.
    if (partStart !== -1) parts.push(body.subarray(partStart, Math.max(partStart, at - 2)));
    if (line.closes || parts.length > mostParts) return parts;
    partStart = line.end;
    from = line.end;
  }
  if (partStart === -1) throw new MimeError('Content-Type: multipart without a part');
  parts.push(body.subarray(partStart));
  return parts;
}

/** The rest of a delimiter's line: `--` if it is the closing one, white space, the line end. Null if the boundary is a longer one. */
function restOfDelimiterLine(body: Buffer, from: number): { end: number; closes: boolean } | null {
  const closes = body[from] === hyphen && body[from + 1] === hyphen;
  let at = closes ? from + 2 : from;
  while (body[at] === space || body[at] === tab) at++;
  if (at >= body.length) return { end: body.length, closes };
  return body[at] === carriageReturn && body[at + 1] === lineFeed ? { end: at + 2, closes } : null;
}
