import { grouped } from '../../numbers.ts';
import { trimSpaces } from '../text/characters.ts';
import { MimeError } from '../text/mime-error.ts';
import { isFieldName } from './headers.ts';
import { readHeader } from './raw-header.ts';

/** A field of a header as it was received, unfolded (RFC 5322 section 2.2.3): tabs are spaces, encoded-words are not decoded. */
export interface ReceivedField {
  name: string;
  value: string;
}

const longestHeader = 256 * 1024;
/** A part's header only describes the part. Reading a hundred longer ones would block everything else for seconds. */
const longestOfPart = 32 * 1024;

/** Each server on the way adds a `Received`; a message with more of them is looping (RFC 5321 section 6.3). */
export const mostHops = 25;

const mostFields = 500;

/**
 * Reads the header of a message or of one of its parts, with only CRLF line ends. Octets above 127 are UTF-8 (RFC 6532).
 *
 * @param part the number of the part, counted from one; null for the message's own header
 * @throws {MimeError} when the header is too long, or something in it is not a field
 */
export function readFields(message: Buffer, part: number | null = null): { fields: ReceivedField[]; body: number } {
  const [what, most] = part === null ? ['the header', longestHeader] : [`the header of part ${part}`, longestOfPart];
  const { fields, body } = readHeader(message.subarray(0, most + 1));
  if (body > most) throw new MimeError(`${what} has more than ${grouped(most)} octets`);
  if (fields.length > mostFields) throw new MimeError(`${what} has more than ${mostFields} fields`);
  return { fields: fields.map(({ name, raw }) => readField(name, raw, what)), body };
}

/** The value of the only field of this name (in lower case), null when there is none. Throws a MimeError when there are two. */
export function only(fields: ReceivedField[], name: string): string | null {
  const [field, second] = fields.filter((each) => each.name.toLowerCase() === name);
  if (second) throw new MimeError(`${second.name}: appears twice`);
  return field?.value ?? null;
}

function readField(name: string, raw: Buffer, what: string): ReceivedField {
  if (!isFieldName(name)) throw new MimeError(`${what} has a line that is not a field`);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(raw);
  } catch {
    throw new MimeError(`${name}: contains bytes that are not UTF-8: encode them (RFC 2047)`);
  }
  const value = text.slice(text.indexOf(':') + 1).replaceAll('\r\n', '');
  return { name, value: trimSpaces(value.replaceAll('\t', ' ')) };
}
