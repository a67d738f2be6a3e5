const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';

/** Base32 (RFC 4648 section 6), in lower case and without padding. */
export function toBase32(bytes: Buffer): string {
  let text = '';
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xfff;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += alphabet[(value >> (bits - 5)) & 31];
  }
  return bits > 0 ? text + alphabet[(value << (5 - bits)) & 31] : text;
}

/** The bytes, or null when they are not of this size, or the text has another character or ends in bits that are not zero. */
export function fromBase32(text: string, size: number): Buffer | null {
  if (text.length !== Math.ceil((size * 8) / 5)) return null;
  const bytes = Buffer.alloc(size);
  let length = 0;
  let bits = 0;
  let value = 0;
  for (const character of text) {
    const digit = alphabet.indexOf(character);
    if (digit === -1) return null;
    value = ((value << 5) | digit) & 0xfff;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes[length++] = value >> bits;
      value &= (1 << bits) - 1;
    }
  }
  return length === bytes.length && value === 0 ? bytes : null;
}
