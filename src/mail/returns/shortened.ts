import { readHeaderLoosely, readTypeLoosely, restOfDelimiter } from './loose-mime.ts';

const mostKept = 1024 * 1024;
/** As much as is read of a text or a report. */
const mostOfPart = 256 * 1024;
const longestHeader = 64 * 1024;
const deepest = 6;
/** A line end, two hyphens and a boundary (RFC 2046 section 5.1.1 allows 70 characters), and what tells it from a longer one. */
const longestDelimiter = 256;
/** So many lines may look like a delimiter before no other is expected. */
const mostLooked = 100_000;

/**
 * The beginning of a message, which arrives in chunks. If a part of a multipart is long, its end is left out, so that the parts
 * after it are kept: a report that programs read comes after texts and copies of any length.
 *
 * The octets are copied: kept as chunks, a stream of one-octet chunks would take a hundred times the memory.
 */
export class Shortened {
  #kept = Buffer.alloc(0);
  #length = 0;
  /** Where the last part begins. */
  #partAt = 0;
  /** While the end of a part is left out: the delimiters that end it. */
  #awaited: string[] | null = null;
  /** The octets before the next chunk, in which such a delimiter may have begun. */
  #before = Buffer.alloc(0);
  /** How many more lines may be looked at. */
  #mayLook = mostLooked;

  add(chunk: Buffer): void {
    for (let rest = chunk; rest.length > 0 && this.#length < mostKept; ) {
      if (this.#awaited !== null) rest = this.#fromDelimiter(rest, this.#awaited);
      const room = this.#partAt + mostOfPart - this.#length;
      this.#keep(rest.subarray(0, room));
      if (rest.length > room) this.#cut();
      rest = rest.subarray(room);
    }
  }

  /** At most a megabyte. */
  get octets(): Buffer {
    return this.#kept.subarray(0, this.#length);
  }

  #keep(octets: Buffer): void {
    const length = Math.min(this.#length + octets.length, mostKept);
    if (length > this.#kept.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(Math.max(length, 2 * this.#kept.length), mostKept));
      this.#kept.copy(larger, 0, 0, this.#length);
      this.#kept = larger;
    }
    this.#length += octets.copy(this.#kept, this.#length, 0, length - this.#length);
  }

  /** Leaves out what follows, unless another part has begun by now. */
  #cut(): void {
    const { at, delimiters } = lastPartOf(this.octets.toString('latin1'));
    if (at > this.#partAt) {
      this.#partAt = at;
      return;
    }
    this.#awaited = delimiters;
    this.#before = Buffer.from(this.octets.subarray(-longestDelimiter));
  }

  /** The chunk from the awaited delimiter on, with which the next part begins; empty while it has not come. */
  #fromDelimiter(chunk: Buffer, delimiters: string[]): Buffer {
    const text = Buffer.concat([this.#before, chunk]);
    const at = delimiters.length === 0 ? -1 : this.#indexOfAny(text, delimiters);
    this.#before = Buffer.from(text.subarray(-longestDelimiter));
    if (at === -1) return Buffer.alloc(0);
    this.#awaited = null;
    this.#partAt = this.#length;
    return text.subarray(at);
  }

  #indexOfAny(octets: Buffer, delimiters: string[]): number {
    for (let at = -1; this.#mayLook > 0; this.#mayLook -= 1) {
      at = octets.indexOf('\n--', at + 1);
      if (at === -1) return -1;
      const line = octets.toString('latin1', at, at + longestDelimiter);
      // If nothing follows yet, it may still become a longer one.
      const isOne = (delimiter: string) =>
        line.length > delimiter.length && line.startsWith(delimiter) && endsAt(line, delimiter.length);
      if (delimiters.some(isOne)) return at;
    }
    return -1;
  }
}

/** Where the last part of this message begins, and the delimiters of the multiparts that it is in. */
function lastPartOf(message: string): { at: number; delimiters: string[] } {
  const delimiters: string[] = [];
  let at = 0;
  while (delimiters.length < deepest) {
    const header = message
      .slice(at, at + longestHeader)
      .replace(/^\s+/, '')
      .replaceAll(/\r\n?/g, '\n');
    const { type, parameters } = readTypeLoosely(readHeaderLoosely(header).header, 'text/plain');
    const boundary = type.startsWith('multipart/') && parameters.get('boundary');
    if (!boundary) break;
    const delimiter = `\n--${boundary}`;
    delimiters.push(delimiter);
    const last = lastDelimiter(message, delimiter, at);
    if (last === -1) break;
    at = last + delimiter.length;
  }
  return { at, delimiters };
}

function lastDelimiter(message: string, delimiter: string, from: number): number {
  let at = message.lastIndexOf(delimiter);
  while (at >= from && !endsAt(message, at + delimiter.length))
    at = at === 0 ? -1 : message.lastIndexOf(delimiter, at - 1);
  return at < from ? -1 : at;
}

/** Whether a delimiter ends here, rather than go on as that of another multipart. */
function endsAt(text: string, at: number): boolean {
  restOfDelimiter.lastIndex = at;
  return restOfDelimiter.test(text);
}
