import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { newId } from '../../src/ids.ts';
import {
  createReturnPath,
  createUnsubscribeAddress,
  createUnsubscribeToken,
  parseReturnPath,
  parseUnsubscribeAddress,
  parseUnsubscribeToken,
} from '../../src/mail/links/token.ts';

const key = Buffer.alloc(32, 7);
const host = 'mail.example.com';

t.test('a return path identifies its email', async (t) => {
  const id = newId();
  const address = createReturnPath(key, id, host);
  t.match(address, /^bounces\+[a-z2-7]{42}@mail\.example\.com$/);
  t.ok(address.indexOf('@') <= 64);
  const named = { emailId: id, recipient: null };
  t.strictSame(parseReturnPath(key, address, host), named);
  t.strictSame(parseReturnPath(key, address.toUpperCase(), host), named);
  t.strictSame(parseReturnPath(key, address, 'Mail.Example.com'), named);
  t.equal(createReturnPath(key, id.toUpperCase(), host), address);
});

t.test('a token stays the same from one release to the next', async (t) => {
  // Computed independently, with Python's base64.b32encode and hmac.
  const address = createReturnPath(key, '0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001', host);
  t.equal(address, 'bounces+agikvkv3xn6mzdo553xp77yaagi7tlvkjfiutzes4u@mail.example.com');
});

t.test('a forged, truncated or foreign token is not accepted', async (t) => {
  const id = newId();
  const address = createReturnPath(key, id, host);
  const token = address.slice('bounces+'.length, address.indexOf('@'));
  for (const text of [
    createReturnPath(randomBytes(32), id, host),
    createReturnPath(key, id, 'other.example.com'),
    `bounces+${token.slice(0, -1)}@${host}`,
    `bounces+${token}a@${host}`,
    `bounces+${token}@${host}.evil.example`,
    `bounces+${token}@${host}@evil.example`,
    `bounces+${token}@`,
    `bounces+${token}`,
    `<${address}>`,
    ` ${address}`,
    `${address}\r\n`,
    `bounce+${token}@${host}`,
    `bounces-${token}@${host}`,
    `bounces+@${host}`,
    `bounces+${'1'.repeat(42)}@${host}`,
    '',
    '@',
    'x'.repeat(100_000),
    createReturnPath(key, id, 'k.example').replace('@k', '@\u212a'),
  ]) {
    t.equal(parseReturnPath(key, text, text.includes('\u212a') ? 'k.example' : host), null, text.slice(0, 100));
  }
  for (let i = 0; i < token.length; i++) {
    for (const other of 'abcdefghijklmnopqrstuvwxyz234567') {
      if (token[i] === other) continue;
      const changed = `bounces+${token.slice(0, i)}${other}${token.slice(i + 1)}@${host}`;
      if (parseReturnPath(key, changed, host) !== null) t.fail(`character ${i} as ${other}`);
    }
  }
  t.throws(() => createReturnPath(key, 'not-a-uuid', host));
});

t.test('for any id and key', async (t) => {
  const property = fc.property(fc.uuid(), fc.uint8Array({ minLength: 1, maxLength: 64 }), (id, secret) => {
    t.equal(parseReturnPath(Buffer.from(secret), createReturnPath(Buffer.from(secret), id, host), host)?.emailId, id);
  });
  fc.assert(property, { numRuns: 300 });
});

t.test('a return path identifies one recipient, and says whether there were others', async (t) => {
  const emailId = newId();
  for (const position of [0, 1, 99, 127]) {
    for (const alone of [true, false]) {
      const address = createReturnPath(key, emailId, host, { position, alone });
      t.ok(address.indexOf('@') <= 64, 'as long as a local part may be');
      const named = { emailId, recipient: { position, alone } };
      t.strictSame(parseReturnPath(key, address, host), named);
      t.strictSame(parseReturnPath(key, address.toUpperCase(), host), named);
    }
  }
  for (const position of [-1, 128, 0.5, Number.NaN])
    t.throws(() => createReturnPath(key, emailId, host, { position, alone: true }), String(position));
});

t.test('AUTH: a token for one purpose is invalid for another', async (t) => {
  const named = { emailId: newId(), position: 3 };
  const token = createUnsubscribeToken(key, named);
  t.strictSame(parseUnsubscribeToken(key, token), named);
  t.strictSame(parseUnsubscribeToken(key, token.toUpperCase()), named);
  const address = createUnsubscribeAddress(key, named, host);
  t.strictSame(parseUnsubscribeAddress(key, address, host), named);
  t.equal(parseReturnPath(key, `bounces+${token}@${host}`, host), null);
  const bounces = createReturnPath(key, named.emailId, host, { position: 3, alone: true });
  t.equal(parseUnsubscribeToken(key, bounces.slice('bounces+'.length, bounces.indexOf('@'))), null);
  t.equal(parseUnsubscribeAddress(key, bounces.replace('bounces', 'unsubscribe'), host), null);
  t.equal(parseUnsubscribeAddress(key, address, 'other.example.com'), null);
  t.equal(parseUnsubscribeToken(randomBytes(32), token), null);
  for (let i = 0; i < token.length; i++) {
    const changed = `${token.slice(0, i)}${token[i] === 'a' ? 'b' : 'a'}${token.slice(i + 1)}`;
    t.equal(parseUnsubscribeToken(key, changed), null, `character ${i}`);
  }
  for (const text of ['', token.slice(1), `${token}a`, `${token} `, '\u212a'.repeat(44)])
    t.equal(parseUnsubscribeToken(key, text), null);
});
