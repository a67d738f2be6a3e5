import { addressIn } from './delivery-status.ts';
import { decoded, LooseHeader, type LooseMessage, readHeaderLoosely, readLoosely, textOf } from './loose-mime.ts';

/** A feedback report (RFC 5965) about an email of ours: its reader reports it as spam, or wants to unsubscribe. */
export interface Complaint {
  kind: 'complaint' | 'unsubscribe';
  /** Such as `abuse`, in lower case. */
  type: string;
  /** Addresses and links from the report and the message's header that may contain a token of ours. */
  tokens: string[];
  /** The message's recipients, if the report names them; many providers do not. */
  recipients: string[];
}

const kinds = new Map<string, Complaint['kind']>([
  ['abuse', 'complaint'],
  ['fraud', 'complaint'],
  ['virus', 'complaint'],
  ['miscategorized', 'complaint'],
  ['other', 'complaint'],
  ['opt-out', 'unsubscribe'],
  ['opt-out-list', 'unsubscribe'],
]);

const mostTokens = 50;
/** Longer than any unsubscribe link of ours; what is longer than this is cut. */
const candidate = /[^\s<>,;"]{8,2500}/g;

/** Fields that may contain a token of ours: of the report, and of the message's header. */
const reportFields = ['original-mail-from', 'removal-recipient', 'original-envelope-id'];
const messageFields = ['return-path', 'list-unsubscribe', 'x-original-return-path', 'errors-to'];

/** Where receiving servers note the envelope sender: some return the message without its Return-Path, as Microsoft does. */
const senderNotes = ['authentication-results', 'received-spf', 'received'];

/**
 * The envelope sender in those: RFC 8601 section 2.7.2, RFC 7208 section 9.1, and the comments that Sendmail and Exim
 * (`envelope-from`) or qpsmtpd (`envelope-sender`) add to Received.
 */
const notedSender = /\b(?:smtp\.mailfrom=|envelope-from(?:=|\s+)|envelope-sender\s+)"?<?([^\s<>();"]{1,320})/i;

/** Reads a feedback report; null for anything else, and for reports that are not a complaint (`not-spam`, `auth-failure`). */
export function readComplaint(bytes: Uint8Array): Complaint | null {
  const message = readLoosely(bytes);
  const original = originalOf(message);
  const report = reportOf(message) ?? withoutReport(message, original);
  if (!report) return null;
  const type = /^[a-z-]*/.exec(report.get('feedback-type').toLowerCase())?.[0] ?? '';
  const kind = kinds.get(type);
  if (!kind) return null;
  const named = [...report.all('original-rcpt-to'), ...report.all('removal-recipient'), ...hotmail(original)];
  return {
    kind,
    type,
    tokens: tokensOf(report, original),
    recipients: named.flatMap((value) => addressIn(value) ?? []),
  };
}

/** True for a feedback report of any type, also for one that is no complaint, such as `not-spam` (RFC 6430). */
export const isFeedbackReport = (bytes: Uint8Array): boolean => reportOf(readLoosely(bytes)) !== null;

function tokensOf(report: LooseHeader, original: LooseHeader | null): string[] {
  const ofMessage = (name: string) => original?.all(name) ?? [];
  const values = [
    ...reportFields.flatMap((name) => report.all(name)),
    ...messageFields.flatMap(ofMessage),
    ...senderNotes.flatMap(ofMessage).flatMap((value) => notedSender.exec(value)?.[1] ?? []),
  ];
  const tokens = values.flatMap((value) => value.match(candidate) ?? []);
  return [...new Set(tokens)].slice(0, mostTokens);
}

function reportOf({ parts }: LooseMessage): LooseHeader | null {
  const part = parts.find(({ type }) => type === 'message/feedback-report');
  return part ? readHeaderLoosely(textOf(part, 64 * 1024).trimStart()).header : null;
}

/** The header of the message that the complaint is about. */
function originalOf({ parts }: LooseMessage): LooseHeader | null {
  const part = parts.findLast(({ type }) =>
    /^(?:message\/(?:global|rfc822|global-headers)|(?:text|message)\/rfc822-headers?)$/.test(type),
  );
  return part ? readHeaderLoosely(decoded(part).trimStart()).header : null;
}

/** Microsoft's reports (JMRP) contain only the message, with the reader's address added to its header. */
function withoutReport({ header, parts }: LooseMessage, original: LooseHeader | null): LooseHeader | null {
  const isOne = /^complaint about message from/i.test(header.get('subject')) && hotmail(original).length > 0;
  return isOne && parts.length <= 3 ? new LooseHeader([{ name: 'feedback-type', value: 'abuse' }]) : null;
}

const hotmail = (original: LooseHeader | null) => original?.all('x-hmxmroriginalrecipient') ?? [];
