import { isAscii } from 'node:buffer';

const CR = 13;
const LF = 10;
const DOT = 46;

/** A message in the form that DATA carries. */
export interface Content {
  /** Consecutive pieces, dot-stuffed, ending in CRLF, without the final dot. */
  wire: Buffer[];
  /** The message's size as SIZE counts it (RFC 1870: without the dots that stuffing adds). */
  size: number;
  /** True if any byte is not ASCII. */
  eightBit: boolean;
}

/** The end of DATA's content, after its last CRLF. */
export const finalDot = Buffer.from('.\r\n');

/**
 * Prepares a message for DATA (RFC 5321 section 4.5.2). Copies nothing unless a line starts with a dot.
 *
 * @param pieces the message, cut after line ends
 * @throws Error if the message has a CR or LF outside CRLF: some servers would take it for the end of the message, and
 *   what follows for commands
 */
export function prepareContent(pieces: readonly Buffer[]): Content {
  if (pieces.slice(0, -1).some((piece) => piece.at(-1) !== LF)) throw new Error('a message was cut within a line');
  return {
    wire: pieces.map(stuff),
    size: pieces.reduce((sum, piece) => sum + piece.length, 0),
    eightBit: !pieces.every((piece) => isAscii(piece)),
  };
}

function stuff(message: Buffer): Buffer {
  const dots: number[] = [];
  if (message[0] === DOT) dots.push(0);
  const whole = message.byteOffset % 4 === 0 ? message.length >> 2 : 0;
  const words = new Int32Array(message.buffer, whole > 0 ? message.byteOffset : 0, whole);
  for (let at = 0; at < message.length; ) {
    // The fast path: nearly all groups of four octets hold no control character, which one comparison shows.
    if ((at & 3) === 0) {
      let word = at >> 2;
      while (word < whole && !hasControls(words[word] as number)) word++;
      at = word << 2;
      if (at >= message.length) break;
    }
    const byte = message[at] as number;
    if (byte === LF || (byte === CR && message[at + 1] !== LF))
      throw new Error(`a bare CR or LF at byte ${at} of a message`);
    at += byte === CR ? 2 : 1;
    if (byte === CR && message[at] === DOT) dots.push(at);
  }
  const ended = message.length === 0 || message.at(-1) === LF;
  return dots.length === 0 && ended ? message : stuffed(message, dots, ended ? 0 : 2);
}

/** True if one of the four octets is below 14; false positives are possible in the octets after it. */
const hasControls = (word: number) => ((word - 0x0e0e0e0e) & ~word & 0x80808080) !== 0;

function stuffed(message: Buffer, dots: number[], endBytes: number): Buffer {
  const wire = Buffer.allocUnsafe(message.length + dots.length + endBytes);
  let from = 0;
  let to = 0;
  for (const dot of dots) {
    to += message.copy(wire, to, from, dot);
    wire[to++] = DOT;
    from = dot;
  }
  to += message.copy(wire, to, from);
  wire.set([CR, LF].slice(0, endBytes), to);
  return wire;
}
