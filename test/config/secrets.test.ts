import t from 'tap';
import { encryptionKey, jwtSecret, password } from '../../src/config/secrets.ts';
import { testKey } from '../support/keys.ts';

const refuses = (parse: (text: string) => unknown, text: string) => {
  try {
    parse(text);
    return false;
  } catch {
    return true;
  }
};

t.test('AUTH-05: a secret from an example, or one that anybody could guess, is refused', async (t) => {
  const secrets = [
    'change-me-change-me-change-me-change-me',
    'changeme_9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c',
    'please-change-this-to-something-9f8a7b6c',
    'your-256-bit-secret-goes-right-here-ok',
    'supersecretjwtkeythatislongenoughforall',
    'My-Passw0rd-9f8a7b6c5d4e3f2a1b0c9d8e7f6',
    '<openssl rand -hex 32> replace this, please',
    'sendwright-2026-9f8a7b6c5d4e3f2a1b0c9d8e',
    'abcdefghijklmnopqrstuvwxyz0123456789',
    '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef',
    'deadbeefdeadbeefdeadbeefdeadbeefdeadbeefdeadbeef',
    '9f8a7b6c5d4e3f2a1b0c'.repeat(3),
    'aabbccddaabbccddaabbccddaabbccdd',
    'k7Qz'.repeat(7),
    testKey(1).toString('hex').slice(0, 31),
  ];
  for (const text of secrets) t.ok(refuses(jwtSecret, text), text);
  const keys = [
    '00'.repeat(32),
    'ff'.repeat(32),
    '0123456789abcdef'.repeat(4),
    'deadbeef'.repeat(8),
    Buffer.from(Array.from({ length: 32 }, (_, index) => index)).toString('hex'),
    Buffer.from('a 32 byte phrase, not random hm!').toString('base64'),
    Buffer.from('a 32 byte phrase, not random hm!').toString('hex'),
    `${'changeme'.repeat(5)}chc=`,
  ];
  for (const text of keys) t.ok(refuses(encryptionKey, text), text);
  for (const text of ['changeme', 'Password1', '12345678', 'aaaaaaaaaaaa', 'admin123', 'short'])
    t.ok(refuses(password, text), text);
});

t.test('AUTH-05: generated secrets are accepted', async (t) => {
  for (let round = 0; round < 2_000; round += 1) {
    // The same each time: one random secret in a million contains a word that samples have.
    const bytes = testKey(round);
    for (const text of [bytes.toString('hex'), bytes.toString('base64'), bytes.subarray(0, 24).toString('base64url')])
      if (refuses(jwtSecret, text)) t.fail(`JWT_SECRET ${text}`);
    for (const text of [bytes.toString('hex'), bytes.toString('base64')])
      if (refuses(encryptionKey, text)) t.fail(`ENCRYPTION_KEY ${text}`);
  }
  for (const text of ['correct horse battery staple', 'long enough', 'Tr0ub4dor&3'])
    t.notOk(refuses(password, text), text);
});
