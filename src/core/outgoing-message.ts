import type { KeyObject } from 'node:crypto';
import { parseMailbox } from '../mail/address.ts';
import { compose } from '../mail/compose.ts';
import { parsePrivateKey, sign } from '../mail/dkim.ts';
import { open } from '../seal.ts';
import { sealContext } from './domains.ts';
import type { OutgoingEmail } from './outgoing.ts';

export type Signing = NonNullable<OutgoingEmail['signing']>;

/** What of an email its bytes are made of. */
export type MessageSource = Omit<OutgoingEmail, 'accountId' | 'signing' | 'revoked' | 'suppressed' | 'suspended'>;

/** The domain's private key, opened. */
export function openKey(encryptionKey: Buffer, signing: Signing): KeyObject {
  return parsePrivateKey(open(encryptionKey, signing.sealedKey, sealContext(signing.domainId)));
}

/** The signed bytes of an email as they go over the wire: the same each time, so that a second copy is recognised as one. */
export async function build(email: MessageSource, signing: Signing, privateKey: KeyObject): Promise<Buffer> {
  const message = await compose({
    from: parseMailbox(email.from),
    to: email.to.map(parseMailbox),
    cc: email.cc.map(parseMailbox),
    replyTo: email.replyTo.map(parseMailbox),
    subject: email.subject,
    html: email.html,
    text: email.text,
    headers: email.headers.map(([name, value]) => ({ name, value })),
    attachments: email.attachments,
    messageId: email.messageId,
    date: email.dueAt,
  });
  const header = await sign(message, { ...signing, privateKey }, email.dueAt);
  return Buffer.concat([header, message]);
}
