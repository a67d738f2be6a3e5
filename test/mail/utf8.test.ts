import fc from 'fast-check';
import t from 'tap';
import { writeUtf8 } from '../../src/mail/encoding/utf8.ts';

const room = Buffer.alloc(60_000);

t.test('short and long texts are encoded as Node.js does it', async () => {
  const pieces = fc.array(fc.constantFrom('a', 'é', '€', '😀', '\ud800', '\udc00', 'plain text '), { maxLength: 20 });
  fc.assert(
    fc.property(pieces, fc.constantFrom(1, 100, 4_096, 10_000), fc.boolean(), (some, length, first) => {
      const filled = 'x'.repeat(length);
      const text = first ? some.join('') + filled : filled + some.join('');
      room.fill(0x2a);
      const octets = writeUtf8(text, room);
      return room.subarray(0, octets).equals(Buffer.from(text)) && room[octets] === 0x2a;
    }),
    { numRuns: 1_000 },
  );
});
