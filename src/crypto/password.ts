import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

const hash = promisify(argon2);

/** OWASP's parameters for argon2id: 19 MiB, two passes. */
const parameters = { memory: 19_456, passes: 2, parallelism: 1, tagLength: 32 };

/** argon2id as a PHC string, in the thread pool. */
export async function hashPassword(password: string): Promise<string> {
  const nonce = randomBytes(16);
  const tag = await hash('argon2id', { message: password, nonce, ...parameters });
  const { memory, passes, parallelism } = parameters;
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(nonce)}$${base64(tag)}`;
}

/**
 * Whether the password matches the stored hash. Without a hash (an unknown user) it does the same work and returns false,
 * so that the answer takes as long.
 */
export async function verifyPassword(password: string, stored: string | null): Promise<boolean> {
  const match = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([^$]+)\$([^$]+)$/.exec(stored ?? '');
  if (!match) {
    await hash('argon2id', { message: password, nonce: Buffer.alloc(16), ...parameters });
    return false;
  }
  const [, memory, passes, parallelism, nonce = '', expected = ''] = match;
  const tag = Buffer.from(expected, 'base64');
  const found = await hash('argon2id', {
    message: password,
    nonce: Buffer.from(nonce, 'base64'),
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    tagLength: tag.length,
  });
  return timingSafeEqual(found, tag);
}

/** A first password, which somebody is told once: 96 random bits, as letters, digits, - and _. */
export const newPassword = (): string => randomBytes(12).toString('base64url');

const base64 = (bytes: Buffer) => bytes.toString('base64').replace(/={1,2}$/, '');

/** Passwords that people commonly choose, and that attackers try first. */
const commonPasswords = new Set(
  `password password1 password12 password123 password1234 passw0rd p@ssw0rd changeme changeme1 change-me change_me
   changeit letmein1 welcome1 admin123 admin1234 adminadmin administrator rootroot 12345678 123456789 1234567890 11111111
   00000000 88888888 87654321 987654321 qwertyui qwertyuiop qwerty12 qwerty123 asdfghjk abcdefgh abcd1234 abc12345 iloveyou
   sunshine princess football baseball superman trustno1 secret12 secret123 secretsecret example1 sample12 default1
   sendwright sendwright1 sendwright123 postmaster`.split(/\s+/),
);

/** Whether it is one of those that are tried first, in upper or lower case, or hardly more than one character repeated. */
export const isGuessable = (password: string): boolean =>
  commonPasswords.has(password.toLowerCase()) || new Set(password).size < 3;

/** Whether it is the user's own address, which anybody would try first. */
export const isOwnAddress = (password: string, email: string): boolean =>
  password.toLowerCase() === email.toLowerCase();
