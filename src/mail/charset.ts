import { isUtf8 } from 'node:buffer';
import { TextDecoder } from 'node:util';
import { KoreanDecoder } from './korean.ts';

/** Code pages as `cp932`, `windows-936`, `ms949` or `ibm-874` name them, where the Encoding Standard knows them by another name. */
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

/** The same for names, without what separates their words. */
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

/** What text is decoded with. */
export interface Decoder {
  decode(octets: Uint8Array): string;
}

/**
 * What decodes text of this charset, also by names that the Encoding Standard does not have and programs write: `cp932`,
 * `x-windows-949`, `latin-1`, `ISO8859_15`.
 *
 * @param fatal whether octets that are not of the charset are an error; otherwise they are U+FFFD
 * @throws {RangeError} when it is not known
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

/** Its first character says the order, as in what Java writes (RFC 2781 section 4.3). Without any zero it is UTF-8 that was called so. */
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
