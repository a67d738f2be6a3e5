import { grouped } from '../../numbers.ts';
import { isAscii } from '../address/address.ts';
import { parseAddressList } from '../address/address-list.ts';
import { refuseText } from '../text/characters.ts';
import { MimeError } from '../text/mime-error.ts';

/** One header field to be written. The value is plain Unicode text: the composer encodes and folds it. */
export interface Header {
  name: string;
  value: string;
}

// Fields written by the composer, the signer and the servers on the way. A second or forged one would be read instead.
const owned = new Set([
  'from',
  'sender',
  'to',
  'cc',
  'bcc',
  'reply-to',
  'subject',
  'date',
  'message-id',
  'mime-version',
  'dkim-signature',
  'domainkey-signature',
  'return-path',
  'received',
  'received-spf',
  'authentication-results',
  // Other spellings of Bcc, and what servers write about the envelope.
  'apparently-to',
  'delivered-to',
  'envelope-to',
  'x-bcc',
  'x-envelope-to',
  'x-original-to',
]);
const ownedPrefix = /^(?:content-|arc-|resent-|x-sendwright-)/;

/** The longest value of a header, in characters. */
export const longestValue = 2_000;

/** The longest run without a space that is kept as it is: with a name of 76 characters it still fits a line of 998 octets. */
export const longestRun = 900;

const longestName = 76;
const ftext = /^[!-9;-~]+$/;

/** True when this is a field name: ftext of RFC 5322 section 3.6.8, at most 76 characters. */
export function isFieldName(name: string): boolean {
  return name.length <= longestName && ftext.test(name);
}

/**
 * Why a client may not set this header, or null when it may. The words follow the name of the field, as in
 * `headers.Received: is set by Sendwright`.
 *
 * @param most the most characters that its value may have
 */
export function refuseHeader(name: string, value: string, most = longestValue): string | null {
  if (!ftext.test(name)) return 'is not a header name';
  if (name.length > longestName) return `has a name of more than ${longestName} characters`;
  const lower = name.toLowerCase();
  if (owned.has(lower) || ownedPrefix.test(lower)) return 'is set by Sendwright';
  if (value.length > most) return `must have at most ${grouped(most)} characters`;
  const refused = refuseText(value);
  if (refused) return refused;
  if (value.trim() === '') return 'is empty';
  // A run that cannot be folded cannot be sent.
  if ((holdsUrlsOrIds(name) || holdsMailboxes(name)) && value.split(' ').some((run) => run.length > longestRun)) {
    return `has more than ${longestRun} characters without a space`;
  }
  if (holdsUrlsOrIds(name) && value.match(inAngles)?.some((one) => !isAscii(one))) {
    return 'contains characters within <...> that are not ASCII: percent-encode them';
  }
  return holdsMailboxes(name) && needsEncoding(value) ? refuseMailboxes(value) : null;
}

/** Whether a field holds URLs or ids, which an encoded-word would hide from programs. */
export const holdsUrlsOrIds = (name: string): boolean => /^(?:list-|in-reply-to$|references$)/i.test(name);

/** Whether a field that a client may set holds mailboxes, as `To` does. */
export const holdsMailboxes = (name: string): boolean =>
  /^(?:disposition-notification-to|return-receipt-to|x-confirm-reading-to|errors-to|mail-(?:followup|reply)-to|abuse-reports-to)$/i.test(
    name,
  );

/** The part of a field of addresses, URLs or ids that programs read, where no encoded-word is allowed (RFC 2047 section 5). */
export const inAngles = /<[^<>]*>/g;

/** Whether text cannot be written to a header as it is, or a mail program would take it for an encoded-word. */
export function needsEncoding(text: string): boolean {
  return text.includes('=?') || /[^ -~]/.test(text);
}

/** Only for values that need encoding; others are written as they are. */
function refuseMailboxes(value: string): string | null {
  try {
    const { mailboxes } = parseAddressList('', value);
    if (mailboxes.length === 0) return 'contains no address';
    return mailboxes.every(({ local }) => isAscii(local)) ? null : 'contains an address that needs SMTPUTF8';
  } catch (error) {
    if (error instanceof MimeError) return `contains an invalid address: ${error.message.replace(/^: /, '')}`;
    throw error;
  }
}
