import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { AddressError, normalizeDomain } from '../../mail/address/address.ts';
import { grouped } from '../../numbers.ts';
import { oneLine, StartError } from '../../process/start-error.ts';
import { type Provider, wellKnown } from './providers.ts';

const largestBytes = 1024 * 1024;

const whole = (most: number) =>
  z
    .int('must be a whole number')
    .min(1, 'must be 1 or more')
    .max(most, `must be at most ${grouped(most)}`);

const mxEnd = z.string('must be a string').transform((value, context) => {
  try {
    return normalizeDomain(value);
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    context.addIssue(error.message);
    return z.NEVER;
  }
});

const provider = z
  .strictObject({
    name: z.string('must be a string').regex(/^[\x20-\x7e]{1,100}$/, 'must have 1 to 100 printable ASCII characters'),
    mx: z.array(mxEnd, 'must be an array of ends of MX host names').min(1, 'must not be empty').max(100),
    connections: whole(1_000),
    per_minute: whole(1_000_000).nullable().default(null),
    messages_per_connection: whole(10_000).nullable().default(null),
  })
  .transform(
    ({ per_minute: perMinute, messages_per_connection: perConnection, ...rest }): Provider => ({
      ...rest,
      perMinute,
      perConnection,
    }),
  );

const file = z.array(provider, 'must be an array').max(10_000, 'must have at most 10,000 entries');

/**
 * Reads an operator's providers, which go before the well-known ones: a JSON array of objects with `name`, `mx` (ends of MX
 * host names), `connections`, and optionally `per_minute` and `messages_per_connection`.
 *
 * @param path null: only the well-known providers
 * @throws StartError naming the file, the entry and what it must be
 */
export async function readProviders(path: string | null): Promise<readonly Provider[]> {
  if (path === null) return wellKnown;
  const wrong = (what: string) => new StartError(`PROVIDERS_FILE ${path} ${what}`);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw wrong(`cannot be read (${(error as Error).message}): set it to a JSON file that this user can read`);
  }
  if (text.length > largestBytes) throw wrong('is larger than 1 MB');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw wrong(`is not JSON (${oneLine((error as Error).message)})`);
  }
  const result = file.safeParse(value);
  if (result.success) return [...result.data, ...wellKnown];
  const issue = result.error.issues[0];
  const at = (issue?.path ?? []).map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`)).join('');
  const unknown = issue?.code === 'unrecognized_keys' ? `${issue.keys[0]} is not known` : issue?.message;
  throw wrong(`is wrong${at ? ` at ${at}` : ''}: ${unknown}`);
}
