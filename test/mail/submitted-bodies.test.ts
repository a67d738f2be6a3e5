import MailComposer from 'nodemailer/lib/mail-composer';
import t from 'tap';
import { readSubmission } from '../../src/mail/submission/submission.ts';

const read = async (content: string) => {
  const bytes = Buffer.from(`From: a@b.test\r\nSubject: s\r\n${content.replaceAll('\n', '\r\n')}`);
  const { html, text, attachments } = await readSubmission(bytes);
  return { html, text, files: attachments.map(({ filename }) => filename) };
};
let boundaries = 0;
const multi = (kind: string, ...parts: string[]) => {
  const boundary = `b${++boundaries}`;
  return `Content-Type: multipart/${kind}; boundary=${boundary}\n\n${parts.map((part) => `--${boundary}\n${part}\n`).join('')}--${boundary}--\n`;
};
const plain = (text: string, more = '') => `Content-Type: text/plain${more}\n\n${text}`;
const html = (text: string, more = '') => `Content-Type: text/html${more}\n\n${text}`;
const pdf = 'Content-Type: application/pdf; name=a.pdf\n\n%PDF';
const pre = (text: string) => `<pre style="font: inherit; white-space: pre-wrap">\n${text}</pre>`;

t.test('successive parts are shown to readers of either kind', async (t) => {
  const letter = multi('alternative', plain('Hello'), html('<p>Hello</p>'));
  const cases: [what: string, content: string, shown: { html: string | null; text: string | null }][] = [
    ['two texts', multi('mixed', plain('one'), pdf, plain('two')), { html: null, text: 'one\ntwo' }],
    [
      'a text, and HTML added by a gateway',
      multi('mixed', plain('The <letter> & itself.'), html('<p>Disclaimer<br>of the gateway</p>')),
      {
        html: `${pre('The &lt;letter&gt; &amp; itself.')}\n<p>Disclaimer<br>of the gateway</p>`,
        text: 'The <letter> & itself.\nDisclaimer\nof the gateway',
      },
    ],
    [
      "alternatives, and a mailing list's footer",
      multi('mixed', letter, plain('-- \n<https://list.example/>')),
      {
        html: `<p>Hello</p>\n${pre('-- \n&lt;https://list.example/&gt;')}`,
        text: 'Hello\n-- \n<https://list.example/>',
      },
    ],
    [
      "HTML only, and a mailing list's footer",
      multi('mixed', html('<p>Hello</p>'), plain('footer')),
      { html: `<p>Hello</p>\n${pre('footer')}`, text: 'Hello\nfooter' },
    ],
    [
      'a text, and HTML with words that are not shown',
      multi('mixed', plain('one'), html('<title>t</title><STYLE>p{}</STYLE ><p>two</p>')),
      { html: `${pre('one')}\n<title>t</title><STYLE>p{}</STYLE ><p>two</p>`, text: 'one\ntwo' },
    ],
    [
      'a text, and HTML with comments, also those that only some programs read',
      multi(
        'mixed',
        plain('one'),
        html(
          '<!-- <p>old</p> --><!--[if mso]><p>for Outlook</p><![endif]--><!--[if !mso]><!--><p>two</p><!--<![endif]--> <!-- 3',
        ),
      ),
      {
        html: `${pre('one')}\n<!-- <p>old</p> --><!--[if mso]><p>for Outlook</p><![endif]--><!--[if !mso]><!--><p>two</p><!--<![endif]--> <!-- 3`,
        text: 'one\ntwo\n<!-- 3',
      },
    ],
    [
      'a text, and HTML with characters given by number',
      multi('mixed', plain('one'), html('<p>Don&#x27;t&#39; &#x1F600;&#128512; &amp;#65; &#xd800;&#1114112;x</p>')),
      {
        html: `${pre('one')}\n<p>Don&#x27;t&#39; &#x1F600;&#128512; &amp;#65; &#xd800;&#1114112;x</p>`,
        text: "one\nDon't' 😀😀 &#65; x",
      },
    ],
    [
      'a text, and HTML whose letters grow in lower case',
      multi('mixed', plain('one'), html('<title>İNDİRİM İÇİN</title><style>p{}</style><p>Merhaba</p>')),
      {
        html: `${pre('one')}\n<title>İNDİRİM İÇİN</title><style>p{}</style><p>Merhaba</p>`,
        text: 'one\nMerhaba',
      },
    ],
    [
      'HTML around a file',
      multi('alternative', plain('both'), multi('mixed', html('<p>one'), pdf, html('<p>two'))),
      { html: '<p>one\n<p>two', text: 'both' },
    ],
    [
      'HTML, and the empty text after a file',
      multi('mixed', html('<p>x'), pdf, plain('\n')),
      { html: '<p>x', text: null },
    ],
    [
      'alternatives within related within mixed',
      multi('mixed', multi('related', letter, 'Content-Type: image/png\n\nx'), html('<hr>'), plain('end')),
      { html: `<p>Hello</p>\n<hr>\n${pre('end')}`, text: 'Hello\n\nend' },
    ],
  ];
  for (const [what, content, shown] of cases) {
    const { files, ...bodies } = await read(content);
    t.strictSame(bodies, shown, what);
  }
  const long = await read(multi('mixed', plain('Hello'), html(`<p>${'x'.repeat(1_000_001)}`)));
  t.equal(long.text, null, 'a text that would say less than the HTML is left out');
  t.equal(long.html?.slice(0, 80), `${pre('Hello')}\n<p>xxx`.padEnd(80, 'x'));
});

t.test('the last alternative that a reader can show counts (RFC 2046 section 5.1.4)', async (t) => {
  const cases: [content: string, shown: { html: string | null; text: string | null }][] = [
    [multi('alternative', plain('t'), html('<p>1'), html('<p>2')), { html: '<p>2', text: 't' }],
    [multi('alternative', plain('1'), plain('2')), { html: null, text: '2' }],
    [multi('alternative', html('<p>'), plain('t')), { html: '<p>', text: 't' }],
    [
      multi('alternative', plain('letter'), multi('mixed', html('<p>letter'), plain('footer'))),
      { html: `<p>letter\n${pre('footer')}`, text: 'letter' },
    ],
    [multi('alternative', multi('mixed', html('<p>1'), plain('f')), html('<p>2')), { html: '<p>2', text: '1\nf' }],
    [
      multi('alternative', multi('alternative', plain('t'), html('<p>1')), multi('related', html('<p>2'))),
      { html: '<p>2', text: 't' },
    ],
  ];
  for (const [content, shown] of cases) {
    const { files, ...bodies } = await read(content);
    t.strictSame(bodies, shown, content);
    t.strictSame(files, []);
  }
});

t.test('alternatives for a few mail programs only are not files', async (t) => {
  const amp = 'Content-Type: text/x-amp-html; charset=utf-8\n\n<html amp4email>';
  const watch = 'Content-Type: text/watch-html\n\n<b>short</b>';
  const both = { html: '<p>', text: 't' };
  t.strictSame(await read(multi('alternative', plain('t'), watch, amp, html('<p>'))), { ...both, files: [] });
  // As nodemailer writes them.
  const mail = { text: 't', html: '<p>', watchHtml: '<b>', amp: '<html amp4email>' };
  for (const fields of [mail, { ...mail, attachments: [{ filename: 'a.bin', content: 'x' }] }]) {
    const message = await new MailComposer({ from: 'a@b.test', ...fields, newline: '\r\n' }).compile().build();
    const { html: shown, text, attachments } = await readSubmission(message);
    t.strictSame(
      [shown, text, attachments.map(({ filename }) => filename)],
      ['<p>', 't', 'attachments' in fields ? ['a.bin'] : []],
    );
  }
  const asFile = `${amp.replace('\n\n', '\nContent-Disposition: attachment; filename=a.html\n\n')}`;
  t.strictSame(await read(multi('alternative', html('<p>'), asFile)), { html: '<p>', text: null, files: ['a.html'] });
  t.strictSame((await read(multi('alternative', amp))).files.length, 1, 'it stays if it is the only part');
  t.strictSame((await read(multi('mixed', html('<p>'), amp))).files.length, 1);
});

t.test('the body of a message may have a name', async (t) => {
  const inline = (name: string) => `\nContent-Disposition: inline; filename=${name}`;
  const cases: [content: string, shown: Awaited<ReturnType<typeof read>>][] = [
    [plain('x\n', '; name="body.txt"'), { html: null, text: 'x', files: [] }],
    [plain('x\n', inline('""')), { html: null, text: 'x', files: [] }],
    [html('<p>\n', inline('mail.html')), { html: '<p>', text: null, files: [] }],
    [plain('x\n', '; name=a.txt\nContent-Disposition: attachment'), { html: null, text: null, files: ['a.txt'] }],
    [
      multi('mixed', plain('x', '; name=body.txt'), plain('log', '; name=log.txt'), plain('end', inline('""'))),
      { html: null, text: 'x\nend', files: ['log.txt'] },
    ],
    [
      multi('alternative', plain('x', '; name=body.txt'), html('<p>', '; name=body.html')),
      { html: '<p>', text: 'x', files: [] },
    ],
    [
      multi('mixed', multi('alternative', plain('x'), html('<p>')), html('<p>report', '; name=report.html')),
      { html: '<p>', text: 'x', files: ['report.html'] },
    ],
    [
      multi('mixed', pdf, plain('x', '; name=body.txt'), html('<p>', '; name=report.html')),
      { html: null, text: 'x', files: ['a.pdf', 'report.html'] },
    ],
  ];
  for (const [content, shown] of cases) t.strictSame(await read(content), shown, content);
});
