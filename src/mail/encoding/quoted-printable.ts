import { Scratch } from './scratch.ts';

/** The longest line, including the `=` of a soft line break. */
const longestLine = 76;

/** With more than one extra UTF-8 octet (beyond one per UTF-16 unit) in this many units, base64 is about as short. */
const unitsPerExtraOctet = 11;

const tab = 0x09;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const dot = 0x2e;
const equals = 0x3d;
const firstBeyondAscii = 0x80;

const special = 0;
const literal = 1;
const spaceBit = 2;

/** For each UTF-16 unit: `literal` if it is written as it is, with `spaceBit` if it is a space; `special` if it needs a closer look. */
const kinds = Uint8Array.from({ length: 0x10000 }, (_, unit) => {
  if (unit === space) return literal | spaceBit;
  return unit > space && unit < 0x7f && unit !== equals ? literal : special;
});

const hexDigits = Buffer.from('0123456789ABCDEF');

const input = new Scratch();
const nothing = { units: new Uint16Array(0), quoted: Buffer.alloc(0) };

/**
 * Writes quoted-printable (RFC 2045 section 6.7). It reads UTF-16, as in strings: converting to UTF-8 first would cost another
 * throwaway buffer per text. One writer serves all texts, and each method continues where the last one stopped.
 */
class Writer {
  #units: Uint16Array = nothing.units;
  /** The next unit to read. */
  #at = 0;
  #quoted: Buffer = nothing.quoted;
  /** How many octets have been written. */
  #length = 0;
  #lineStart = 0;
  /** How many octets the characters beyond ASCII have more than units. */
  #extraOctets = 0;
  #isRelaxed = true;

  write(text: string, output: Scratch): { bytes: Buffer; relaxed: boolean } | null {
    this.#begin(text, output);
    const written = this.#writeAll()
      ? { bytes: this.#quoted.subarray(0, this.#length), relaxed: this.#isRelaxed }
      : null;
    // Memory for a very large text is not kept.
    this.#units = nothing.units;
    this.#quoted = nothing.quoted;
    return written;
  }

  #begin(text: string, output: Scratch): void {
    const room = input.of(text.length * 2);
    room.write(text, 'utf16le');
    this.#units = new Uint16Array(room.buffer, room.byteOffset, text.length);
    // Three for each octet, of which there are few more than units, and three for a soft line break per at least 73 octets.
    this.#quoted = output.of(Math.ceil(text.length * 3.5) + 64);
    this.#at = 0;
    this.#length = 0;
    this.#lineStart = 0;
    this.#extraOctets = 0;
    this.#isRelaxed = true;
  }

  /** @returns false if there are too many characters beyond ASCII */
  #writeAll(): boolean {
    const units = this.#units;
    for (;;) {
      // SMTP would have to double a dot at the beginning of a line.
      if (this.#length === this.#lineStart && units[this.#at] === dot) {
        this.#escape(dot);
        this.#at++;
      }
      this.#copyLiterals();
      const unit = units[this.#at];
      if (isLineEnd(unit)) {
        this.#escapeLastSpace();
        if (unit === undefined) return true;
        this.#endLine(unit);
      } else if (unit >= firstBeyondAscii) {
        this.#writeBeyondAscii(unit);
        if (this.#extraOctets * unitsPerExtraOctet > units.length) return false;
      } else this.#writeAscii(unit);
    }
  }

  /** Copies units that are written as they are, up to the first other one or the last column but one. */
  #copyLiterals(): void {
    const units = this.#units;
    const quoted = this.#quoted;
    let at = this.#at;
    let length = this.#length;
    const stop = Math.min(units.length, at + longestLine - 1 - (length - this.#lineStart));
    // Two spaces in a row are not in DKIM's relaxed form.
    let twoSpaces = 0;
    for (let before = 0; at < stop; at++) {
      const unit = units[at] as number;
      const kind = kinds[unit] as number;
      if (kind === special) break;
      twoSpaces |= before & kind & spaceBit;
      before = kind;
      quoted[length++] = unit;
    }
    if (twoSpaces !== 0) this.#isRelaxed = false;
    this.#at = at;
    this.#length = length;
  }

  /** White space at the end of a line could get lost on the way. */
  #escapeLastSpace(): void {
    if (this.#length === this.#lineStart || this.#quoted[this.#length - 1] !== space) return;
    this.#length--;
    this.#makeRoom(3, true);
    this.#escape(space);
  }

  #endLine(unit: number): void {
    this.#at += unit === carriageReturn && this.#units[this.#at + 1] === lineFeed ? 2 : 1;
    this.#quoted[this.#length++] = carriageReturn;
    this.#quoted[this.#length++] = lineFeed;
    this.#lineStart = this.#length;
  }

  #writeBeyondAscii(unit: number): void {
    const octets = toUtf8(unit, this.#units[this.#at + 1]);
    const units = octets === 4 ? 2 : 1;
    this.#at += units;
    this.#extraOctets += octets - units;
    const endsLine = isLineEnd(this.#units[this.#at]);
    for (let written = 0; written < octets; written++) {
      this.#makeRoom(3, endsLine && written === octets - 1);
      this.#escape(utf8[written] as number);
    }
  }

  /** Writes a tab, an `=`, a control character, or a literal for which this line may have no column left. */
  #writeAscii(unit: number): void {
    const endsLine = isLineEnd(this.#units[this.#at + 1]);
    const isLiteral = kinds[unit] !== special || (unit === tab && !endsLine);
    // A new line is begun again with this unit, which may be a dot.
    if (this.#makeRoom(isLiteral ? 1 : 3, endsLine)) return;
    if (isLiteral) this.#quoted[this.#length++] = unit;
    else this.#escape(unit);
    if (isLiteral && unit === tab) this.#isRelaxed = false;
    this.#at++;
  }

  /** Begins another line if this one has no room for so many octets. @returns whether it did */
  #makeRoom(octets: number, endsLine: boolean): boolean {
    const columns = endsLine ? longestLine : longestLine - 1;
    if (this.#length - this.#lineStart + octets <= columns) return false;
    this.#quoted[this.#length++] = equals;
    this.#quoted[this.#length++] = carriageReturn;
    this.#quoted[this.#length++] = lineFeed;
    this.#lineStart = this.#length;
    return true;
  }

  #escape(octet: number): void {
    this.#quoted[this.#length++] = equals;
    this.#quoted[this.#length++] = hexDigits[octet >> 4] as number;
    this.#quoted[this.#length++] = hexDigits[octet & 15] as number;
  }
}

const writer = new Writer();

/**
 * Encodes text as quoted-printable. Every CR, LF and CRLF is one line end. A lone surrogate becomes U+FFFD.
 *
 * @returns the bytes in `output`, and whether they are in DKIM's relaxed form; null if there are too many characters beyond ASCII
 */
export function encodeQuotedPrintable(text: string, output: Scratch): { bytes: Buffer; relaxed: boolean } | null {
  return writer.write(text, output);
}

const isLineEnd = (unit: number | undefined) => unit === undefined || unit === lineFeed || unit === carriageReturn;

const utf8 = new Uint8Array(4);

/** Writes the non-ASCII character that begins here into `utf8`. @returns how many octets it has; four for a surrogate pair */
function toUtf8(unit: number, next: number | undefined): number {
  if (unit < 0x800) {
    utf8[0] = 0xc0 | (unit >> 6);
    utf8[1] = 0x80 | (unit & 0x3f);
    return 2;
  }
  const isPair = (unit & 0xfc00) === 0xd800 && next !== undefined && (next & 0xfc00) === 0xdc00;
  if (isPair) {
    const code = 0x10000 + ((unit & 0x3ff) << 10) + (next & 0x3ff);
    utf8[0] = 0xf0 | (code >> 18);
    utf8[1] = 0x80 | ((code >> 12) & 0x3f);
    utf8[2] = 0x80 | ((code >> 6) & 0x3f);
    utf8[3] = 0x80 | (code & 0x3f);
    return 4;
  }
  const code = (unit & 0xf800) === 0xd800 ? 0xfffd : unit;
  utf8[0] = 0xe0 | (code >> 12);
  utf8[1] = 0x80 | ((code >> 6) & 0x3f);
  utf8[2] = 0x80 | (code & 0x3f);
  return 3;
}
