import { isAutoReply, isOfServer, isProbablyReturned, isSurelyReturned, type Marks } from './bounce-marks.ts';
import { ReportText, readBounceText, withoutCopy } from './bounce-text.ts';
import { addressIn, codeIn, phaseIn, type ReturnedRecipient, readDeliveryStatus, statusIn } from './delivery-status.ts';
import { type LooseMessage, type LoosePart, readLoosely, textOf } from './loose-mime.ts';

/** The meaning of a message that came back to a return path. */
export interface Notice {
  /**
   * `bounce`: somebody will not get it; `delay`: it is still tried; `relayed`: it was passed on or delivered; `auto_reply`: a
   * program answers for a person (RFC 3834); `unknown`: none of these was recognized.
   */
  kind: 'bounce' | 'delay' | 'relayed' | 'auto_reply' | 'unknown';
  /** Empty for the last two kinds. An entry without an address is about whoever the message was sent to. */
  recipients: ReturnedRecipient[];
}

const longestText = 64 * 1024;
const mostRecipients = 100;

/**
 * Reads a delivery status notification (RFC 3464), or a bounce in any form that mail servers write. Nothing is an error. The
 * work is bounded by the limits of `readLoosely`.
 *
 * @param nullSender whether the envelope sender is empty. Otherwise text written for people is read only if `From` looks like a
 *   server
 */
export function readNotice(bytes: Uint8Array, nullSender = true): Notice {
  const message = readLoosely(bytes);
  const { header } = message;
  const text = words(message);
  const marks = { header, subject: header.text('subject'), sender: header.text('from'), text, nullSender };
  const reported = fromReports(message, marks);
  if (reported.length > 0) return { kind: kindOf(reported), recipients: reported };
  // A receipt (RFC 8098) says what a person, or their program, did with a message that had arrived.
  if (message.parameters.get('report-type') === 'disposition-notification') return nothing('auto_reply');
  // A feedback report that is no complaint, such as an authentication failure (RFC 6591): the message may well have arrived.
  if (message.parts.some(isFeedback)) return nothing('unknown');
  if (!isSurelyReturned(marks)) {
    if (isAutoReply(marks)) return nothing('auto_reply');
    if (!isProbablyReturned(marks)) return nothing('unknown');
  }
  const failed = header
    .all('x-failed-recipients')
    .flatMap((value) => value.split(','))
    .flatMap((value) => addressIn(value) ?? []);
  const recipients = readBounceText(marks.subject, text, failed).slice(0, mostRecipients);
  return { kind: kindOf(recipients), recipients };
}

/**
 * True when a program wrote it by itself or on somebody's request, and not as an answer (RFC 3834 section 5). Apple Mail labels
 * the mail with which its users unsubscribe as an answer, but adds a field of its own.
 */
export function isGenerated(bytes: Uint8Array): boolean {
  const { header } = readLoosely(bytes);
  return /^auto-generated/i.test(header.get('auto-submitted')) || /^true/i.test(header.get('x-apple-unsubscribe'));
}

/** True for reports to programs (RFC 6522), such as that a message is not spam. */
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

/** The recipients in the machine-readable parts, completed from the text for people. */
function fromReports({ parts }: LooseMessage, marks: Marks): ReturnedRecipient[] {
  const { text } = marks;
  const reports = parts.filter(({ type }) => /^message\/(?:x-|global-)?delivery-status$/.test(type));
  const written = reports.map((part) => textOf(part, longestText * 4));
  // Some servers put the same fields into plain text.
  const own = reports.length === 0 && isOfServer(marks) ? withoutCopy(text) : '';
  if (/^(?:final|original)-recipient[ \t]?:/im.test(own) && /^(?:action|status)[ \t]?:/im.test(own)) written.push(own);
  const recipients = written.flatMap(readDeliveryStatus).slice(0, mostRecipients);
  const report = new ReportText(text);
  const named = namedInWords(recipients, report);
  return named.map((one) => completed(one, report, named.length === 1));
}

/** Each with the address that failed, where the fields name only its alias. Exim lists these in the reverse order of its text. */
function namedInWords(recipients: ReturnedRecipient[], report: ReportText): ReturnedRecipient[] {
  const listed = new Map<string, number>();
  return recipients.map((one) => {
    const { address: alias } = one;
    if (alias === null) return one;
    const before = listed.get(alias) ?? 0;
    listed.set(alias, before + 1);
    const behind = report.behindAlias(alias);
    const address = behind.at(-1 - before) ?? behind[0] ?? alias;
    return address === alias ? one : { ...one, address, aliases: [alias, ...one.aliases] };
  });
}

/** If the machine-readable fields lack the reply, the text for people may still quote it. An exact status counts for more. */
function completed(one: ReturnedRecipient, report: ReportText, only: boolean): ReturnedRecipient {
  const phase = phaseIn(one.diagnostic ?? '') ?? (only ? phaseIn(report.text) : null) ?? one.phase;
  const exact = one.status === null || /^\d\.0\.0$/.test(one.status) ? null : one.status;
  const saysWhy = one.code !== null || (exact !== null && one.diagnostic !== null);
  if (saysWhy || one.action === 'delivered' || one.action === 'expanded') return { ...one, phase };
  const reply = report.quotedReply(only ? null : one.address);
  if (!reply && one.diagnostic === null && one.address !== null) {
    // Exim writes what it decided itself into the text alone, and OpenSMTPD all that it knows.
    const diagnostic = exact === null ? report.wordsAbout(one.address) : report.lineAbout(one.address);
    // OpenSMTPD calls what it has given up delayed, if the last attempt was put off.
    const action = diagnostic === 'Envelope expired' ? 'failed' : one.action;
    return { ...one, phase, action, diagnostic };
  }
  if (!reply || (exact !== null && !agrees(reply, exact))) return { ...one, phase };
  const diagnostic = [one.diagnostic, reply].filter(Boolean).join(' ');
  return { ...one, phase, diagnostic, code: codeIn(reply), status: exact ?? statusIn(reply) ?? one.status };
}

/** Whether the status may be about this reply: help texts list the replies of other cases. */
function agrees(reply: string, status: string): boolean {
  const said = statusIn(reply);
  return reply[0] === status[0] && (said === null || said === status || /^\d\.0\.0$/.test(said));
}

/** The text for people: the plain text parts, or the HTML if there are none. */
function words({ parts }: LooseMessage): string {
  const texts = (type: string) =>
    parts.filter((part: LoosePart) => part.type === type).map((part) => textOf(part, longestText));
  const plain = texts('text/plain').join('\n').trim();
  return (plain === '' ? texts('text/html').join('\n') : plain).slice(0, longestText);
}
