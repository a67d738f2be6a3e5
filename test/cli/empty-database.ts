import { randomBytes } from 'node:crypto';
import { administer, urlFor } from '../support/start.ts';

/** An empty database of the test's own, as an operator has it before the first start. */
export async function createEmptyDatabase(): Promise<string> {
  const database = `e_${randomBytes(6).toString('hex')}`;
  await administer([`CREATE DATABASE ${database}`]);
  return urlFor({ database });
}
