import { argon2Sync, randomBytes } from 'node:crypto';

const least = { memory: 8, passes: 1, parallelism: 1, tagLength: 32 };

/**
 * The hash of a password in the form that the service stores, after the least work that there is: how much, the service
 * reads from the hash. Its own take some 25 ms of a processor, and test/http/passwords.test.ts looks at them.
 */
export function quickHash(password: string): string {
  const nonce = randomBytes(16);
  const tag = argon2Sync('argon2id', { message: password, nonce, ...least });
  const [salt, hash] = [nonce, tag].map((bytes) => bytes.toString('base64').replace(/=+$/, ''));
  return `$argon2id$v=19$m=${least.memory},t=${least.passes},p=${least.parallelism}$${salt}$${hash}`;
}
