import fc from 'fast-check';
import t from 'tap';
import { type Mailbox, parseMailbox } from '../../src/mail/address/address.ts';
import type { MessageParts } from '../../src/mail/compose/compose.ts';
import { composed, file, message } from './parts.ts';
import { dots, harmless, show, smuggling } from './payloads.ts';
import { hasPython, type Reading, readAll } from './python.ts';

const lines = (text: string) => text.replaceAll(/\r\n|\r|\n/g, '\r\n');
const withEnd = (text: string) => (text.endsWith('\r\n') ? text : `${text}\r\n`);
const named = (mailbox: Mailbox) => ({ name: mailbox.name ?? '', address: mailbox.address });

t.test('read by Python', { skip: hasPython ? false : 'python3 is not installed' }, async (t) => {
  const subjects = [
    ...harmless,
    ...[
      '',
      'a',
      'a  b',
      'a   b   c ',
      ' a',
      '  ',
      'tab\there',
      '"quoted" \\',
      'x'.repeat(900),
      'x'.repeat(1200),
      '字'.repeat(900),
      '🚀'.repeat(300),
    ],
    ...[
      'ü'.repeat(900),
      'word '.repeat(190).trim(),
      'wörd '.repeat(190).trim(),
      'a?=b',
      '?= =?',
      '=?',
      'a_b=20c',
      'e\u0301'.repeat(60),
      'x'.repeat(70),
    ],
    ...[
      `${'a'.repeat(66)} b`,
      `${'a'.repeat(65)}ü`,
      '<script>',
      'مرحبا',
      'a,b;c:d',
      '(comment)',
      '\u00a0a\u00a0',
      '\u2003',
      '\ufeff',
    ],
  ];
  const read = async (all: Partial<MessageParts>[]) => {
    const bytes = await Promise.all(all.map((parts) => composed(message(parts))));
    const readings = readAll(bytes);
    for (const [index, reading] of readings.entries()) t.same(reading.defects, [], show(String(bytes[index])));
    return readings;
  };

  await t.test('a subject comes back exactly', async (t) => {
    const readings = await read(subjects.map((subject) => ({ subject })));
    for (const [index, subject] of subjects.entries()) {
      t.equal(readings[index]?.headers.Subject, subject, show(subject));
      t.same(readings[index]?.names, [
        'Date',
        'From',
        'To',
        'Subject',
        'Message-ID',
        'MIME-Version',
        'Content-Type',
        'Content-Transfer-Encoding',
      ]);
    }
  });

  await t.test('so do a name and a header', async (t) => {
    const values = subjects.filter((text) => text.trim() !== '' && !text.includes('\t'));
    const readings = await read(
      values.map((value) => ({
        headers: [{ name: 'X-Value', value }],
        to: [{ ...parseMailbox('a@b.example'), name: value.trim() }, parseMailbox('c@d.example')],
      })),
    );
    for (const [index, value] of values.entries()) {
      t.equal(readings[index]?.headers['X-Value'], value, show(value));
      t.same(
        readings[index]?.addresses.To,
        [
          { name: value.trim(), address: 'a@b.example' },
          { name: '', address: 'c@d.example' },
        ],
        show(value),
      );
    }
  });

  await t.test('so does a filename', async (t) => {
    const names = [
      ...harmless,
      ...[
        'a.txt',
        'a b.txt',
        'ünï.pdf',
        'a"b\\c.txt',
        `${'日本語'.repeat(60)}.pdf`,
        `${'x'.repeat(1200)}.txt`,
        `${'x y'.repeat(400)}.txt`,
      ],
      ...[
        `${'ü"\\'.repeat(100)}.txt`,
        'a;b=c.txt',
        '../../etc/passwd',
        'trailing\\',
        'C:\\x\\y.txt',
        '__proto__',
        '...',
        "it's.txt",
        '%41.txt',
      ],
      ...["utf-8''x.txt", '🙂 a.txt', '(c).txt', '-dash', 'a,b', `${'x'.repeat(200)}\\`, `${'(x) '.repeat(80)}y`],
    ];
    const readings = await read(names.map((filename) => ({ attachments: [file({ filename })] })));
    for (const [index, filename] of names.entries()) {
      const parts = readings[index]?.parts.slice(1) ?? [];
      t.match(parts, [{ filename, disposition: 'attachment', content: Buffer.from('content') }], show(filename));
      t.equal(parts.length, 1);
    }
  });

  await t.test('a body comes back, except for its line ends', async (t) => {
    const bodies = [
      ...smuggling,
      ...dots,
      ...harmless,
      'a\rb\nc\r\nd',
      'From x\nFrom y',
      'y'.repeat(2000),
      '字'.repeat(500),
      'a  \nb\t\n\n\n',
      'a\0b',
      '\x1b[31m',
    ];
    const readings = await read(
      bodies.flatMap((text) => [{ text }, { text: null, html: text }, { text, html: `<p>${text}` }]),
    );
    for (const [index, text] of bodies.entries()) {
      const [plain, html, both] = readings.slice(index * 3, index * 3 + 3);
      t.same(plain?.tree, ['text/plain'], show(text));
      t.same(html?.tree, ['text/html'], 'no text part is made up');
      t.same(both?.tree, ['multipart/alternative', 'text/plain', 'text/html']);
      t.equal(withEnd(String(plain?.parts[0]?.content)), withEnd(lines(text)), show(text));
      t.equal(withEnd(String(html?.parts[0]?.content)), withEnd(lines(text)), show(text));
      t.equal(String(both?.parts[0]?.content), lines(text), show(text));
      t.equal(String(both?.parts[1]?.content), lines(`<p>${text}`), show(text));
    }
  });

  await t.test('attachments keep every octet, and are placed where they belong', async (t) => {
    const content = Buffer.from(Array.from({ length: 1000 }, (_, i) => i % 256));
    const attachments = [
      file({ content, contentType: 'text/plain; charset=iso-8859-1', filename: 'a.txt' }),
      file({ content, contentType: 'image/png', contentId: 'logo@x', filename: 'logo.png' }),
      file({ content: Buffer.alloc(0), filename: '' }),
    ];
    const [both, html, text, alone] = (await read([
      { html: '<img src="cid:logo@x">', attachments },
      { text: null, html: '<img src="cid:logo@x">', attachments },
      { attachments },
      { text: null, attachments: attachments.slice(0, 1) },
    ])) as [Reading, Reading, Reading, Reading];
    const rest = ['text/plain', 'application/octet-stream'];
    t.same(both.tree, [
      'multipart/mixed',
      'multipart/alternative',
      'text/plain',
      'multipart/related',
      'text/html',
      'image/png',
      ...rest,
    ]);
    t.same(html.tree, ['multipart/mixed', 'multipart/related', 'text/html', 'image/png', ...rest]);
    t.same(text.tree, ['multipart/mixed', 'text/plain', 'text/plain', 'image/png', 'application/octet-stream']);
    t.same(alone.tree, ['text/plain']);
    t.match(both.parts[2], {
      type: 'image/png',
      cid: '<logo@x>',
      disposition: 'inline',
      filename: 'logo.png',
      encoding: 'base64',
      content,
    });
    t.match(both.parts[3], { disposition: 'attachment', filename: 'a.txt', encoding: 'base64', content });
    t.match(both.parts[4], { disposition: 'attachment', filename: null, content: Buffer.alloc(0) });
    t.match(alone.parts[0], { disposition: 'attachment', filename: 'a.txt', encoding: 'base64', content });
  });

  await t.test('a large attachment', async (t) => {
    const content = Buffer.alloc(3_000_001, 'Some words. ');
    const [reading] = (await read([{ attachments: [file({ content }), file({ filename: 'b' })] }])) as [Reading];
    t.ok(reading.parts[1]?.content.equals(content));
    t.match(reading.parts[2], { filename: 'b', content: Buffer.from('content') });
  });

  await t.test('types that must not be encoded, and invalid types', async (t) => {
    const inner = Buffer.from('Subject: inner\r\n\r\n.\r\nbody\r\n');
    const eightBit = Buffer.from('Subject: ü\n\nbody\n');
    const types = [
      'multipart/mixed; boundary=x',
      'text/plain\r\nX-Evil: 1',
      'nonsense',
      '',
      'a/b; x="\r\n"',
      `a/${'b'.repeat(2000)}`,
      'message/rfc822',
    ];
    const [message, ...others] = (await read([
      { attachments: [file({ contentType: 'message/rfc822', content: inner, filename: 'a.eml' })] },
      ...types.map((contentType) => ({ attachments: [file({ contentType, content: eightBit })] })),
    ])) as [Reading, ...Reading[]];
    t.match(message.parts[1], { type: 'message/rfc822', encoding: '7bit', content: inner, filename: 'a.eml' });
    for (const reading of others) {
      t.same(reading.tree, ['multipart/mixed', 'text/plain', 'application/octet-stream']);
      t.match(reading.parts[1], { encoding: 'base64', content: eightBit });
    }
    const ofUnix = Buffer.from(String(inner).replaceAll('\r\n', '\n'));
    const mixed = Buffer.from('Subject: a\r\n\r\nb\nc\n');
    const [lf, both] = (await read(
      [ofUnix, mixed].map((content) => ({ attachments: [file({ contentType: 'message/rfc822', content })] })),
    )) as [Reading, Reading];
    t.match(lf.parts[1], { type: 'message/rfc822', encoding: '7bit' }, 'a message that was saved on Linux');
    t.equal(lf.parts[1]?.content.toString(), String(inner));
    t.match(both.parts[1], { type: 'application/octet-stream', encoding: 'base64', content: mixed });
  });

  await t.test('a text that is UTF-8 says so, and a calendar above all (RFC 5545 section 8.1)', async (t) => {
    const typeOf = async (contentType: string, content: string, encoding?: BufferEncoding) =>
      /^Content-Type: (?!text\/plain; charset=utf-8|multipart).*(?:\r\n .*)*/m
        .exec(
          String(
            await composed(
              message({ attachments: [file({ contentType, filename: '', content: Buffer.from(content, encoding) })] }),
            ),
          ),
        )?.[0]
        .replaceAll('\r\n', '');
    const calendar = 'BEGIN:VCALENDAR\r\nSUMMARY:Größe\r\n';
    t.equal(
      await typeOf('text/calendar; method=REQUEST', calendar),
      'Content-Type: text/calendar; method=REQUEST; charset=utf-8',
    );
    t.equal(await typeOf('TEXT/CSV', 'ü'), 'Content-Type: TEXT/CSV; charset=utf-8');
    for (const [type, content, encoding] of [
      ['text/csv', 'u'],
      ['text/csv', 'ü', 'latin1'],
      ['text/csv; charset=utf-8', 'ü'],
      ['text/csv; header=present; charset="iso-8859-1"', 'ü'],
      ['application/json', 'ü'],
    ] as const)
      t.equal(
        (await typeOf(type, content, encoding))?.replaceAll('"', ''),
        `Content-Type: ${type.replaceAll('"', '')}`,
      );
  });

  await t.test('a hundred recipients, and none', async (t) => {
    const to = Array.from({ length: 100 }, (_, i) =>
      parseMailbox(`${i % 3 ? `"Nr. ${i}, and ${'ü'.repeat(i)}" ` : ''}<nr${i}.${'x'.repeat(50)}@b${i}.example>`),
    );
    const [many, hidden] = (await read([{ to, cc: to, replyTo: to }, { to: [] }])) as [Reading, Reading];
    for (const name of ['To', 'Cc', 'Reply-To']) t.same(many.addresses[name], to.map(named), name);
    t.same(hidden.addresses.To, []);
    t.same(hidden.headers.To, 'undisclosed-recipients:;');
  });

  await t.test('an SMTPUTF8 address', async (t) => {
    const to = [parseMailbox('Zoë <jõe@bücher.example>')];
    const [reading] = (await read([{ to, html: 'ü', attachments: [file({ filename: 'ü' })] }])) as [Reading];
    t.same(reading.addresses.To, to.map(named));
  });

  await t.test('any text', async (t) => {
    const text = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 120 }),
      fc.string({ unit: fc.constantFrom(...'ab  =?_"\\(),.;<>@ü字🚀'), maxLength: 200 }),
    );
    const plain = text.map((value) => value.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '').trim() || 'x');
    const body = fc.string({
      unit: fc.constantFrom('.', '\r', '\n', '\r\n', ' ', '\t', '=', 'a', 'ü', '\0', '--', 'x'.repeat(80)),
      maxLength: 60,
    });
    const samples = fc.sample(fc.tuple(plain, plain, plain, plain, body), 300);
    const readings = await read(
      samples.map(([subject, name, value, filename, text]) => ({
        subject,
        to: [{ ...parseMailbox('a@b.example'), name }],
        headers: [{ name: 'X-Value', value }],
        attachments: [file({ filename })],
        text,
        html: `${text}<`,
      })),
    );
    for (const [index, [subject, name, value, filename, text]] of samples.entries()) {
      const reading = readings[index];
      t.equal(reading?.headers.Subject, subject, show(subject));
      t.equal(reading?.headers['X-Value'], value, show(value));
      t.equal(reading?.addresses.To?.[0]?.name, name, show(name));
      t.equal(reading?.parts.at(-1)?.filename, filename, show(filename));
      t.equal(String(reading?.parts.at(-2)?.content), lines(`${text}<`), show(text));
    }
  });
});
