import t from 'tap';
import { refuseAttachment } from '../../src/mail/compose/attachments.ts';
import { readSubmission } from '../../src/mail/submission/submission.ts';
import { composed, message } from './parts.ts';

const multi = (kind: string, ...parts: string[]) =>
  `Content-Type: multipart/${kind}; boundary=b-${kind}\n\n${parts.map((part) => `--b-${kind}\n${part}\n`).join('')}--b-${kind}--\n`;
const html = (text: string) => `Content-Type: text/html\n\n${text}`;
const image = (id: string, more = '') => `Content-Type: image/png; name=x.png\nContent-ID: ${id}${more}\n\n\x89PNG`;
const read = (content: string) =>
  readSubmission(Buffer.from(`From: a@b.test\nSubject: s\n${content}`.replaceAll('\n', '\r\n'), 'latin1'));

t.test('an image is shown where its program put it, whatever its id consists of', async (t) => {
  const table: [id: string, named: string][] = [
    // Outlook Express and Windows Mail.
    ['<000501c2bd3f$5c1b8900$6401a8c0@pc>', '000501c2bd3f$5c1b8900$6401a8c0@pc'],
    ['<Company Logo.png>', 'Company%20Logo.png'],
    ['<{1A-2B}/img~1>', '{1A-2B}/img~1'],
    ['<a&b!>', 'a&amp;b!'],
    ['<größe 1@x>', 'gr%C3%B6%C3%9Fe%201%40x'],
  ];
  for (const [id, named] of table) {
    const octets = Buffer.from(id).toString('latin1');
    const content = multi(
      'related',
      html(`<img src="cid:${named}"><b>cid:</b><img src='cid:${named}'>`),
      image(octets),
    );
    const { html: shown, attachments } = await read(content);
    const [file] = attachments;
    if (!file) throw new Error('there is no file');
    t.equal(refuseAttachment(file), null, id);
    t.ok(file.contentId, id);
    t.equal(shown, `<img src="cid:${file.contentId}"><b>cid:</b><img src='cid:${file.contentId}'>`);
    t.match((await read(content)).attachments, [{ contentId: file.contentId }], 'the same each time');
  }
  const both = multi('related', html('<img src=cid:a$b><img src=cid:a$bc>'), image('<a$b>'), image('<a$bc>'));
  const { html: shown, attachments } = await read(both);
  t.equal(shown, `<img src=cid:${attachments[0]?.contentId}><img src=cid:${attachments[1]?.contentId}>`);
  const unnamed = await read(multi('related', html('<p>cid:"'), image('<a$b>'), image('<">'), image('< >')));
  t.equal(unnamed.html, '<p>cid:"');
  t.strictSame(
    unnamed.attachments.map(({ contentId }) => contentId),
    [null, null, null],
  );
});

t.test('a part that the HTML does not refer to is a file, except images', async (t) => {
  const inline = '\nContent-Disposition: inline; filename=a.pdf';
  const pdf = `Content-Type: application/pdf\nContent-ID: <8A6E@apple>${inline}\n\n%PDF`;
  const ids = async (content: string) => (await read(content)).attachments.map(({ contentId }) => contentId);
  t.strictSame(await ids(multi('mixed', html('<p>'), pdf)), [null], 'as Apple Mail sends a PDF');
  t.strictSame(await ids(multi('mixed', html('<object data="cid:8A6E@apple">'), pdf)), ['8A6E@apple']);
  t.strictSame(await ids(multi('mixed', html('<p>'), image('<i@d>'))), ['i@d']);
  const attached = image('<i@d>', '\nContent-Disposition: attachment');
  t.strictSame(await ids(multi('mixed', html('<p>'), attached)), [null]);
  for (const url of ['CID:i@d', 'cid:i%40d', 'Cid:%69@d'])
    t.strictSame(await ids(multi('mixed', html(`<img src="${url}">`), attached)), ['i@d'], url);
});

t.test('an invitation with an id, as many Java programs send it, is still an invitation', async (t) => {
  const calendar = 'Content-Type: text/calendar; method=REQUEST; charset=UTF-8\nContent-ID: calendar_message\n\nBEGIN';
  const { text, attachments } = await read(multi('alternative', 'Content-Type: text/plain\n\nhi', calendar));
  t.match(attachments, [{ contentId: null }]);
  const sent = String(await composed(message({ text, attachments })));
  t.match(sent, /^Content-Type: multipart\/alternative;/m);
  t.notMatch(sent, 'Content-Disposition');
});

t.test('a file keeps its type, with the parameters that may be sent', async (t) => {
  for (const [given, kept] of [
    ['application/pdf; title="two words"; version=1', 'application/pdf; title="two words"; version=1'],
    ['text/csv; header=present; name=a.csv; charset=utf-8', 'text/csv; header=present; charset=utf-8'],
    ['application/pdf; title="a \\"quoted\\" word"; version=1', 'application/pdf; version=1'],
    [
      `application/pdf${Array.from({ length: 20 }, (_, n) => `; x${n}=y`).join('')}`,
      'application/pdf; x0=y; x1=y; x2=y; x3=y; x4=y; x5=y; x6=y; x7=y',
    ],
    ['application/a{b', 'application/a{b'],
    ['application/a[b', 'application/octet-stream'],
  ] as const) {
    const { attachments } = await read(`Content-Type: ${given}\nContent-Disposition: attachment; filename=a\n\nx`);
    const [{ contentType, filename } = { contentType: '', filename: '' }] = attachments;
    t.equal(contentType, kept);
    t.equal(refuseAttachment({ contentType, filename, contentId: null }), null, contentType);
  }
});

t.test('a name without quotes may contain parentheses, and what follows a value is a comment', async (t) => {
  const names = async (disposition: string) =>
    (await read(`Content-Type: application/pdf\nContent-Disposition: ${disposition}\n\n%PDF`)).attachments[0]?.filename;
  const table: [disposition: string, name: string | undefined][] = [
    // 'attachment; filename= %s' % name
    ['attachment; filename= Report (1).pdf', 'Report (1).pdf'],
    ['attachment; filename=a (b (c)) d (e).pdf; size=1', 'a (b (c)) d (e).pdf'],
    ['attachment; filename=Report (1) (2).pdf', 'Report (1) (2).pdf'],
    ['attachment; filename=a.pdf (a comment)', 'a.pdf'],
    ['attachment; filename=a.pdf (one) (two) ; size=1', 'a.pdf'],
    ['attachment (one); (two) filename (three) = (four) a.pdf', 'a.pdf'],
    ['attachment; filename=a.pdf (not closed', 'a.pdf'],
  ];
  for (const [disposition, name] of table) t.equal(await names(disposition), name, disposition);
});

t.test('in quotes a semicolon or a parenthesis belongs to the name, and so does an escaped quote', async (t) => {
  const table: [disposition: string, name: string][] = [
    ['attachment; filename="Invoice; May (final).pdf"; size=1', 'Invoice; May (final).pdf'],
    ['attachment; filename="a \\"b; c\\" (d).pdf"; size=1', 'a "b; c" (d).pdf'],
  ];
  for (const [disposition, filename] of table)
    t.match(
      (await read(`Content-Type: application/pdf\nContent-Disposition: ${disposition}\n\n%PDF`)).attachments,
      [{ filename }],
      disposition,
    );
});

t.test('a file whose disposition has no name, or an empty one, is called as its type says', async (t) => {
  for (const disposition of ['attachment', 'attachment; filename=""', "attachment; filename*1*=utf-8''x"])
    t.match(
      (await read(`Content-Type: application/pdf; name=a.pdf\nContent-Disposition: ${disposition}\n\n%PDF`))
        .attachments,
      [{ filename: 'a.pdf' }],
      disposition,
    );
});

t.test('a type parameter that cannot be sent does not remove any other', async (t) => {
  const typeOf = async (type: string) =>
    (await read(`Content-Type: ${type}; name=x\nContent-Disposition: attachment\n\nx`)).attachments[0]?.contentType;
  t.equal(
    await typeOf('text/csv; charset=iso-8859-1; title="a \\"b\\""; header=present'),
    'text/csv; charset=iso-8859-1; header=present',
  );
  t.equal(
    await typeOf(`text/csv; charset=koi8-r${Array.from({ length: 12 }, (_, n) => `; x${n}=1`).join('')}`),
    'text/csv; charset=koi8-r; x0=1; x1=1; x2=1; x3=1; x4=1; x5=1; x6=1',
  );
});

t.test(
  'if the octets of a name are invalid in its charset, the plain name is used, and ASCII needs no charset',
  async (t) => {
    const of = (parameters: string) =>
      read(`Content-Type: application/pdf\nContent-Disposition: attachment; ${parameters}\n\n%PDF`);
    for (const [parameters, filename] of [
      ["filename*=UTF-8''%E4.pdf; filename=a.pdf", 'a.pdf'],
      ['filename="=?utf-8?Q?=C3=A4?=.pdf"; filename*=x-none\'\'%E4.pdf', 'ä.pdf'],
      ["filename*=ansi-x3.4-1968''a%20b.pdf", 'a b.pdf'],
      ["filename*0*=x-none''a; filename*1=b.pdf", 'ab.pdf'],
    ] as const)
      t.match((await of(parameters)).attachments, [{ filename }], parameters);
    t.match((await of("filename*=UTF-8''%E4.pdf")).attachments, [{ filename: '\ufffd.pdf' }], 'as in a text');
    await t.rejects(of("filename*=x-none''%E4.pdf"), {
      name: 'MimeError',
      message: /^a parameter is in an unknown charset/,
    });
    // mutt 1.3
    const { text } = await read("Content-Type: text/plain; charset*=ansi-x3.4-1968''us-ascii\n\nx\n");
    t.equal(text, 'x');
  },
);
