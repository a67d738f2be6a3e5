import type { Database } from '../db/client.ts';
import { conflict } from '../errors.ts';
import { parseMailbox } from '../mail/address.ts';
import { loadFiles } from './attachments.ts';
import type { SendRequest } from './draft.ts';
import * as log from './email-log.ts';

/**
 * What an email asked for, to be asked for again, now: to the same recipients, with the same content and files.
 *
 * @throws ApiError 404, 410 when its content is not kept any more, or 409 when one of its recipients was erased
 */
export async function resendable(db: Database, accountId: string, id: string): Promise<SendRequest> {
  const { email } = await log.get(db, accountId, id);
  const content = await log.content(db, accountId, id);
  if (email.erasedAt !== null)
    throw conflict('the data of a recipient was erased: nobody knows any more whom it was for');
  const nameOf = ({ sha256 }: { sha256: string }) => ({ accountId, sha256 });
  const contentOf = await loadFiles(db, content.attachments.map(nameOf));
  return {
    from: parseMailbox(email.from),
    to: email.to.map(parseMailbox),
    cc: email.cc.map(parseMailbox),
    bcc: email.bcc.map(parseMailbox),
    replyTo: email.replyTo.map(parseMailbox),
    subject: email.subject,
    // Emails of a release before have empty ones.
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
