import type { Idempotency } from '../core/accounts/idempotency.ts';
import { limits } from '../core/accounts/send-limits.ts';
import type { SendRequest } from '../core/emails/draft.ts';
import { uncertainPolicies } from '../core/orders/uncertainty.ts';
import type { Mailbox } from '../mail/address/address.ts';
import { refuseAttachment } from '../mail/compose/attachments.ts';
import { isForeignControl } from '../mail/headers/foreign-controls.ts';
import type { SubmittedMessage } from '../mail/submission/submission.ts';
import { grouped } from '../numbers.ts';
import { tlsLevels } from '../smtp/replies/tls-names.ts';
import { badContent, tooLarge } from './refusal.ts';
import { readChoice, readIdempotency, readTags, readTime, refuseForeignControls } from './submission-controls.ts';

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
  const unnamed = new Map(envelope.map((mailbox) => [mailbox.address.toLowerCase(), mailbox]));
  // The address as RCPT TO spelled it, with the name from the header. Each recipient is taken once.
  const take = ({ name, address }: Mailbox): Mailbox[] => {
    const recipient = unnamed.get(address.toLowerCase());
    unnamed.delete(address.toLowerCase());
    return recipient ? [{ ...recipient, name }] : [];
  };
  const request: SendRequest = {
    from: message.from,
    to: message.to.flatMap(take),
    cc: message.cc.flatMap(take),
    bcc: [...unnamed.values()],
    replyTo: message.replyTo,
    subject: message.subject,
    html: message.html,
    text: message.text,
    headers: message.headers.filter(({ name }) => !isForeignControl(name)),
    attachments: message.attachments,
    tags: readTags(controls.tags),
    type: readChoice('X-Sendwright-Type', ['transactional', 'marketing'], controls.type, 'transactional'),
    // The domain's own requirement applies on top of this.
    tls: readChoice('X-Sendwright-TLS', tlsLevels, controls.tls, 'opportunistic'),
    onUncertain: readChoice('X-Sendwright-On-Uncertain', uncertainPolicies, controls.onUncertain, 'retry'),
    scheduledAt: readTime(controls.scheduledAt),
  };
  refuseExcess(request);
  refuseForeignControls(message);
  return { request, idempotency: readIdempotency(controls.idempotencyKey, request) };
}

function refuseExcess(request: SendRequest): void {
  const { subject, html, text, replyTo, headers, attachments } = request;
  if (subject.length > limits.subject) throw badContent(`Subject: must have at most ${limits.subject} characters`);
  if ((html?.length ?? 0) > limits.body || (text?.length ?? 0) > limits.body)
    throw tooLarge(`the text must have at most ${grouped(limits.body)} characters`);
  if (replyTo.length > limits.recipients)
    throw badContent(`Reply-To: must have at most ${limits.recipients} addresses`);
  if (headers.length > limits.headers)
    throw badContent(`the header must have at most ${limits.headers} fields of its own`);
  refuseAttachments(attachments);
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
