import { randomBytes } from 'node:crypto';
import t from 'tap';
import { newId } from '../../src/ids.ts';
import { createUnsubscribeToken } from '../../src/mail/links/token.ts';
import { openReader, parseUnsubscribeLink, sealReader } from '../../src/mail/links/unsubscribe-link.ts';

const key = randomBytes(32);
const reader = { accountId: newId(), emailId: newId(), position: 49, address: 'Jane.Roe+news@example.com' };

t.test('a link says who it is for, but only to us', async (t) => {
  const text = sealReader(key, reader);
  t.match(text, /^[\w-]+$/);
  t.strictSame(openReader(key, text), reader);
  t.equal(sealReader(key, reader), text, 'the same email has the same bytes each time');
  t.notMatch(Buffer.from(text, 'base64url').toString('latin1'), /jane|example/i);
  const another = sealReader(key, { ...reader, address: 'Jane.Roe+news@example.net' });
  const sealed = (link: string) => Buffer.from(link, 'base64url').subarray(28);
  t.equal(sealed(another).length, sealed(text).length);
  t.not(sealed(another).toString('hex', 0, 33), sealed(text).toString('hex', 0, 33), 'no two share a key stream');
});

t.test('any address fits in a header line', async (t) => {
  const address = `${'ü'.repeat(32)}@${'x'.repeat(63)}.${'y'.repeat(63)}.${'z'.repeat(63)}.${'w'.repeat(61)}`;
  const text = sealReader(key, { ...reader, address });
  t.strictSame(openReader(key, text), { ...reader, address });
  t.ok(text.length < 600, `${text.length} characters`);
});

t.test('AUTH: nobody else can make a link, and a token for another purpose is no link', async (t) => {
  const text = sealReader(key, reader);
  t.equal(openReader(randomBytes(32), text), null);
  for (let i = 0; i < text.length; i++) {
    const changed = `${text.slice(0, i)}${text[i] === 'a' ? 'b' : 'a'}${text.slice(i + 1)}`;
    t.equal(openReader(key, changed), null, `character ${i}`);
  }
  const fewBytes = Buffer.alloc(60).toString('base64url');
  for (const wrong of [
    '',
    'a',
    text.slice(1),
    text.slice(0, -1),
    `${text}a`,
    `${text}=`,
    `${text} `,
    'é',
    fewBytes,
    'a'.repeat(5_000),
  ])
    t.equal(parseUnsubscribeLink(key, wrong), null, wrong.slice(0, 20));
});

t.test('links of older releases are still valid', async (t) => {
  const { emailId, position } = reader;
  const text = createUnsubscribeToken(key, { emailId, position });
  t.strictSame(parseUnsubscribeLink(key, text), { emailId, position });
  t.strictSame(parseUnsubscribeLink(key, text.toUpperCase()), { emailId, position });
  t.strictSame(parseUnsubscribeLink(key, sealReader(key, reader)), reader);
});
