import { isGuessable } from '../crypto/password.ts';

/** Parsers for the secrets among the variables, in the way of `values.ts`: they refuse what anybody could guess. */

const fewestCharacters = 32;

/** Words of samples and phrases; at random, one of them would turn up once in a million secrets. */
const sampleWords =
  /change[-_ ]?me|change[-_ ]?this|secret|passw|example|sample|default|placeholder|insecure|replace|your[-_ ]|sendwright|develop|testing/i;

export function password(text: string): string {
  if (text.length < 8 || text.length > 200) throw new Error('8 to 200 characters');
  if (isGuessable(text)) throw new Error('8 to 200 characters that are hard to guess');
  return text;
}

export function jwtSecret(text: string): string {
  const isGuessed = sampleWords.test(text) || isRepeated(text) || isRow(Buffer.from(text));
  if (text.length < fewestCharacters || new Set(text).size < 8 || isGuessed)
    throw new Error('at least 32 random characters, such as from openssl rand -hex 32');
  return text;
}

/** Of 32 random bytes about 30 are different, and some are no letters. */
const fewestBytes = 16;

export function encryptionKey(text: string): Buffer {
  const key = /^[0-9a-fA-F]{64}$/.test(text) ? Buffer.from(text, 'hex') : Buffer.from(text, 'base64');
  const isBase64 = key.toString('base64').replace(/={1,2}$/, '') === text.replace(/={1,2}$/, '');
  if (key.length !== 32 || !(text.length === 64 || isBase64))
    throw new Error('32 bytes as 64 hexadecimal digits or as base64');
  if (
    new Set(key).size < fewestBytes ||
    isRow(key) ||
    /^[ -~]*$/.test(key.toString('latin1')) ||
    sampleWords.test(text)
  )
    throw new Error('32 random bytes, such as from openssl rand -hex 32');
  return key;
}

/** The same sequence again and again, perhaps cut off at the end. */
function isRepeated(text: string): boolean {
  const period = (text + text).indexOf(text, 1);
  return period <= text.length / 2;
}

/** Mostly consecutive values, as in 0123456789abcdef. */
function isRow(bytes: Buffer): boolean {
  const steps = [...bytes].slice(1).map((byte, index) => Math.abs(byte - (bytes[index] ?? 0)));
  return steps.filter((step) => step <= 1).length > steps.length / 2;
}
