import { isAscii } from 'node:buffer';
import { cutText } from '../../mail/text/characters.ts';

/** A server's reply (RFC 5321 section 4.2), safe to store and to show. */
export interface Reply {
  /** 200 to 599. */
  code: number;
  /** The enhanced status code of RFC 3463, null when there is none or its class contradicts the code. */
  enhanced: string | null;
  /** The text of all lines without the codes, cleaned by `cleanRemoteText`. */
  text: string;
}

/** 2xx. The 354 that asks for the content is none. */
export const isSuccess = ({ code }: Reply) => code >= 200 && code < 300;
/** 4xx or 5xx: refused for now, or for good. */
export const isRefusal = ({ code }: Reply) => code >= 400;
/** 4xx: the server may take the same later. */
export const isTemporary = ({ code }: Reply) => code >= 400 && code < 500;

/** A reply with the cleaned text of each of its lines, as EHLO needs them. */
export interface ParsedReply {
  reply: Reply;
  lines: string[];
}

const maxLine = 8_192;
const maxReply = 65_536;
const maxLines = 1_000;
const LF = 10;
const CR = 13;

/**
 * Takes a server's bytes in any segmentation and returns whole replies. Memory is bounded: a line over 8 kB or a reply
 * over 64 kB is an error. If the over-long line is the last of its reply, the code is known and the reply is still
 * returned, truncated: a wordy 250 to the final dot must not cause a duplicate.
 */
export class ReplyParser {
  /** Set once the stream broke the protocol; nothing is parsed after that. */
  error: string | null = null;
  /** The start of an incomplete line, with room to grow. */
  #line = Buffer.allocUnsafeSlow(0);
  #kept = 0;
  /** The length of that line so far, including bytes that were not kept. */
  #lineBytes = 0;
  #replyBytes = 0;
  #code = 0;
  #lines: string[] = [];

  /** True when no partial reply is buffered. */
  get empty(): boolean {
    return this.#replyBytes === 0 && this.error === null;
  }

  /** Returns the replies that this chunk completes, in order. Check `error` afterwards. Keeps no reference to the chunk. */
  feed(chunk: Buffer): ParsedReply[] {
    const replies: ParsedReply[] = [];
    let start = 0;
    while (start < chunk.length && this.error === null) {
      const end = chunk.indexOf(LF, start);
      const part = chunk.subarray(start, end === -1 ? chunk.length : end);
      start = end === -1 ? chunk.length : end + 1;
      // The result must not depend on how the network segmented the bytes.
      const piece = part.subarray(0, Math.max(0, maxLine - this.#lineBytes));
      this.#lineBytes += part.length;
      this.#replyBytes += part.length + (end === -1 ? 0 : 1);
      const isFull = end !== -1 && (this.#replyBytes > maxReply || this.#lines.length >= maxLines);
      const tooLong = this.#lineBytes > maxLine || isFull;
      const whole = end !== -1 || tooLong;
      if (!whole || this.#kept > 0) this.#keep(piece);
      const done = whole ? this.#endLine(this.#kept > 0 ? this.#line.subarray(0, this.#kept) : piece) : null;
      if (done !== null) replies.push(done);
      if (tooLong) this.error ??= 'the reply is too long';
    }
    return replies;
  }

  /** Copies into memory of its own: a small slice would keep the whole of Node's shared buffer alive. */
  #keep(piece: Buffer): void {
    const end = this.#kept + piece.length;
    if (end > this.#line.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(256, 2 * end));
      this.#line.copy(larger, 0, 0, this.#kept);
      this.#line = larger;
    }
    piece.copy(this.#line, this.#kept);
    this.#kept = end;
  }

  #endLine(bytes: Buffer): ParsedReply | null {
    const line = bytes.at(-1) === CR ? bytes.subarray(0, -1) : bytes;
    this.#kept = 0;
    this.#lineBytes = 0;
    const match = /^([2-5]\d\d)([ -]|$)/.exec(line.toString('latin1', 0, 4));
    const code = Number(match?.[1]);
    // RFC 5321 section 4.2.1 requires one code on all lines; different ones of the same class are tolerated: the last counts.
    if (match === null || (this.#lines.length > 0 && classOf(code) !== classOf(this.#code))) {
      const shown = cleanRemoteText(line, 80);
      this.error =
        match === null ? `not an SMTP reply: ${shown}` : `the kind of code changes within one reply: ${shown}`;
      return null;
    }
    this.#code = code;
    this.#lines.push(cleanRemoteText(line.subarray(4), maxLine));
    return match[2] === '-' ? null : this.#finish();
  }

  #finish(): ParsedReply {
    const lines = this.#lines;
    const enhanced = enhancedCode(this.#code, lines[0] ?? '');
    const bare = lines.map((line) =>
      enhanced !== null && `${line} `.startsWith(`${enhanced} `) ? line.slice(enhanced.length) : line,
    );
    const text = cleanRemoteText(bare.map((line) => line.trim()).join(' '));
    const reply = { code: this.#code, enhanced, text };
    this.#lines = [];
    this.#replyBytes = 0;
    return { reply, lines };
  }
}

/** The first digit of a reply code, which an enhanced code begins with as well (RFC 3463 section 2). */
export const classOf = (code: number) => Math.floor(code / 100);

function enhancedCode(code: number, text: string): string | null {
  const found = /^([245])\.\d{1,3}\.\d{1,3}(?=\s|$)/.exec(text);
  return found !== null && Number(found[1]) === classOf(code) ? found[0] : null;
}

/**
 * Text from a remote party, made safe for a database row, a log field and a page: decoded as UTF-8 (else Latin-1), line ends
 * (U+2028 and U+2029 too) and tabs turned into spaces, other control characters (C0, DEL, C1) and lone surrogates removed, at
 * most `max` UTF-16 units.
 */
export function cleanRemoteText(remote: Uint8Array | string, max = 2_000): string {
  const text =
    typeof remote === 'string'
      ? remote.slice(0, max * 2)
      : decode(remote.subarray(0, max * 4), remote.length > max * 4);
  // The fast path: nearly all text is plain ASCII.
  if (/^[\x20-\x7e]*$/.test(text)) return text.slice(0, max).trim();
  const plain = text.replace(/[\r\n\t\u2028\u2029]+/g, ' ').replace(/[\x00-\x1f\x7f-\x9f]|\p{Surrogate}/gu, '');
  return cutText(plain, max).trim();
}

function decode(bytes: Uint8Array, cut: boolean): string {
  if (isAscii(bytes)) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  try {
    // In streaming mode a character that was cut in two is dropped instead of failing the whole text.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: cut });
  } catch {
    return Buffer.from(bytes).toString('latin1');
  }
}
