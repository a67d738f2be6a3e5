import fc from 'fast-check';
import t from 'tap';
import { composeBody } from '../../src/mail/compose/body.ts';
import { hashRelaxedBody } from '../../src/mail/encoding/canonical.ts';
import { encodeText } from '../../src/mail/encoding/encode-text.ts';
import { Scratch } from '../../src/mail/encoding/scratch.ts';

/** Texts for quoted-printable, with runs about as long as a line. */
const pieces = fc.oneof(
  fc.constantFrom(
    ' ',
    '  ',
    '\t',
    '=',
    '\n',
    '\r',
    '\r\n',
    ' \n',
    '\t\r\n',
    '.',
    '\n.\n',
    '\0',
    '\x7f',
    'é',
    '€',
    '😀',
    '\u{10fffd}',
    '\ud800',
  ),
  fc.integer({ min: 1, max: 80 }).map((length) => 'x'.repeat(length)),
);
const texts = fc.array(pieces, { maxLength: 20 }).map((all) => all.join(''));
const mostlyAscii = texts.map((text) => `é${'and so on and on '.repeat(10)}${text}`);

const decoded = (encoded: string) => {
  const octets = encoded
    .replaceAll('=\r\n', '')
    .replaceAll(/=(..)/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(octets, 'latin1').toString();
};
const lineEnds = (text: string) => text.toWellFormed().replaceAll(/\r\n|\r|\n/g, '\r\n');

t.test(
  'quoted-printable exactly as in RFC 2045, for any text, without a line that SMTP would have to change',
  async () => {
    const work = new Scratch();
    fc.assert(
      fc.property(mostlyAscii, (text) => {
        const { encoding, bytes } = encodeText(text, work);
        const encoded = bytes.toString('latin1');
        if (encoding !== 'quoted-printable') return false;
        for (const line of encoded.split('\r\n')) {
          if (line.length > 76 || line.startsWith('.')) return false;
          if (!/^(?:[\t !-<>-~]|=[\dA-F]{2})*=?$/.test(line) || /[\t ]$/.test(line)) return false;
        }
        return decoded(encoded) === lineEnds(text);
      }),
      { numRuns: 3_000 },
    );
  },
);

t.test('text marked as relaxed is in the relaxed form', async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(texts, mostlyAscii), async (text) => {
      const { bytes, relaxed } = encodeText(text, new Scratch());
      return (
        !relaxed || (await hashRelaxedBody(bytes, [{ start: 0, end: bytes.length }])) === (await hashRelaxedBody(bytes))
      );
    }),
    { numRuns: 2_000 },
  );
});

t.test('a body is not changed by encoding the next ones', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(texts, texts, fc.nat(2)), { minLength: 2, maxLength: 6 }), async (all) => {
      const make = ([text, html, which]: [string, string, number]) =>
        composeBody(which === 1 ? null : `é${text}\n`, which === 2 ? null : `é${html}\n`);
      const made: { bytes: Buffer; before: Buffer }[] = [];
      for (const one of all) {
        const { bytes } = await make(one);
        made.push({ bytes, before: Buffer.from(bytes) });
      }
      return made.every(({ bytes, before }) => bytes.equals(before));
    }),
    { numRuns: 200 },
  );
});
