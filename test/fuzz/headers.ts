import fc from 'fast-check';
import { decodeWords } from 'postal-mime';
import { writeOther, writeText } from '../../src/mail/headers/fields.ts';
import { longestValue, refuseHeader } from '../../src/mail/headers/headers.ts';
import { readHeader } from '../../src/mail/headers/raw-header.ts';
import type { Target } from './target.ts';
import { equal, hold, line, unfold } from './texts.ts';

const name = fc.oneof(
  fc.constantFrom('Subject', 'X-A', 'List-Id', 'References', 'List-Unsubscribe', 'Errors-To'),
  fc.string({ unit: fc.constantFrom(...'abX-19!#~'), minLength: 1, maxLength: 76 }),
);

/** @throws Error unless this is one field in lines that every reader accepts (RFC 5322 sections 2.1.1 and 2.2.3) */
function isField(field: string): void {
  hold(field.endsWith('\r\n') && /^[ -~\r\n]*$/.test(field), 'has lines that are not ASCII');
  const lines = field.slice(0, -2).split('\r\n');
  hold(
    lines.every(
      (one, at) => one.length <= 998 && !/[\r\n]/.test(one) && one.trim() !== '' && /^[ \t]/.test(one) === at > 0,
    ),
    'has a line that is too long, empty, or of another field',
  );
}

const angles = (text: string) => (text.match(/<[^<>]*>/g) ?? []).map((one) => one.replaceAll(/ +/g, ' '));

export const headers: Target = {
  name: 'headers',
  open: () => ({
    'a text is in short lines, and a reader gets it back unchanged': fc.property(
      name,
      line(longestValue),
      fc.boolean(),
      (name, value, whole) => {
        if (!whole && refuseHeader(name, value) !== null) return true;
        const field = writeText(name, value, whole);
        isField(field);
        const written = unfold(field)
          .slice(name.length + 1)
          .replace(/^ /, '');
        equal(decodeWords(written), value);
        return true;
      },
    ),
    'the machine-readable parts of an address field stay unchanged': fc.property(
      fc.constantFrom('List-Id', 'References', 'List-Unsubscribe', 'Errors-To', 'X-A'),
      line(longestValue),
      (name, value) => {
        if (refuseHeader(name, value) !== null) return true;
        const field = writeOther(name, value);
        isField(field);
        const written = unfold(field).slice(name.length + 1);
        if (name !== 'X-A' && name !== 'Errors-To') equal(angles(written), angles(value));
        const around = (text: string) => text.replaceAll(/<[^<>]*>/g, ' | ');
        const said = (text: string) => text.replaceAll(/[\s"\\]/g, '');
        if (name === 'X-A') equal(decodeWords(written.slice(1)), value);
        else if (name !== 'Errors-To') equal(said(decodeWords(around(written))), said(around(value)));
        return true;
      },
    ),
    'fields are read one by one as written, and the body begins after them': fc.property(
      fc.array(fc.tuple(name, line(200)), { maxLength: 12 }),
      fc.string(),
      (fields, body) => {
        const written = fields.map(([name, value]) => writeText(name, value, true));
        const message = Buffer.from(`${written.join('')}\r\n${body}`);
        const found = readHeader(message);
        equal(
          found.fields.map(({ name, raw }) => [name, raw.toString()]),
          fields.map(([name], at) => [name, written[at]]),
        );
        equal(message.toString('utf8', found.body), body.toWellFormed());
        return true;
      },
    ),
  }),
};
