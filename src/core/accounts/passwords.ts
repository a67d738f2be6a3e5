import { hashPassword, isOwnAddress, verifyPassword } from '../../crypto/password.ts';
import type { Database } from '../../db/client.ts';
import { forbidden, invalidRequest } from '../../errors.ts';
import { Turns } from '../../pace/turns.ts';
import * as loginAttempts from './login-attempts.ts';

/** A hash takes 19 MiB and one of four threads, which signatures and look-ups need too. A full queue waits about a second. */
const hashing = new Turns(2, 50, 'checks of a password');

const notTheirs = () => forbidden('current_password is not the password of this user');

/**
 * Calls `verifyPassword` in turn.
 *
 * @throws ApiError 503 when too many are waiting
 */
export const check = (password: string, stored: string | null): Promise<boolean> =>
  hashing.take(() => verifyPassword(password, stored));

/** SQL: always later than the previous change, even if the clock goes back, because tokens name the time of the change. */
export const changedNow = `greatest(now(), password_changed_at + interval '1 ms')`;

/**
 * The hash of a password that is chosen for this user.
 *
 * @throws ApiError 400 that names `field` when it is the user's own address
 */
export async function hashFor(email: string, password: string, field = 'password'): Promise<string> {
  if (isOwnAddress(password, email)) throw invalidRequest(`${field}: is the address of the user`);
  return hashPassword(password);
}

/**
 * Gives a user a new password, which ends all existing logins, on all nodes.
 *
 * @returns the time of the change, which new tokens must name
 * @throws ApiError 403 when the current password is wrong, 400 when the new one is the user's address, 429 after ten wrong
 *   ones in 15 minutes, 503
 */
export async function change(
  db: Database,
  userId: string,
  passwords: { current: string; next: string },
): Promise<{ passwordChangedAt: Date }> {
  const subject = `password:${userId}` as const;
  const attempt = await loginAttempts.begin(db, [subject]);
  const { email, passwordHash, isRight } = await attempt.look(async () => {
    const known = await db.prisma.user.findUniqueOrThrow({ where: { id: userId } });
    return { ...known, isRight: await check(passwords.current, known.passwordHash) };
  });
  if (!isRight) throw notTheirs();
  await attempt.succeeded([subject]);
  const fresh = await hashing.take(() => hashFor(email, passwords.next, 'new_password'));
  const [changed] = await db.query<{ passwordChangedAt: Date }>({
    text: `UPDATE users SET password_hash = $3, password_changed_at = ${changedNow}
            WHERE id = $1 AND password_hash = $2 RETURNING password_changed_at AS "passwordChangedAt"`,
    values: [userId, passwordHash, fresh],
  });
  // Another call changed it in the meantime.
  if (!changed) throw notTheirs();
  return changed;
}
