/** A text as the name of an assertion, in ASCII, because a raw control character would break the TAP stream. */
export function show(text: string): string {
  return JSON.stringify(text.slice(0, 100)).replaceAll(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

const evil = 'X-Evil: 1';

/**
 * Payloads that no field that ends up in a header may accept: control characters and broken Unicode, each followed by a
 * header.
 */
export const refused = [
  '\r\n',
  '\n',
  '\r',
  '\r\n\r\n',
  '\0',
  '\v',
  '\f',
  '\t',
  '\x1b[31m',
  '\x7f',
  '\u0085',
  '\u2028',
  '\u2029',
  '\ud800',
  '\udc00\ud800',
].map((text) => text + evil);

/** Payloads that are plain text and must stay that text. U+010A and U+560A end in the octet of a line feed. */
export const harmless = [
  '\u010a',
  '\u010d',
  '\u010d\u010a',
  '\u560a',
  '\u560d\u560a',
  '\uff0a',
  '\u202e',
  '\u200b',
  '\ufeff',
  '%0d%0a',
  '=0D=0A',
  '=?utf-8?Q?a=0D=0AX-Evil:_1?=',
  '=?utf-8?B?DQpYLUV2aWw6IDE=?=',
  '=?utf-8?Q?a b?=',
].map((text) => text + evil);

/** Bodies that end a message early at a server that accepts more than CRLF.CRLF as its end (SMG-01). */
export const smuggling = [
  '\n.\n',
  '\r.\r',
  '\n.\r\n',
  '\r\n.\n',
  '\r\n.\r',
  '\r.\n',
  '\r.\r\n',
  '\n.\r',
  '\r\n\0.\r\n',
  '\r\n.\0\r\n',
  '\r\n.\r\n',
].map((end) => `before${end}MAIL FROM:<a@evil.example>${end}RCPT TO:<b@evil.example>`);

/** Bodies that a mistake in dot-stuffing would change (SMG-02). */
export const dots = [
  '.',
  '..',
  '.\r\n',
  '..\r\n.\r\n',
  '.first',
  'a\r\n.b\r\n..c',
  ...[1022, 1023, 1024, 1025, 2048].map((length) =>
    `${'x'.repeat(70)}\r\n`
      .repeat(40)
      .slice(0, length - 2)
      .concat('\r\n.'),
  ),
];
