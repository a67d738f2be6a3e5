import { hasFailed, isAutoReply, isOfServer, looksReturned, type Marks } from './bounce-marks.ts';
import { quotedReply, readBounceText, withoutCopy } from './bounce-text.ts';
import { addressIn, codeIn, phaseIn, type ReturnedRecipient, readDeliveryStatus, statusIn } from './delivery-status.ts';
import { type LooseMessage, type LoosePart, readLoosely, textOf } from './loose-mime.ts';

/** What a message says that came back to a return path. */
export interface Notice {
  /**
   * `bounce`: somebody will not get it; `delay`: it is still tried; `relayed`: it was handed on or delivered; `auto_reply`: a
   * program answers for a person (RFC 3834); `unknown`: nothing of that can be read in it.
   */
  kind: 'bounce' | 'delay' | 'relayed' | 'auto_reply' | 'unknown';
  /** Empty for the last two kinds. One without an address is about whoever the message was for. */
  recipients: ReturnedRecipient[];
}

const longestText = 64 * 1024;
const mostRecipients = 100;

/**
 * Reads a delivery status notification (RFC 3464), or a bounce in whatever form mail servers write. Nothing is an error. The
 * work is bounded by what `readLoosely` takes.
 *
 * @param nullSender whether it came without an envelope sender. What is written for people is otherwise read only where `From` is
 *   that of a server
 */
export function readNotice(bytes: Uint8Array, nullSender = true): Notice {
  const message = readLoosely(bytes);
  const { header } = message;
  const text = words(message);
  const marks = { header, subject: header.text('subject'), sender: header.text('from'), text, nullSender };
  const reported = fromReports(message, marks);
  if (reported.length > 0) return { kind: kindOf(reported), recipients: reported };
  // A receipt (RFC 8098) says what a person, or a program for one, did with a message that had arrived.
  if (message.parameters.get('report-type') === 'disposition-notification') return nothing('auto_reply');
  // One that is no complaint, as of a message that was not authentic (RFC 6591): it may well have arrived.
  if (message.parts.some(isFeedback)) return nothing('unknown');
  if (!hasFailed(marks) && isAutoReply(marks)) return nothing('auto_reply');
  if (!looksReturned(marks)) return nothing('unknown');
  const failed = header
    .all('x-failed-recipients')
    .flatMap((value) => value.split(','))
    .flatMap((value) => addressIn(value) ?? []);
  const recipients = readBounceText(marks.subject, text, failed).slice(0, mostRecipients);
  return { kind: kindOf(recipients), recipients };
}

/**
 * True when a program wrote it by itself or on somebody's request, and not as an answer (RFC 3834 section 5). Apple Mail calls the mail
 * an answer with which its users unsubscribe, and has a field of its own in it.
 */
export function isGenerated(bytes: Uint8Array): boolean {
  const { header } = readLoosely(bytes);
  return /^auto-generated/i.test(header.get('auto-submitted')) || /^true/i.test(header.get('x-apple-unsubscribe'));
}

/** True for what is written for programs (RFC 6522), such as that a message was no spam. */
export function isReport(bytes: Uint8Array): boolean {
  const { type, parts } = readLoosely(bytes);
  return type === 'multipart/report' || parts.some(isFeedback);
}

const isFeedback = ({ type }: LoosePart) => type === 'message/feedback-report';

const nothing = (kind: 'auto_reply' | 'unknown'): Notice => ({ kind, recipients: [] });

function kindOf(recipients: ReturnedRecipient[]): Notice['kind'] {
  if (recipients.some(({ action }) => action === 'failed')) return 'bounce';
  return recipients.some(({ action }) => action === 'delayed') ? 'delay' : 'relayed';
}

/** What the parts for programs say, completed with what the part for people quotes. */
function fromReports({ parts }: LooseMessage, marks: Marks): ReturnedRecipient[] {
  const { text } = marks;
  const reports = parts.filter(({ type }) => /^message\/(?:x-|global-)?delivery-status$/.test(type));
  const written = reports.map((part) => textOf(part, longestText * 4));
  // Some put the same fields into a text.
  const own = reports.length === 0 && isOfServer(marks) ? withoutCopy(text) : '';
  if (/^(?:final|original)-recipient[ \t]?:/im.test(own) && /^(?:action|status)[ \t]?:/im.test(own)) written.push(own);
  const recipients = written.flatMap(readDeliveryStatus).slice(0, mostRecipients);
  return recipients.map((one) => completed(one, text, recipients.length === 1));
}

/** Where the fields for programs are no more than "failed", the reply may stand among the words. */
function completed(one: ReturnedRecipient, text: string, only: boolean): ReturnedRecipient {
  const phase = phaseIn(one.diagnostic ?? '') ?? (only ? phaseIn(text) : null) ?? one.phase;
  const saysWhy = one.code !== null || (one.status !== null && !/^\d\.0\.0$/.test(one.status));
  if (saysWhy || one.action === 'delivered' || one.action === 'expanded') return { ...one, phase };
  const reply = quotedReply(text, only ? null : one.address);
  if (!reply) return { ...one, phase };
  const diagnostic = [one.diagnostic, reply].filter(Boolean).join(' ');
  return { ...one, phase, diagnostic, code: codeIn(reply), status: statusIn(reply) ?? one.status };
}

/** The text for people, in front of the message that is returned: what is plain before what is HTML. */
function words({ parts }: LooseMessage): string {
  const texts = (type: string) =>
    parts.filter((part: LoosePart) => part.type === type).map((part) => textOf(part, longestText));
  const plain = texts('text/plain').join('\n').trim();
  return (plain === '' ? texts('text/html').join('\n') : plain).slice(0, longestText);
}
