import { isAscii } from '../../mail/address/address.ts';

/** What MAIL and RCPT say (RFC 5321 section 2.3.1), whatever the message's header says. */
export interface Envelope {
  /** Empty for the null sender. */
  from: string;
  recipients: string[];
  /** True if the sender's address or a header needs RFC 6531, for any recipient; a recipient's address may need it too. */
  smtpUtf8: boolean;
}

/** @throws Error for an address that could break out of its command, a non-ASCII sender without SMTPUTF8, or no recipient */
export function assertEnvelope({ from, recipients, smtpUtf8 }: Envelope): void {
  for (const address of [from, ...recipients]) {
    if (/[\x00-\x20\x7f-\x9f<>]|\p{Surrogate}/u.test(address))
      throw new Error('an address that no SMTP command can hold');
  }
  if (!smtpUtf8 && !isAscii(from)) throw new Error('an address that needs SMTPUTF8, without it');
  if (recipients.length === 0 || recipients.includes('')) throw new Error('an envelope without a recipient');
}

/** True if only a server with SMTPUTF8 can take this address (RFC 6531). */
export const needsUtf8 = (recipient: string) => !isAscii(recipient);
