import { isUtf8 } from 'node:buffer';
import { TextDecoder } from 'node:util';
import { KoreanDecoder } from './korean.ts';

/** Code pages, named such as `cp932`, `windows-936`, `ms949` or `ibm-874`, for which the Encoding Standard has another name. */
const codePages: Record<string, string> = {
  874: 'windows-874',
  932: 'shift_jis',
  936: 'gbk',
  949: 'euc-kr',
  950: 'big5',
  20866: 'koi8-r',
  50220: 'iso-2022-jp',
  50221: 'iso-2022-jp',
  50222: 'iso-2022-jp',
  51932: 'euc-jp',
  54936: 'gb18030',
  65001: 'utf-8',
};

/** The same for names, written without separators. */
const names: Record<string, string> = {
  eucjp: 'euc-jp',
  euckr: 'euc-kr',
  iso2022jp: 'iso-2022-jp',
  iso2022jp1: 'iso-2022-jp',
  iso2022jp2: 'iso-2022-jp',
  iso2022jpms: 'iso-2022-jp',
  koi8u: 'koi8-u',
  macroman: 'macintosh',
  shiftjis: 'shift_jis',
  tis620: 'windows-874',
  uhc: 'euc-kr',
  utf16be: 'utf-16be',
  utf16le: 'utf-16le',
  utf8mb4: 'utf-8',
};

export interface Decoder {
  decode(octets: Uint8Array): string;
}

/**
 * A decoder for this charset, which may also have a name that programs write and the Encoding Standard lacks: `cp932`,
 * `x-windows-949`, `latin-1`, `ISO8859_15`.
 *
 * @param fatal whether invalid octets are an error; otherwise they become U+FFFD
 * @throws {RangeError} when the charset is not known
 */
export function decoderOf(charset: string, fatal = false): Decoder {
  const label = charset
    .trim()
    .toLowerCase()
    .replace(/^'(.*)'$/, '$1');
  let decoder: TextDecoder;
  try {
    decoder = new TextDecoder(label, { fatal });
  } catch {
    decoder = new TextDecoder(knownAs(label), { fatal });
  }
  if (decoder.encoding === 'utf-16le') return { decode: (octets) => decodeUtf16(octets, fatal) };
  return decoder.encoding === 'euc-kr' ? new KoreanDecoder(fatal) : decoder;
}

/**
 * The first character decides the byte order, as in text written by Java (RFC 2781 section 4.3). Valid UTF-8 without any zero
 * octet was mislabeled.
 */
function decodeUtf16(octets: Uint8Array, fatal: boolean): string {
  const isBigEndian = octets[0] === 0xfe && octets[1] === 0xff;
  const name = isBigEndian ? 'utf-16be' : !octets.includes(0) && isUtf8(octets) ? 'utf-8' : 'utf-16le';
  return new TextDecoder(name, { fatal }).decode(octets);
}

function knownAs(label: string): string {
  const bare = label.replace(/^x-/, '').replaceAll(/[-_. ]/g, '');
  const page = /^(?:cp|windows|win|ms|ibm)(\d{3,5})$/.exec(bare)?.[1];
  if (page !== undefined) return codePages[page] ?? `cp${page}`;
  return Object.hasOwn(names, bare) ? (names[bare] ?? bare) : bare;
}
