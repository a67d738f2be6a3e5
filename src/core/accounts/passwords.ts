import type { Database } from '../../db/client.ts';
import { forbidden } from '../../errors.ts';
import { hashPassword, verifyPassword } from '../../password.ts';
import { Turns } from '../../turns.ts';
import * as loginAttempts from './login-attempts.ts';

/** A hash takes a thread of four, which signatures and look-ups need as well, and 19 MiB. Those that wait do so for about a second. */
const hashing = new Turns(2, 50);

const notTheirs = () => forbidden('current_password is not the password of this user');

/**
 * As `verifyPassword`, when its turn comes.
 *
 * @throws ApiError 503 when too many are asked for at once
 */
export const check = (password: string, stored: string | null): Promise<boolean> =>
  hashing.take(() => verifyPassword(password, stored));

/** SQL: each change is another time, whatever the clock does, as tokens from before name the one before. */
export const changedNow = `greatest(now(), password_changed_at + interval '1 ms')`;

/**
 * Gives a user another password, which ends every login that there is, on all nodes.
 *
 * @returns when it was changed, which tokens from now on name
 * @throws ApiError 403 when the current one is another, 429 after ten of those in 15 minutes, 503
 */
export async function change(
  db: Database,
  userId: string,
  passwords: { current: string; next: string },
): Promise<{ passwordChangedAt: Date }> {
  const subject = `password:${userId}` as const;
  const attempt = await loginAttempts.begin(db, [subject]);
  const { passwordHash, isRight } = await attempt.look(async () => {
    const known = await db.prisma.user.findUniqueOrThrow({ where: { id: userId } });
    return { ...known, isRight: await check(passwords.current, known.passwordHash) };
  });
  if (!isRight) throw notTheirs();
  await attempt.succeeded([subject]);
  const fresh = await hashing.take(() => hashPassword(passwords.next));
  const [changed] = await db.query<{ passwordChangedAt: Date }>({
    text: `UPDATE users SET password_hash = $3, password_changed_at = ${changedNow}
            WHERE id = $1 AND password_hash = $2 RETURNING password_changed_at AS "passwordChangedAt"`,
    values: [userId, passwordHash, fresh],
  });
  // Somebody else has just changed it.
  if (!changed) throw notTheirs();
  return changed;
}
