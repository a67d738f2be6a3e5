/** One field as it appears in a message's header: `raw` includes its folding and final CRLF. */
export interface RawField {
  name: string;
  raw: Buffer;
}

/**
 * Reads the header of a message with CRLF line ends: its fields in order, and the offset at which the body begins (the
 * message's length when it has none).
 */
export function readHeader(message: Buffer): { fields: RawField[]; body: number } {
  const fields: RawField[] = [];
  let start = 0;
  while (start < message.length) {
    if (message[start] === 0x0d && message[start + 1] === 0x0a) return { fields, body: start + 2 };
    let end = endOfLine(message, start);
    while (message[end] === 0x20 || message[end] === 0x09) end = endOfLine(message, end);
    const raw = message.subarray(start, end);
    fields.push({ name: fieldName(raw), raw });
    start = end;
  }
  return { fields, body: message.length };
}

function endOfLine(message: Buffer, from: number): number {
  // Keeps a header of nothing but line ends cheap too: these few bytes cost less than a call of `indexOf`.
  for (let at = from; at < from + 8; at++) if (message[at] === 0x0a) return at + 1;
  const lineFeed = message.indexOf(0x0a, from + 8);
  return lineFeed === -1 ? message.length : lineFeed + 1;
}

/** The text before the colon, without the white space that the obsolete syntax allows before it; empty if there is no colon. */
function fieldName(raw: Buffer): string {
  let end = Math.max(0, raw.indexOf(0x3a));
  while (raw[end - 1] === 0x20 || raw[end - 1] === 0x09) end--;
  return raw.toString('latin1', 0, end);
}
