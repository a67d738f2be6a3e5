import t from 'tap';
import { refuseAttachment, withoutPath } from '../../src/mail/compose/attachments.ts';
import { isLinear, least } from '../support/linear.ts';
import { harmless, refused, show } from './payloads.ts';

const good = { filename: 'a.txt', contentType: 'text/plain', contentId: null };

t.test('types and names that an attachment may have', async (t) => {
  t.equal(refuseAttachment(good), null);
  for (const filename of ['ünï 字 🚀.pdf', '../../etc/passwd', 'C:\\x', '...', '__proto__', 'x'.repeat(255)]) {
    t.equal(refuseAttachment({ ...good, filename }), null, show(filename));
  }
  for (const filename of harmless)
    t.equal(refuseAttachment({ ...good, filename }) === null, !filename.includes('\u202e'), show(filename));
  for (const contentType of [
    'a/b',
    'image/svg+xml',
    'text/plain; charset=utf-8',
    'text/plain;charset="utf-8"; x=y',
    'message/rfc822',
  ]) {
    t.equal(refuseAttachment({ ...good, contentType }), null, contentType);
  }
  for (const contentId of ['logo', 'logo@x.example', '0190aaaa-bbbb.1_2'])
    t.equal(refuseAttachment({ ...good, contentId }), null, contentId);
});

t.test('and those it may not have', async (t) => {
  for (const filename of ['', 'x'.repeat(256), 'a\u202egpj.exe', ...refused])
    t.match(refuseAttachment({ ...good, filename }), { member: 'filename', reason: /^(is|contains) / }, show(filename));
  for (const contentType of [
    ...[
      '',
      'text',
      'text/',
      '/plain',
      'text/plain;',
      'text/plain; charset',
      'a b/c',
      'a/b; x="',
      'a/b; x="\r\n"',
      'a/b\r\nX-Evil: 1',
      'ä/b',
      'a/b/c',
    ],
    ...[
      'multipart/mixed',
      'Multipart/mixed; boundary=x',
      `a/${'b'.repeat(128)}`,
      'a/b; x=(c)',
      `a/b${'; x=y'.repeat(2000)}`,
    ],
  ]) {
    t.match(
      refuseAttachment({ ...good, contentType }),
      { member: 'content_type', reason: /^must (not )?be a / },
      show(contentType),
    );
  }
  for (const contentId of ['', '<logo>', 'a b', 'a\r\nX: y', 'ü', 'a"b', 'x'.repeat(201)])
    t.match(
      refuseAttachment({ ...good, contentId }),
      { member: 'content_id', reason: /^must have 1 to 200 characters: / },
      show(contentId),
    );
  for (const unit of ['a', ';', '"', '; x=y', '; x="', '/'])
    await isLinear(t, unit, `a/b${unit.repeat(60_000)}`, (contentType) => refuseAttachment({ ...good, contentType }));
});

t.test('DOS-06: nested encoded-words are not decoded endlessly', async (t) => {
  t.equal(withoutPath('=?utf-8?Q?=3D=3Futf-8=3FQ=3Fa=3D2Fb.txt=3F=3D?='), 'b.txt');
  const nested = `=?u?Q?${'=3D=3Fu=3FQ=3F?='.repeat(8_000)}`;
  t.equal(withoutPath(nested), '');
  t.ok((await least(() => withoutPath(nested), 250)) < 250);
});
