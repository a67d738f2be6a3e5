import { z } from 'zod';
import { limits, pastToleranceMs } from '../../core/accounts/send-limits.ts';
import { uncertainPolicies } from '../../core/orders/uncertainty.ts';
import { tlsLevels } from '../../smtp/replies/tls-names.ts';
import { attachment } from './attachment-field.ts';
import { headers } from './headers-field.ts';
import { templateUse } from './template-use.ts';
import { line, list, mailbox, mailboxes, oneOf, oneOrMore, text, timestamp } from './validation.ts';

/** The time to send an email: not in the past, and at most a year ahead. */
export const scheduledAt = timestamp.superRefine((at, context) => {
  const ahead = at.getTime() - Date.now();
  if (ahead < -pastToleranceMs) context.addIssue('is in the past');
  if (ahead > limits.scheduleAheadMs) context.addIssue('is more than a year ahead');
});

/** The fields of an email without a template. Null counts as absent: many clients send every field that they know. */
export const sendFields = z.object({
  from: mailbox.describe('The sender, on a verified domain: `a@b.c` or `Name <a@b.c>`.'),
  to: mailboxes(limits.recipients)
    .meta(oneOrMore(limits.recipients, 1))
    .describe('The recipients: at most 100 in to, cc and bcc together.'),
  cc: mailboxes(limits.recipients).nullish().describe('Recipients of a copy.'),
  bcc: mailboxes(limits.recipients).nullish().describe('Recipients of a blind copy, whom the others do not see.'),
  reply_to: mailboxes(limits.recipients).nullish().describe('Where replies go.'),
  subject: line(limits.subject).describe('The subject line.'),
  html: text(limits.body).nullish().describe('The body as HTML.'),
  text: text(limits.body).nullish().describe('The body as plain text.'),
  headers: headers
    .nullish()
    .describe(
      'Additional header fields by name, each of at most 2,000 characters (`References`: 10,000). Fields that the service writes itself are refused.',
    ),
  tags: list(
    line(limits.tag, 'a string, such as "orders" or "kind:order"'),
    limits.tags,
    'an array, such as ["orders"]',
  )
    .nullish()
    .describe('Labels to search the log by.'),
  attachments: list(attachment, limits.attachments)
    .nullish()
    .describe('At most 10 files, of at most 10 MB each and 20 MB together.'),
  scheduled_at: scheduledAt.nullish().describe('When to send it, at most a year ahead. Omitted: now.'),
  type: oneOf(['transactional', 'marketing'])
    .nullish()
    .describe(
      'Defaults to `transactional`. Nobody who unsubscribed gets a `marketing` email. Each of its recipients gets a copy of their own, with an unsubscribe link in its header and wherever a body contains `{{{UNSUBSCRIBE_URL}}}`.',
    ),
  on_uncertain: oneOf(uncertainPolicies)
    .nullish()
    .describe(
      'What to do if a server may have accepted the email but its reply never came: `retry` (the default) sends it again with the same Message-ID; `hold` holds it until you decide with `POST /api/v1/emails/:id/release`.',
    ),
  tls: oneOf(tlsLevels)
    .nullish()
    .describe(
      '`opportunistic` (the default) encrypts if the server supports it; `required` waits rather than send unencrypted; `verified` also requires a valid certificate. The domain and the receiver may require more.',
    ),
});

/** For the reference: requests with and without a template as one schema. */
export const shownSendRequest = sendFields
  .extend({
    from: mailbox
      .nullish()
      .describe('The sender, on a verified domain: `a@b.c` or `Name <a@b.c>`. Required unless the template has one.'),
    subject: line(limits.subject).nullish().describe('The subject line. Required unless the template has one.'),
    html: sendFields.shape.html.describe('The body as HTML. Without a template, html or text is required.'),
    template: templateUse.nullish().describe('The published template to render; html and text must then be omitted.'),
  })
  .meta({
    id: 'SendRequest',
    description:
      'One email. Without a template, `from`, `subject`, and `html` or `text` are required; with one, only what the template lacks.',
    // If a request matches none of these, TypeScript names the last one in its error.
    anyOf: [
      { required: ['template'] },
      { required: ['from', 'subject', 'html'] },
      { required: ['from', 'subject', 'text'] },
    ],
  });
