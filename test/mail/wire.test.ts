import t from 'tap';
import { findWireDefect } from '../../src/mail/encoding/wire.ts';
import { show } from './payloads.ts';

t.test('what must not be on the wire is found', async (t) => {
  for (const [text, found] of [
    ['a\r\nb\r\n', null],
    ['', null],
    [`${'x'.repeat(998)}\r\n`, null],
    ['x'.repeat(998), null],
    [`${'x'.repeat(999)}\r\n`, 'a line of 999 octets at 0'],
    [`a\r\n${'x'.repeat(999)}`, 'a line of 999 octets at 3'],
    ['a\nb', 'an LF without CR at 1'],
    ['\n', 'an LF without CR at 0'],
    ['a\r', 'a CR without LF at 1'],
    ['a\r\r\n', 'a CR without LF at 1'],
    ['a\0', 'a NUL at 1'],
    ['aü', 'an octet above 127 at 1'],
  ] as const) {
    t.equal(findWireDefect(Buffer.from(text), 0), found, show(text));
  }
  t.equal(findWireDefect(Buffer.from('aü: b\r\n'), 7), null);
});
