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
 * Whether the password belongs to the stored hash. Without a hash (an unknown user) it does the same work and says no,
 * so that the answer takes as long.
 */
export async function verifyPassword(password: string, stored: string | null): Promise<boolean> {
  const match = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([^$]+)\$([^$]+)$/.exec(stored ?? '');
  if (!match) {
    await hash('argon2id', { message: password, nonce: Buffer.alloc(16), ...parameters });
    return false;
  }
  const [, memory, passes, parallelism, nonce, expected] = match as unknown as [
    string,
    string,
    string,
    string,
    string,
    string,
  ];
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

const base64 = (bytes: Buffer) => bytes.toString('base64').replace(/={1,2}$/, '');
