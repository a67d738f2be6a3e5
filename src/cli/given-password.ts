import { z } from 'zod';
import { password } from '../http/validation.ts';
import { newPassword } from '../password.ts';
import type { Given } from './command.ts';
import { contentOf, isSet, read } from './given.ts';

/** What a user is to log in with. */
export interface GivenPassword {
  value: string;
  /** It was made here, so that nobody knows it yet. */
  isMade: boolean;
}

/** The password from the standard input, where `--password-stdin` says so, or one that is made. @throws Misuse */
export async function passwordFrom(given: Given): Promise<GivenPassword> {
  if (!isSet(given, 'password-stdin')) return { value: newPassword(), isMade: true };
  const value = (await contentOf(given, '-')).replace(/\r?\n$/, '');
  return { value: read(z.object({ password }), { password: value }).password, isMade: false };
}

/** For programs: one that was made, and is shown this once. */
export const shownOnce = ({ value, isMade }: GivenPassword) => (isMade ? { password: value } : {});

/** The same for people. */
export const canLogIn = (email: string, { value, isMade }: GivenPassword): string =>
  `${email} can log in${isMade ? ` with ${value} (shown only once)` : ''}.`;
