import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { composeFiles } from '../../src/mail/compose/compose-files.ts';
import { base64Length, writeBase64 } from '../../src/mail/encoding/base64-lines.ts';
import { hashRelaxedBody } from '../../src/mail/encoding/canonical.ts';

/** As in RFC 2045: lines of 76, with a CRLF between them. */
const inLines = (content: Buffer) => content.toString('base64').replaceAll(/.{76}(?!$)/g, '$&\r\n');

const slice = 57 * 4_096;

async function written(content: Buffer): Promise<string> {
  const output = Buffer.alloc(base64Length(content.length) + 4, '#');
  const end = await writeBase64(content, output, 2);
  t.equal(end, output.length - 2, `${content.length} bytes have the announced length`);
  const text = output.toString('latin1');
  t.ok(text.startsWith('##') && text.endsWith('##'), 'and nothing is written around them');
  return text.slice(2, -2);
}

t.test('base64 in lines, of any length', async (t) => {
  const ends = [57, 114, slice, 2 * slice].flatMap((size) => [size - 3, size - 2, size - 1, size, size + 1, size + 2]);
  for (const size of [0, 1, 2, 3, 4, ...ends]) {
    const content = randomBytes(size);
    t.ok((await written(content)) === inLines(content), `${size} bytes`);
  }
});

t.test('a body with files has the hash of its bytes, whatever the files and texts are', async (t) => {
  const contents = fc.oneof(fc.uint8Array({ maxLength: 200 }), fc.constant(new Uint8Array(slice + 1)));
  const text = fc.option(fc.stringMatching(/^[a-zé \t\n=.-]{0,60}$/));
  await fc.assert(
    fc.asyncProperty(text, text, fc.array(contents, { minLength: 1, maxLength: 3 }), async (text, html, files) => {
      const attachments = files.map((content, index) => ({
        ...{ filename: `${index}.bin`, contentType: 'a/b', contentId: index === 1 ? 'shown' : null },
        content: Buffer.from(content),
      }));
      const { bytes, hash } = await composeFiles({ text, html, attachments, messageId: 'id@x.test' });
      const all = bytes.toString('latin1');
      return (
        hash === (await hashRelaxedBody(bytes)) &&
        attachments.every(({ content }) => content.length === 0 || all.includes(inLines(content)))
      );
    }),
    { numRuns: 300 },
  );
  t.pass();
});

t.test('other work gets its turn while a message with a large file is composed', async (t) => {
  let turns = 0;
  const count = setInterval(() => turns++, 0);
  const file = { filename: 'a.bin', contentType: 'a/b', contentId: null, content: randomBytes(8 << 20) };
  await composeFiles({ text: 'x', html: null, attachments: [file], messageId: 'id@x.test' });
  clearInterval(count);
  t.ok(turns >= 10, `${turns} turns`);
});
