import type { Database } from '../db/client.ts';
import type { NamedRecipient } from '../mail/token.ts';
import type { Queue } from '../queue.ts';
import { isErased } from './erased.ts';
import * as returns from './returns.ts';
import * as suppressions from './suppressions.ts';

/** Who asks for no more mail, and whose mail that is. */
export interface Subscription {
  /** The recipient. */
  address: string;
  /** The sender, as it stood in the email. */
  from: string;
}

/** Null when the email or the recipient is gone, or was erased. */
function recipientOf(email: returns.ReturnedEmail | null, named: NamedRecipient): { address: string } | null {
  const recipient = email?.recipients.find(({ position }) => position === named.position);
  return recipient && !isErased(recipient.address) ? recipient : null;
}

/** What a token speaks of; null when the email or the recipient is gone. Changes nothing. */
export async function lookUp(db: Database, named: NamedRecipient): Promise<Subscription | null> {
  const email = await returns.find(db, named.emailId, null);
  const recipient = recipientOf(email, named);
  return email && recipient ? { address: recipient.address, from: email.from } : null;
}

/**
 * Puts the recipient onto the account's suppression list: marketing mail is not sent to it any more. However often it
 * is asked for, for as long as the email is kept; the event is told once for each email.
 *
 * @returns null when the email or the recipient is gone
 */
export async function unsubscribe(db: Database, queue: Queue, named: NamedRecipient): Promise<Subscription | null> {
  const { found, calls } = await db.transaction(async (tx) => {
    const email = await returns.find(tx, named.emailId, null);
    const recipient = recipientOf(email, named);
    if (!email || !recipient) return { found: null, calls: 0 };
    const { address } = recipient;
    const { calls } = await returns.record(tx, queue, email, [
      { address, kind: 'unsubscribe', classification: null, enhancedCode: null, diagnostic: null, suppress: null },
    ]);
    // Each time: somebody may have been taken off the list since, and now asks again.
    await suppressions.addAll(tx, [{ accountId: email.accountId, address, reason: 'unsubscribe', emailId: email.id }]);
    return { found: { address, from: email.from }, calls };
  });
  if (calls > 0) queue.webhooks.wake();
  return found;
}
