/**
 * Why these bytes cannot be sent with SMTP DATA (RFC 5321 sections 2.3.8 and 4.5.3.1.6), or null when they can: a CR or LF
 * that is not part of a CRLF, a NUL, a line of more than 998 octets, or an octet above 127 at or after the offset
 * `eightBitUntil`. One pass over the bytes.
 */
export function findWireDefect(message: Buffer, eightBitUntil: number): string | null {
  let lineStart = 0;
  for (let i = 0; i < message.length; i++) {
    const byte = message[i] ?? 0;
    if (byte > 0x0d) {
      if (byte > 0x7f && i >= eightBitUntil) return `an octet above 127 at ${i}`;
    } else if (byte === 0x0d) {
      if (message[i + 1] !== 0x0a) return `a CR without LF at ${i}`;
      if (i - lineStart > 998) return `a line of ${i - lineStart} octets at ${lineStart}`;
      lineStart = i + 2;
      i++;
    } else if (byte === 0x0a) return `an LF without CR at ${i}`;
    else if (byte === 0) return `a NUL at ${i}`;
  }
  return message.length - lineStart > 998 ? `a line of ${message.length - lineStart} octets at ${lineStart}` : null;
}
