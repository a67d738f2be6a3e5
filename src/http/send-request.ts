import { detectMimeType } from 'nodemailer/lib/mime-funcs';
import { z } from 'zod';
import { limits, pastToleranceMs } from '../core/accounts/send-limits.ts';
import type { SendRequest } from '../core/emails/draft.ts';
import type { Sendable, TemplatedRequest } from '../core/emails/template-sending.ts';
import { uncertainPolicies } from '../core/log/uncertainty.ts';
import { refuseAttachment, withoutPath } from '../mail/attachments.ts';
import { longestValue, refuseHeader } from '../mail/headers.ts';
import { tlsLevels } from '../smtp/tls-names.ts';
import { templateUse } from './template-use.ts';
import {
  examine,
  line,
  list,
  mailbox,
  mailboxes,
  oneOf,
  oneOrMore,
  text,
  timestamp,
  unescapedText,
} from './validation.ts';

const attachment = z
  .object(
    {
      filename: line(1_000)
        .transform(withoutPath)
        .describe('The name that the recipient sees, without folders, of at most 255 bytes.'),
      content: z
        .string({ error: (issue) => (issue.input === undefined ? 'is required' : 'must be a base64 string') })
        // Longer base64 is not even decoded.
        .max(Math.ceil(limits.attachmentBytes / 3) * 4, { error: 'is larger than 10 MB', abort: true })
        .transform((value, context) => {
          const bytes = Buffer.from(value, 'base64');
          if (isBase64Of(value, bytes)) return bytes;
          context.addIssue('is not base64 (padded and without line breaks, as `base64 -w0` writes it)');
          return z.NEVER;
        })
        .meta({ contentEncoding: 'base64' })
        .describe('The bytes as base64, at most 10 MB.'),
      content_type: line(500)
        .nullish()
        .describe('The MIME type; `multipart/` types are not allowed. Omitted: guessed from the file extension.'),
      content_id: line(200)
        .nullish()
        .describe(
          'Embeds the file in the html, which refers to it as `cid:<content_id>`. ASCII letters, digits and `. _ + = @ -`, unique within the email.',
        ),
    },
    { error: 'must be an object' },
  )
  .transform(({ filename, content, content_type: contentType, content_id: contentId }) => ({
    filename,
    content,
    contentType: contentType ?? detectMimeType(filename),
    contentId: contentId ?? null,
  }))
  .superRefine((value, context) => {
    if (value.content.length > limits.attachmentBytes)
      context.addIssue({ code: 'custom', path: ['content'], message: 'is larger than 10 MB' });
    const refused = refuseAttachment(value);
    if (refused) context.addIssue({ code: 'custom', path: [refused.member], message: refused.reason });
  });

/** How many characters of base64 are compared at a time: a multiple of four. */
const comparedAtOnce = 64 * 1024;

/**
 * Node decodes any string, so only a string that encodes back to itself was base64. It is compared in pieces: encoding all of a
 * file at once would take as much new memory again as decoding it.
 */
function isBase64Of(text: string, bytes: Buffer): boolean {
  for (let at = 0; at < text.length; at += comparedAtOnce) {
    const end = at + comparedAtOnce;
    if (bytes.toString('base64', (at / 4) * 3, (end / 4) * 3) !== text.slice(at, end)) return false;
  }
  return true;
}

/**
 * The maximum length of `References`, enough for about a hundred ids: it grows with each reply in a thread (RFC 5322 section
 * 3.6.4), and clients that reply should not have to cut it.
 */
const longestReferences = 10_000;

const mostOf = (name: string) => (name.toLowerCase() === 'references' ? longestReferences : longestValue);

/** Also refuses a header meant for the call: it would be sent to readers, and the email could be sent twice. */
const refuseOwnHeader = (name: string, value: string) =>
  name.toLowerCase() === 'idempotency-key'
    ? 'is a header of the call, not of the email'
    : refuseHeader(name, value, mostOf(name));

const headers = z
  .custom<Record<string, unknown>>(
    (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
    'must be an object',
  )
  .transform((value, context) => {
    if (Object.keys(value).length > limits.headers) {
      context.addIssue(`must have at most ${limits.headers} entries`);
      return z.NEVER;
    }
    return Object.entries(value).flatMap(([name, content]) => {
      const refused = typeof content === 'string' ? refuseOwnHeader(name, content) : 'must be a string';
      if (refused) context.addIssue({ code: 'custom', path: [name], message: refused });
      return typeof content === 'string' ? [{ name, value: content }] : [];
    });
  })
  .meta({
    shownAs: {
      type: 'object',
      maxProperties: limits.headers,
      properties: {
        References: {
          type: 'string',
          minLength: 1,
          maxLength: longestReferences,
          description: 'The Message-IDs of the thread.',
        },
      },
      additionalProperties: { type: 'string', minLength: 1, maxLength: longestValue },
    },
  });

/** The time to send an email: not in the past, and at most a year ahead. */
export const scheduledAt = timestamp.superRefine((at, context) => {
  const ahead = at.getTime() - Date.now();
  if (ahead < -pastToleranceMs) context.addIssue('is in the past');
  if (ahead > limits.scheduleAheadMs) context.addIssue('is more than a year ahead');
});

/** Null counts as absent, as in `fields`. */
const omitted = z.null({ error: 'must be omitted when a template is used' }).optional();

/** Null counts as absent: many clients send every field that they know. */
export const fields = z.object({
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
  tags: list(line(limits.tag), limits.tags).nullish().describe('Labels to search the log by.'),
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

const unescapedBody = unescapedText(limits.body).nullish();
const unescapedFields = fields.extend({ html: unescapedBody, text: unescapedBody });

const templatedFields = fields.extend({
  from: mailbox.nullish(),
  subject: line(limits.subject).nullish(),
  html: omitted,
  text: omitted,
  template: templateUse,
});

/** For the reference: requests with and without a template as one schema. */
export const shownSendRequest = fields
  .extend({
    from: mailbox
      .nullish()
      .describe('The sender, on a verified domain: `a@b.c` or `Name <a@b.c>`. Required unless the template has one.'),
    subject: line(limits.subject).nullish().describe('The subject line. Required unless the template has one.'),
    html: fields.shape.html.describe('The body as HTML. Without a template, html or text is required.'),
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

/** The fields that do not depend on a template. */
function common(input: z.output<typeof fields> | z.output<typeof templatedFields>) {
  return {
    to: input.to,
    cc: input.cc ?? [],
    bcc: input.bcc ?? [],
    replyTo: input.reply_to ?? [],
    headers: input.headers ?? [],
    tags: input.tags ?? [],
    attachments: input.attachments ?? [],
    scheduledAt: input.scheduled_at ?? null,
    type: input.type ?? 'transactional',
    tls: input.tls ?? 'opportunistic',
    onUncertain: input.on_uncertain ?? 'retry',
  };
}

function withBodies(input: z.output<typeof fields>, context: z.RefinementCtx): SendRequest {
  const { from, subject, html, text: plainText } = input;
  const request = {
    ...common(input),
    from,
    subject,
    // Mail programs might show an empty part instead of the other one.
    html: html || null,
    text: plainText || null,
  };
  refuse(request, context);
  if (!html && !plainText) context.addIssue({ code: 'custom', path: ['html'], message: 'html or text is required' });
  return request;
}

const plain = fields.transform(withBodies);
const unescaped = unescapedFields.transform(withBodies);

const templated = templatedFields.transform((input, context): TemplatedRequest => {
  const { from, subject, template } = input;
  const request = { ...common(input), from: from ?? null, subject: subject ?? null, template };
  refuse(request, context);
  return request;
});

/** The body of `POST /api/v1/emails`, and each item of a batch. The required fields depend on whether it has a template. */
export const sendRequest = either(plain);

/** Like `sendRequest`, for JSON without `\u`. */
export const unescapedSendRequest = either(unescaped);

function either(withoutTemplate: typeof plain | typeof unescaped) {
  return z.unknown().transform((input, context): Sendable => {
    const template = (input as { template?: unknown } | null)?.template ?? null;
    if (typeof input !== 'object' || input === null || Array.isArray(input)) {
      context.addIssue('must be an object');
      return z.NEVER;
    }
    const schema = template === null ? withoutTemplate : templated;
    const { fault, value } = examine(schema as z.ZodType<Sendable>, input);
    if (!fault) return value;
    context.addIssue({ code: 'custom', ...fault });
    return z.NEVER;
  });
}

/** Reports conflicts between fields that are valid by themselves. */
function refuse(request: ReturnType<typeof common>, context: z.RefinementCtx): void {
  const { to, cc, bcc, attachments, headers: custom } = request;
  const issueAt = (path: PropertyKey[], message: string) => context.addIssue({ code: 'custom', path, message });
  const issue = (path: string, message: string) => issueAt([path], message);
  if (to.length === 0) issue('to', 'must name at least one recipient');
  if (to.length + cc.length + bcc.length > limits.recipients)
    issue('to', `to, cc and bcc must have at most ${limits.recipients} addresses together`);
  if (attachments.reduce((sum, { content }) => sum + content.length, 0) > limits.attachmentsBytes)
    issue('attachments', 'are larger than 20 MB together');
  const ids = attachments.map(({ contentId }) => contentId);
  const second = ids.findIndex((id, index) => id !== null && ids.indexOf(id) < index);
  // Mail programs would show one of the two files in both places.
  if (second >= 0)
    issueAt(
      ['attachments', second, 'content_id'],
      `is already used by attachments[${ids.indexOf(ids[second] ?? null)}]`,
    );
  const first = new Map<string, string>();
  for (const { name } of custom) {
    const before = first.get(name.toLowerCase());
    if (before !== undefined) issueAt(['headers', name], `is the same header as ${before}`);
    first.set(name.toLowerCase(), name);
  }
}
