import { createHash } from 'node:crypto';
import type { Idempotency } from '../core/accounts/idempotency.ts';
import { limits, pastToleranceMs } from '../core/accounts/send-limits.ts';
import type { SendRequest } from '../core/emails/draft.ts';
import { uncertainPolicies } from '../core/log/uncertainty.ts';
import type { Mailbox } from '../mail/address.ts';
import { refuseAttachment } from '../mail/attachments.ts';
import type { SubmittedMessage } from '../mail/submission.ts';
import { tlsLevels } from '../smtp/tls-names.ts';
import { parseTimestamp } from '../timestamp.ts';
import { badContent, tooLarge } from './refusal.ts';

/** The equivalent REST API request. */
export interface Submission {
  request: SendRequest;
  idempotency: Idempotency | null;
}

/**
 * The envelope decides who gets the message: addresses of `To` and `Cc` are kept if they are in it, and everyone else in it
 * gets a blind copy. Other addresses in `To` and `Cc` are dropped, so that the record and the message agree.
 * As with any other mail server, a message needs no subject and no text.
 *
 * @throws Refusal naming the header
 */
export function toSubmission(message: SubmittedMessage, envelope: Mailbox[]): Submission {
  const { controls } = message;
  const left = new Map(envelope.map((mailbox) => [mailbox.address.toLowerCase(), mailbox]));
  // The address as RCPT TO spelled it, with the name from the header.
  const taken = ({ name, address }: Mailbox): Mailbox[] => {
    const recipient = left.get(address.toLowerCase());
    left.delete(address.toLowerCase());
    return recipient ? [{ ...recipient, name }] : [];
  };
  const request: SendRequest = {
    from: message.from,
    to: message.to.flatMap(taken),
    cc: message.cc.flatMap(taken),
    bcc: [...left.values()],
    replyTo: message.replyTo,
    subject: message.subject,
    html: message.html,
    text: message.text,
    headers: message.headers.filter(({ name }) => !controlOf(name)),
    attachments: message.attachments,
    tags: readTags(controls.tags),
    type: readChoice('X-Sendwright-Type', ['transactional', 'marketing'], controls.type, 'transactional'),
    // The domain's own requirement applies on top of this.
    tls: readChoice('X-Sendwright-TLS', tlsLevels, controls.tls, 'opportunistic'),
    onUncertain: readChoice('X-Sendwright-On-Uncertain', uncertainPolicies, controls.onUncertain, 'retry'),
    scheduledAt: readTime(controls.scheduledAt),
  };
  refuseExcess(request);
  refuseElsewhere(message);
  return { request, idempotency: readIdempotency(controls.idempotencyKey, request) };
}

function refuseExcess(request: SendRequest): void {
  const { subject, html, text, replyTo, headers, attachments } = request;
  if (subject.length > limits.subject) throw badContent(`Subject: must have at most ${limits.subject} characters`);
  if ((html?.length ?? 0) > limits.body || (text?.length ?? 0) > limits.body)
    throw tooLarge(`the text must have at most ${limits.body} characters`);
  if (replyTo.length > limits.recipients)
    throw badContent(`Reply-To: must have at most ${limits.recipients} addresses`);
  if (headers.length > limits.headers)
    throw badContent(`the header must have at most ${limits.headers} fields of its own`);
  refuseAttachments(attachments);
}

type Control = keyof SubmittedMessage['controls'];

/** Other services' names for our controls. Ignored, they would let mail go out twice, too early, or to people who opted out. */
const elsewhere: { name: string; ours: Control; meant: string; asks?: RegExp }[] = [
  { name: 'resend-idempotency-key', ours: 'idempotencyKey', meant: 'X-Sendwright-Idempotency-Key' },
  { name: 'idempotency-key', ours: 'idempotencyKey', meant: 'X-Sendwright-Idempotency-Key' },
  { name: 'x-mailgun-deliver-at', ours: 'scheduledAt', meant: 'X-Sendwright-Scheduled-At' },
  { name: 'x-pm-message-stream', ours: 'type', meant: 'X-Sendwright-Type', asks: /^broadcasts?$/i },
];

const controlOf = (name: string) => elsewhere.find((one) => one.name === name.toLowerCase());

/** If our control is there as well, it counts. Neither is sent on: both are meant for the service that sends the mail. */
function refuseElsewhere({ headers, controls }: SubmittedMessage): void {
  for (const { name, value } of headers) {
    const other = controlOf(name);
    if (other && controls[other.ours] === undefined && (other.asks?.test(value.trim()) ?? true))
      throw badContent(`${name}: must be called ${other.meant}`);
  }
}

function refuseAttachments(attachments: SendRequest['attachments']): void {
  if (attachments.length > limits.attachments)
    throw badContent(`the message must have at most ${limits.attachments} attachments`);
  for (const [index, attachment] of attachments.entries()) {
    const refused = refuseAttachment(attachment);
    if (refused) throw badContent(`attachment ${index + 1}: ${refused.member} ${refused.reason}`);
    if (attachment.content.length > limits.attachmentBytes)
      throw tooLarge(`attachment ${index + 1}: is larger than 10 MB`);
  }
  if (attachments.reduce((sum, { content }) => sum + content.length, 0) > limits.attachmentsBytes)
    throw tooLarge('the attachments are larger than 20 MB in total');
}

function readTags(text = ''): string[] {
  const tags = text
    .split(',')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '');
  if (tags.length > limits.tags) throw badContent(`X-Sendwright-Tags: must have at most ${limits.tags} entries`);
  if (tags.some((tag) => tag.length > limits.tag))
    throw badContent(`X-Sendwright-Tags: a tag must have at most ${limits.tag} characters`);
  return tags;
}

function readChoice<T extends string>(header: string, choices: readonly T[], text: string | undefined, usual: T): T {
  if (text === undefined) return usual;
  const chosen = choices.find((one) => one === text);
  if (chosen) return chosen;
  throw badContent(`${header}: must be one of ${choices.join(', ')}`);
}

function readTime(text: string | undefined): Date | null {
  if (text === undefined) return null;
  const at = parseTimestamp(text);
  if (!at) throw badContent('X-Sendwright-Scheduled-At: must be an RFC 3339 timestamp such as 2027-01-31T09:00:00Z');
  const ahead = at.getTime() - Date.now();
  if (ahead < -pastToleranceMs) throw badContent('X-Sendwright-Scheduled-At: is in the past');
  if (ahead > limits.scheduleAheadMs) throw badContent('X-Sendwright-Scheduled-At: is more than a year ahead');
  return at;
}

/**
 * Two submissions are the same if their content is: a client that sends again makes new boundaries, a new Date and maybe a new
 * Message-ID.
 */
function readIdempotency(key: string | undefined, request: SendRequest): Idempotency | null {
  if (key === undefined) return null;
  if (key.length === 0 || key.length > limits.idempotencyKey)
    throw badContent(`X-Sendwright-Idempotency-Key: must have 1 to ${limits.idempotencyKey} characters`);
  const attachments = request.attachments.map(({ content, ...named }) => ({
    ...named,
    sha256: createHash('sha256').update(content).digest('hex'),
  }));
  const fingerprint = createHash('sha256')
    .update(`SMTP ${JSON.stringify({ ...request, attachments })}`)
    .digest();
  return { key, fingerprint };
}
