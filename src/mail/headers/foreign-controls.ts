import type { Header } from './headers.ts';

/** What of ours a header of another service asks for. */
export type Asked = 'idempotencyKey' | 'scheduledAt' | 'type' | 'tls' | 'to' | 'bcc' | 'separateEmails' | 'dryRun';

/** A header that tells another service what to do with the email. */
interface ForeignControl {
  /** In lower case. */
  name: string;
  /** The member that asks, if the value is a JSON object. */
  member?: string;
  asked: Asked;
  /** Whether the value asks for something other than what happens anyway. */
  asks?: (value: string) => boolean;
}

/**
 * If ignored, they would let mail go out twice, too early, in clear, to people who opted out, or not to those who are meant, and
 * show readers who else gets it.
 */
const controls: ForeignControl[] = [
  { name: 'resend-idempotency-key', asked: 'idempotencyKey' },
  { name: 'idempotency-key', asked: 'idempotencyKey' },
  { name: 'x-pm-message-stream', asked: 'type', asks: isMarketing },
  { name: 'x-mailgun-deliver-at', asked: 'scheduledAt' },
  // When readers usually look at their mail, or at this time where they are.
  { name: 'x-mailgun-delivery-time-optimize-period', asked: 'scheduledAt' },
  { name: 'x-mailgun-time-zone-localize', asked: 'scheduledAt' },
  { name: 'x-mailgun-require-tls', asked: 'tls', asks: isYes },
  { name: 'x-mailgun-drop-message', asked: 'dryRun', asks: isYes },
  {
    name: 'x-mailgun-recipient-variables',
    asked: 'separateEmails',
    asks: (value) => !/^(\{\s*\})?$/.test(value),
  },
  // Mandrill.
  { name: 'x-mc-sendat', asked: 'scheduledAt' },
  { name: 'x-mc-bccaddress', asked: 'bcc' },
  { name: 'x-mc-mergevars', member: '_rcpt', asked: 'separateEmails' },
  // SendGrid, whose recipients are those that the header names. The last one is the list that people may have left.
  { name: 'x-smtpapi', member: 'to', asked: 'to' },
  { name: 'x-smtpapi', member: 'send_at', asked: 'scheduledAt' },
  { name: 'x-smtpapi', member: 'send_each_at', asked: 'scheduledAt' },
  { name: 'x-smtpapi', member: 'asm_group_id', asked: 'type' },
  // Amazon SES: a list that people may have left.
  { name: 'x-ses-list-management-options', asked: 'type' },
  // Brevo.
  { name: 'x-sib-sandbox', asked: 'dryRun', asks: (value) => /^drop$/i.test(value) },
];

const names = new Set(controls.map(({ name }) => name));

const longestWord = 100;

/** Whether the name of a message stream, or of a kind of email, says marketing. `newsletter-confirmation` and `non-marketing` do not. */
export function isMarketing(name: string): boolean {
  return (
    name.length <= longestWord && /(?<!no[nt][-_ .]?)(broadcast|marketing|newsletter)s?([-_ .]e?mails?)?$/i.test(name)
  );
}

function isYes(value: string): boolean {
  return /^(yes|true)$/i.test(value);
}

function isAsking({ member, asks }: ForeignControl, value: string): boolean {
  return member === undefined ? (asks?.(value) ?? true) : holdsMember(value, member);
}

function holdsMember(value: string, member: string): boolean {
  try {
    return (Object(JSON.parse(value))[member] ?? null) !== null;
  } catch {
    return false;
  }
}

/** Whether this header is another service's control. It is not sent on: it is meant for the service that sends the mail. */
export const isForeignControl = (name: string): boolean => names.has(name.toLowerCase());

/**
 * The first header that asks for something which would not happen.
 *
 * @param called what each thing must be called here, such as `must be the field type`
 * @param isGiven whether the client has said that under our own name too, which counts then
 * @returns its name, and why the email is refused
 */
export function findForeignRequest(
  headers: Header[],
  called: Record<Asked, string>,
  isGiven: (asked: Asked) => boolean,
): { name: string; words: string } | null {
  for (const { name, value } of headers) {
    if (!isForeignControl(name)) continue;
    const text = value.trim();
    const found = controls.find((one) => one.name === name.toLowerCase() && !isGiven(one.asked) && isAsking(one, text));
    if (!found) continue;
    const words = called[found.asked];
    return { name, words: found.member === undefined ? words : `"${found.member}" ${words}` };
  }
  return null;
}
