import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { composeBody } from '../../src/mail/compose/body.ts';
import { hashRelaxedBody, relaxedField } from '../../src/mail/encoding/canonical.ts';
import { show } from './payloads.ts';

t.test('the canonical body, exactly as in RFC 6376', async (t) => {
  for (const [body, canonical] of [
    ['', ''],
    ['\r\n', ''],
    ['\r\n\r\n \t\r\n', ''],
    [' ', ''],
    ['a', 'a\r\n'],
    ['a\r\n', 'a\r\n'],
    ['a\r\n\r\n', 'a\r\n'],
    ['a \t', 'a\r\n'],
    [' C \r\nD \t E\r\n\r\n\r\n', ' C\r\nD E\r\n'],
    ['\r\n\r\na', '\r\n\r\na\r\n'],
    ['a\r\n \r\n\r\nb\r\n\t', 'a\r\n\r\n\r\nb\r\n'],
    ['\t\ta', ' a\r\n'],
    ['a\r b\r\n', 'a\r b\r\n'],
    ['a\r', 'a\r\r\n'],
    ['\u00a0\r\n', '\u00a0\r\n'],
  ] as const) {
    t.equal(
      await hashRelaxedBody(Buffer.from(body)),
      createHash('sha256').update(canonical).digest('base64'),
      show(body),
    );
  }
  // RFC 6376 section 3.4.4: the SHA-256 of an empty relaxed body.
  t.equal(await hashRelaxedBody(Buffer.from('\r\n')), '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=');
});

t.test('the canonical header field', async (t) => {
  for (const [field, canonical] of [
    ['A: X\r\n', 'a:X'],
    ['B : Y\t\r\n\tZ  \r\n', 'b:Y Z'],
    ['Empty:\r\n', 'empty:'],
    ['Empty: \t\r\n', 'empty:'],
    ['C:\r\n d : e\r\n', 'c:d : e'],
  ] as const) {
    t.equal(relaxedField(field), canonical, show(field));
  }
  const utf8 = 'Subject: \u00a0à\u0085 Å\u00a0\r\n';
  t.equal(
    Buffer.from(relaxedField(Buffer.from(utf8).toString('latin1')), 'latin1').toString(),
    'subject:\u00a0à\u0085 Å\u00a0',
    'the octets of UTF-8 are not white space',
  );
});

t.test('text that is hashed without a change is in the relaxed form already', async (t) => {
  const word = fc.constantFrom(
    ' ',
    '  ',
    '\t',
    '\n',
    ' \n',
    '\r\n',
    '\r',
    '=',
    '.',
    'words',
    'é',
    '—',
    '中文',
    'x'.repeat(72),
  );
  const text = fc.array(word, { minLength: 1, maxLength: 30 }).map((words) => words.join(''));
  let asItIs = 0;
  await fc.assert(
    fc.asyncProperty(fc.option(text), text, async (plain, html) => {
      const { bytes, hash } = await composeBody(plain, html);
      if (hash === createHash('sha256').update(bytes).digest('base64')) asItIs += 1;
      return hash === (await hashRelaxedBody(bytes));
    }),
    { numRuns: 2_000 },
  );
  t.ok(asItIs > 100, `${asItIs} of them`);
});

t.test('other work gets its turn while a large body is hashed', async (t) => {
  let turns = 0;
  const count = setInterval(() => turns++, 0);
  await hashRelaxedBody(Buffer.alloc(16 << 20, 'Some words\r\n'));
  clearInterval(count);
  t.ok(turns >= 5, `${turns} turns`);
});
