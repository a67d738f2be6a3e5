import { isAscii } from '../mail/address.ts';

export interface Envelope {
  /** Empty for the null sender. */
  from: string;
  recipients: string[];
  /** True when the sender's address or a header needs RFC 6531, whoever it is for; a recipient's own address may as well. */
  smtpUtf8: boolean;
}

/** Throws for an address that would not stay within its own command. */
export function assertEnvelope({ from, recipients, smtpUtf8 }: Envelope): void {
  for (const address of [from, ...recipients]) {
    if (/[\x00-\x20\x7f-\x9f<>]|\p{Surrogate}/u.test(address))
      throw new Error('an address that no SMTP command can hold');
  }
  if (!smtpUtf8 && !isAscii(from)) throw new Error('an address that needs SMTPUTF8, without it');
  if (recipients.length === 0 || recipients.includes('')) throw new Error('an envelope without a recipient');
}

/** True for one that only a server with SMTPUTF8 can be told (RFC 6531). */
export const needsUtf8 = (recipient: string) => !isAscii(recipient);
