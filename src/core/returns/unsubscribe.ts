import type { Database, Sql } from '../../db/client.ts';
import type { NamedRecipient } from '../../mail/token.ts';
import type { Reader } from '../../mail/unsubscribe-link.ts';
import type { Queue } from '../../queue.ts';
import { isErased } from './erased.ts';
import * as returns from './returns.ts';
import * as suppressions from './suppressions.ts';

/** Who asks for no more mail, and whose mail that is. */
export interface Subscription {
  /** The recipient. */
  address: string;
  /** The sender, as it stood in the email; null: the email is not kept any more. */
  from: string | null;
}

interface Found extends Subscription {
  accountId: string;
  /** Null: it is gone, or the recipient is not in it any more, as an erasure leaves it. */
  email: returns.ReturnedEmail | null;
}

/** An email that is kept says whose it is; of one that is gone the link does, if it names its reader. */
async function find(sql: Sql, named: NamedRecipient | Reader): Promise<Found | null> {
  const email = await returns.find(sql, named.emailId, null);
  const recipient = email?.recipients.find(({ position }) => position === named.position);
  if (email && recipient && !isErased(recipient.address))
    return { address: recipient.address, from: email.from, accountId: email.accountId, email };
  if (!('address' in named)) return null;
  const { accountId, address } = named;
  const [account] = await sql.query({ text: 'SELECT FROM accounts WHERE id = $1', values: [accountId] });
  return account ? { address, from: null, accountId, email: null } : null;
}

/** What a token speaks of; null when nothing is known of that any more. Changes nothing. */
export async function lookUp(db: Database, named: NamedRecipient | Reader): Promise<Subscription | null> {
  return find(db, named);
}

/**
 * Puts the recipient onto the account's suppression list: marketing mail is not sent to it any more. However often it
 * is asked for, and where the token names the reader for as long as there is the account; the event is told once for each
 * email, while that is kept.
 *
 * @returns null when nothing is known of what the token names any more
 */
export async function unsubscribe(
  db: Database,
  queue: Queue,
  named: NamedRecipient | Reader,
): Promise<Subscription | null> {
  const { found, calls } = await db.transaction(async (tx) => {
    await returns.keepFromErasure(tx, named.emailId);
    const found = await find(tx, named);
    if (!found) return { found: null, calls: 0 };
    const { address, accountId, email } = found;
    const heard = { kind: 'unsubscribe', classification: null, enhancedCode: null, diagnostic: null } as const;
    const { calls } = email
      ? await returns.record(tx, queue, email, [{ ...heard, address, suppress: null }])
      : { calls: 0 };
    // Each time: somebody may have been taken off the list since, and now asks again.
    await suppressions.addAll(tx, [{ accountId, address, reason: 'unsubscribe', emailId: email?.id ?? null }]);
    return { found, calls };
  });
  if (calls > 0) queue.webhooks.wake();
  return found;
}
