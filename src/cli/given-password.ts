import { z } from 'zod';
import { newPassword } from '../crypto/password.ts';
import { password } from '../http/input/validation.ts';
import type { Given } from './command.ts';
import { contentOf, isSet, read } from './given.ts';

/** The password of a new user, or the new password of a user. */
export interface GivenPassword {
  value: string;
  /** It was generated, so the output must show it. */
  isGenerated: boolean;
}

/** Reads the password from standard input with `--password-stdin`, and generates one without. @throws Misuse */
export async function passwordFrom(given: Given): Promise<GivenPassword> {
  if (!isSet(given, 'password-stdin')) return { value: newPassword(), isGenerated: true };
  const value = (await contentOf(given, '-')).replace(/\r?\n$/, '');
  return { value: read(z.object({ password }), { password: value }).password, isGenerated: false };
}

/** For programs: a generated password, which is shown only this once. */
export const shownOnce = ({ value, isGenerated }: GivenPassword) => (isGenerated ? { password: value } : {});

/** The same for people. */
export const canLogIn = (email: string, { value, isGenerated }: GivenPassword): string =>
  `${email} can log in${isGenerated ? ` with ${value} (shown only once)` : ''}.`;
