import fc from 'fast-check';
import t from 'tap';
import { withCrlf } from '../../src/mail/encoding/line-ends.ts';

const texts = fc
  .array(fc.constantFrom('\r', '\n', '\r\n', '\n\r', 'a', ' ', 'é', '€', '😀', '\0'), { maxLength: 30 })
  .map((parts) => parts.join(''));

t.test('each CR, LF and CRLF is one line end, in a long text as well', (t) => {
  const filling = 'x'.repeat(128 * 1024);
  fc.assert(
    fc.property(texts, (text) => {
      const lines = text.split(/\r\n|\r|\n/).join('\r\n');
      return withCrlf(text) === lines && withCrlf(`${text}${filling}${text}`) === `${lines}${filling}${lines}`;
    }),
  );
  t.end();
});
