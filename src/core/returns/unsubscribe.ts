import type { Database, Sql } from '../../db/client.ts';
import type { NamedRecipient } from '../../mail/links/token.ts';
import type { Reader } from '../../mail/links/unsubscribe-link.ts';
import type { Queue } from '../../queue.ts';
import { isErased } from './erased.ts';
import * as returns from './returns.ts';
import * as suppressions from './suppressions.ts';

/** Who asks for no more mail, and from whom. */
export interface Subscription {
  /** The recipient. */
  address: string;
  /** The sender, as written in the email; null: the email is no longer kept. */
  from: string | null;
}

interface Found extends Subscription {
  accountId: string;
  /** Null: it is gone, or an erasure has removed the recipient from it. */
  email: returns.ReturnedEmail | null;
}

/**
 * What a token refers to; null when that is no longer known. An email that is kept says who the recipient is. If it is gone,
 * the link does, provided that it names its reader.
 */
export async function lookUp(sql: Sql, named: NamedRecipient | Reader): Promise<Found | null> {
  const email = await returns.find(sql, named.emailId, null);
  const recipient = email?.recipients.find(({ position }) => position === named.position);
  if (email && recipient && !isErased(recipient.address))
    return { address: recipient.address, from: email.from, accountId: email.accountId, email };
  if (!('address' in named)) return null;
  const { accountId, address } = named;
  const [account] = await sql.query({ text: 'SELECT FROM accounts WHERE id = $1', values: [accountId] });
  return account ? { address, from: null, accountId, email: null } : null;
}

/**
 * Puts the recipient onto the account's suppression list, so that it gets no more marketing mail. This can be repeated, and
 * works for as long as the account exists if the token names the reader. The event is emitted once for each email, while
 * that is kept.
 *
 * @returns null when what the token names is no longer known
 */
export async function unsubscribe(
  db: Database,
  queue: Queue,
  named: NamedRecipient | Reader,
): Promise<Subscription | null> {
  const { found, webhookDeliveries } = await db.transaction(async (tx) => {
    await returns.keepFromErasure(tx, named.emailId);
    const found = await lookUp(tx, named);
    if (!found) return { found: null, webhookDeliveries: 0 };
    const { address, accountId, email } = found;
    const heard = { kind: 'unsubscribe', classification: null, enhancedCode: null, diagnostic: null } as const;
    const { webhookDeliveries } = email
      ? await returns.record(tx, queue, email, [{ ...heard, address, suppress: null }])
      : { webhookDeliveries: 0 };
    // On every call: the address may have been taken off the list since, and asks again now.
    await suppressions.addAll(tx, [{ accountId, address, reason: 'unsubscribe', emailId: email?.id ?? null }]);
    return { found, webhookDeliveries };
  });
  if (webhookDeliveries > 0) queue.webhooks.wake();
  return found;
}
