import { grouped } from '../../numbers.ts';
import type { Connection } from '../connections/connection.ts';
import { failed, localFailure, type RecipientResult } from '../replies/result.ts';
import type { Content } from './content.ts';
import { type Envelope, needsUtf8 } from './envelope.ts';

/** Refuses the recipients that the server cannot take this message for, judging by its reply to EHLO. */
export function refuseLocally(
  connection: Connection,
  envelope: Envelope,
  content: Content,
): Map<string, RecipientResult> {
  const { host } = connection.target;
  const { size, smtpUtf8, eightBitMime } = connection.capabilities;
  const refuse = (recipients: string[], enhanced: string, reason: string) => {
    const failure = { ...localFailure(reason, 'content'), enhanced, permanent: true };
    return new Map(recipients.map((recipient) => [recipient, failed(recipient, failure)]));
  };
  const all = envelope.recipients;
  if (size !== null && content.size > size) {
    return refuse(
      all,
      '5.3.4',
      `${host} accepts messages of at most ${grouped(size)} bytes; this one has ${grouped(content.size)}.`,
    );
  }
  const noUtf8 = `${host} does not accept internationalized addresses (SMTPUTF8).`;
  if (envelope.smtpUtf8 && !smtpUtf8) return refuse(all, '5.6.7', noUtf8);
  // RFC 6531 section 3.1: a server with SMTPUTF8 also takes 8-bit content.
  if (content.eightBit && !eightBitMime && !smtpUtf8)
    return refuse(all, '5.6.3', `${host} does not accept 8-bit content (8BITMIME).`);
  // For the others it is an ordinary message: one such address among them must not cost them their mail.
  return smtpUtf8 ? new Map() : refuse(all.filter(needsUtf8), '5.6.7', noUtf8);
}
