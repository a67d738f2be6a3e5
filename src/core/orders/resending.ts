import type { Database } from '../../db/client.ts';
import { conflict, invalidRequest } from '../../errors.ts';
import { comparable, type Mailbox, parseMailbox } from '../../mail/address/address.ts';
import { loadFiles } from '../emails/attachments.ts';
import type { SendRequest } from '../emails/draft.ts';
import * as log from '../log/email-log.ts';

/**
 * The request that an email was accepted with, to be made again now: to the same recipients, with the same content and files.
 *
 * @param only sends only to these of its recipients, each in the same field as then; omitted: to all
 * @throws ApiError 404; 410 if its content is not kept any more; 409 if one of its recipients was erased; 400 if one of
 *   `only` is not a recipient
 */
export async function resendable(db: Database, accountId: string, id: string, only?: Mailbox[]): Promise<SendRequest> {
  const email = await log.getEmail(db, accountId, id);
  const content = await log.content(db, accountId, id);
  if (email.erasedAt !== null)
    throw conflict('the data of a recipient was erased: the recipients of the email are no longer known');
  const isChosen = choice(email.recipientAddresses, only);
  const chosen = (mailboxes: string[]) => mailboxes.map(parseMailbox).filter(isChosen);
  const nameOf = ({ sha256 }: { sha256: string }) => ({ accountId, sha256 });
  const contentOf = await loadFiles(db, content.attachments.map(nameOf));
  return {
    from: parseMailbox(email.from),
    to: chosen(email.to),
    cc: chosen(email.cc),
    bcc: chosen(email.bcc),
    replyTo: email.replyTo.map(parseMailbox),
    subject: email.subject,
    // Emails that an earlier release accepted have an empty text instead of null.
    html: content.html || null,
    text: content.text || null,
    headers: content.headers,
    attachments: content.attachments.map((file) => ({
      ...file,
      content: contentOf(nameOf(file)),
    })),
    tags: email.tags,
    type: email.type,
    tls: email.tls,
    onUncertain: email.onUncertain,
    scheduledAt: null,
  };
}

/** @throws ApiError 400 if one of `only` is not a recipient */
function choice(recipients: string[], only?: Mailbox[]): (mailbox: Mailbox) => boolean {
  if (!only) return () => true;
  const addresses = only.map(({ address }) => comparable(address));
  const stranger = addresses.findIndex((address) => !recipients.includes(address));
  if (stranger >= 0) throw invalidRequest(`recipients[${stranger}]: is not a recipient of this email`);
  return ({ address }) => addresses.includes(comparable(address));
}
