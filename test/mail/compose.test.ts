import t from 'tap';
import { parseMailbox } from '../../src/mail/address/address.ts';
import { type MessageParts, needsSmtpUtf8 } from '../../src/mail/compose/compose.ts';
import { findWireDefect } from '../../src/mail/encoding/wire.ts';
import { composed, file, message } from './parts.ts';
import { dots, harmless, refused, show, smuggling } from './payloads.ts';

t.test('one message, exactly', async (t) => {
  const bytes = await composed(
    message({
      cc: [parseMailbox('"Lovelace, Ada" <ada@b.example>')],
      replyTo: [parseMailbox('Zoë <z@b.example>')],
      headers: [
        { name: 'x-oDD-Case', value: 'kept' },
        { name: 'List-Id', value: '"News" <news.b.example>' },
      ],
    }),
  );
  t.equal(
    bytes.toString(),
    [
      'Date: Fri, 20 Nov 2026 10:11:12 +0000',
      'From: Shop <shop@sender.example>',
      'To: a@b.example',
      'Cc: "Lovelace, Ada" <ada@b.example>',
      'Reply-To: =?utf-8?Q?Zo=C3=AB?= <z@b.example>',
      'Subject: Hello',
      'Message-ID: <0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001@sender.example>',
      'x-oDD-Case: kept',
      'List-Id: "News" <news.b.example>',
      'MIME-Version: 1.0',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Transfer-Encoding: 7bit',
      '',
      'Hello',
      '',
    ].join('\r\n'),
  );
});

t.test('what is encoded, and where lines end', async (t) => {
  const header = async (parts: Partial<MessageParts>) => {
    const text = String(await composed(message(parts)));
    return text.slice(text.indexOf('\r\nTo:') + 2, text.indexOf('\r\nMIME-Version')).split('\r\n');
  };
  const value = 'My Zoë list <l.b.example>';
  t.match(await header({ subject: value }), [
    'To: a@b.example',
    'Subject: =?utf-8?B?TXkgWm/DqyBsaXN0IDxsLmIuZXhhbXBsZT4=?=',
  ]);
  const custom = await header({ headers: [{ name: 'List-Id', value }] });
  t.equal(custom.at(-1), 'List-Id: My =?utf-8?Q?Zo=C3=AB?= list <l.b.example>');
  const spaced = await header({ headers: [{ name: 'In-Reply-To', value: ' <a@b.example> ' }] });
  t.equal(spaced.at(-1), 'In-Reply-To: <a@b.example>', 'programs read it, and none decodes it');
  const url = `<https://x.example/${'u'.repeat(300)}>`;
  t.equal(
    (await header({ headers: [{ name: 'List-Unsubscribe', value: `${url}, <mailto:u@x.example>` }] })).at(-2),
    `List-Unsubscribe: ${url},`,
  );
  for (const text of ['Hello\n', 'Hello, Zoë\n'])
    t.match(String(await composed(message({ text }))), /Hello[^\r\n]*\r\n$/, 'a text that ends its last line');
  for (const text of [
    '字'.repeat(300),
    'ü'.repeat(300),
    'wörd '.repeat(60),
    'word '.repeat(60),
    '🚀'.repeat(99),
    'x=? '.repeat(60),
    `${'x'.repeat(70)}ü`,
  ]) {
    const to = [
      { ...parseMailbox('a@b.example'), name: text.trim() },
      { ...parseMailbox('a@b.example'), name: 'x'.repeat(120) },
    ];
    for (const line of await header({ to, cc: to, subject: text, headers: [{ name: 'X-Some-Name', value: text }] })) {
      t.ok(line.length <= 76 && line.trim() !== '', show(line));
    }
  }
});

t.test('a long display name in ASCII is folded, not encoded', async (t) => {
  const words = 'Department of Applied Mathematics and Theoretical Physics Library';
  for (const [name, written] of [
    [words, words],
    [`${words}, "Reading" \\ Room`, `"${words}, \\"Reading\\" \\\\ Room"`],
    [`${words},  two spaces`, `"${words},  two spaces"`],
  ] as const) {
    const text = String(await composed(message({ from: { ...parseMailbox('a@b.example'), name } })));
    const field = /^From: (?:.|\r\n )*/m.exec(text)?.[0] ?? '';
    t.equal(field.replaceAll('\r\n', ''), `From: ${written} <a@b.example>`);
    t.ok(field.split('\r\n').length > 1 && field.split('\r\n').every((line) => line.length <= 76), show(field));
  }
});

t.test('an invitation is another form of the message, which mail programs offer to accept', async (t) => {
  const contentType = 'text/calendar; charset=utf-8; method=REQUEST';
  const invitation = file({ filename: 'invite.ics', contentType, content: Buffer.from('BEGIN:VCALENDAR\r\n') });
  const typesOf = async (parts: Partial<MessageParts>) =>
    [
      ...String(await composed(message(parts))).matchAll(
        /^(Content-Type: [^;\r\n]+|Content-Disposition: \w+|--.*--(?=\r))/gm,
      ),
    ].map(([found]) => found.replace(/^--.*--$/, 'end').replace(/^Content-[^:]+: /, ''));
  const alternative = ['multipart/alternative', 'text/plain', 'text/html', 'text/calendar', 'end'];
  t.strictSame(await typesOf({ html: '<p>', attachments: [invitation] }), alternative);
  t.strictSame(
    await typesOf({ html: '<p>', attachments: [file({ filename: 'b.bin' }), invitation, { ...invitation }] }),
    [
      'multipart/mixed',
      ...alternative,
      ...['application/octet-stream', 'attachment', 'text/calendar', 'attachment', 'end'],
    ],
  );
  t.strictSame(
    await typesOf({ text: null, attachments: [invitation] }),
    ['text/calendar'],
    'the message, if it is all there is',
  );
  t.match(await typesOf({ attachments: [invitation, file()] }), [
    'multipart/mixed',
    ...['multipart/alternative', 'text/plain', 'text/calendar', 'end', 'application/octet-stream', 'attachment'],
  ]);
  const again = file({ filename: 'invite.ics', contentType: 'application/ics' });
  t.strictSame(
    await typesOf({ text: null, attachments: [invitation, again] }),
    ['multipart/mixed', 'text/calendar', 'application/ics', 'attachment', 'end'],
    'as nodemailer writes one without text',
  );
  t.match(await typesOf({ text: null, attachments: [invitation, file()] }), [
    'multipart/mixed',
    ...['text/calendar', 'attachment', 'application/octet-stream', 'attachment', 'end'],
  ]);
  const plain = file({ filename: 'holidays.ics', contentType: 'text/calendar' });
  t.match(await typesOf({ attachments: [plain] }), [
    'multipart/mixed',
    'text/plain',
    'text/calendar',
    'attachment',
    'end',
  ]);
});

t.test('without subject and text it is still a message', async (t) => {
  const bytes = await composed(message({ subject: '', text: null }));
  t.match(bytes.toString(), /^Subject:\r\nMessage-ID: /m);
  t.match(
    bytes.toString(),
    /Content-Type: text\/plain; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n\r\n(\r\n)?$/,
  );
  t.equal(findWireDefect(bytes, 0), null);
  const alone = (await composed(message({ subject: '', text: null, attachments: [file()] }))).toString();
  t.match(alone, /^Content-Type: application\/octet-stream; name=a\.bin\r\n/m);
  t.match(alone, /^Content-Disposition: attachment; filename=a\.bin\r\n/m);
});

t.test('INJ: no text can be written to contain the boundary that it gets', async (t) => {
  const boundaryOf = async (text: string) =>
    /boundary="(.*)"/.exec(String(await composed(message({ text, html: '<p>' }))))?.[1];
  // Beyond ASCII no line of the encoded text can be a boundary; these only have to differ.
  for (const filling of ['x\n', 'ü, and some words\n', '字\n']) {
    const long = filling.repeat(2_000);
    const boundary = await boundaryOf(`${long}a${long}`);
    t.match(boundary, /^=_[0-9a-f]{32}$/);
    if (filling === 'x\n') t.not(await boundaryOf(`${long}b${long}`), boundary, 'every octet counts');
    t.not(await boundaryOf(`b${long}${long}`), boundary);
    t.equal(await boundaryOf(`${long}a${long}`), boundary);
  }
});

t.test('the same parts give the same bytes', async (t) => {
  const parts = message({ html: '<p>', attachments: [file(), file({ filename: 'b.bin' })] });
  t.ok((await composed(parts)).equals(await composed(parts)));
});

t.test('only CRLF, short lines and 7 bits, whatever the body is', async (t) => {
  for (const text of [
    ...[...smuggling, ...dots, ...refused, ...harmless, '', ' ', '\r', '\n', '\r\r\n\n', 'a\rb', 'From x\nFrom y\n'],
    ...[
      'y'.repeat(2000),
      'ü'.repeat(2000),
      '字'.repeat(5000),
      `${'word '.repeat(3000)}\n`,
      '\0'.repeat(3000),
      '\x7f\x1b',
      '\ud800x\udc00',
    ],
    ...[
      'x\t \n'.repeat(50),
      `${'a'.repeat(75)} \n`.repeat(3),
      '=\n=3D\n',
      'x'.repeat(998),
      'x'.repeat(999),
      'x'.repeat(200_000),
    ],
  ]) {
    for (const parts of [
      { text },
      { text: null, html: text },
      { text, html: text, attachments: [file({ content: Buffer.from(text) })] },
    ]) {
      const bytes = await composed(message(parts));
      t.equal(findWireDefect(bytes, 0), null, show(text));
    }
  }
});

t.test('a message is refused rather than sent broken', async (t) => {
  const bad = { ...parseMailbox('a@b.example'), address: 'a@b.example>\r\nRCPT TO:<c@d.example' };
  await t.rejects(composed(message({ to: [bad] })));
  await t.rejects(composed(message({ from: { ...bad, address: 'a@b.example,x@y.example' } })));
  await t.rejects(
    composed(message({ to: [{ ...bad, address: `${'x'.repeat(1000)}@b.example` }] })),
    /a line of 1\d\d\d octets/,
  );
  await t.rejects(composed(message({ messageId: 'a>\r\nBcc: <x@y.example' })));
  await t.rejects(composed(message({ headers: [{ name: 'X:\r\nBcc', value: 'x' }] })));
  const crafted = await composed(message({ subject: 'a\r\nBcc: x', headers: [{ name: 'X-A', value: 'b\nBcc: y' }] }));
  t.notMatch(crafted.toString(), /^Bcc/m);
});

t.test('only a local part needs SMTPUTF8', async (t) => {
  const plain = parseMailbox('Zoë <a@bücher.example>');
  const utf8 = parseMailbox('jõe@bücher.example');
  t.notOk(needsSmtpUtf8([]));
  t.notOk(needsSmtpUtf8([plain]));
  t.ok(needsSmtpUtf8([plain, utf8]));
  t.equal(findWireDefect(await composed(message({ to: [plain] })), 0), null);
  const bytes = await composed(message({ to: [plain, utf8], text: 'ü' }));
  t.match(bytes.toString(), /^To: .*<a@xn--bcher-kva\.example>,\r\n jõe@xn--bcher-kva\.example\r\n/m);
  t.equal(findWireDefect(bytes, bytes.indexOf('\r\n\r\n')), null, 'the body is 7-bit anyway');
});
