import { detectMimeType } from 'nodemailer/lib/mime-funcs';
import { z } from 'zod';
import type { SendRequest } from '../core/draft.ts';
import { refuseAttachment } from '../mail/attachments.ts';
import { refuseHeader } from '../mail/headers.ts';
import { line, list, mailbox, mailboxes, oneOf, text, timestamp } from './validation.ts';

const MB = 1024 * 1024;

/** The limits of one email, all on decoded bytes or on characters. */
export const limits = {
  recipients: 100,
  subject: 998,
  body: 5 * MB,
  tags: 50,
  headers: 50,
  attachments: 10,
  attachmentBytes: 10 * MB,
  attachmentsBytes: 20 * MB,
  scheduleAheadMs: 366 * 86_400_000,
};

/** A time this little in the past is a clock that is behind, not a mistake. */
const pastToleranceMs = 60_000;

const attachment = z
  .object({
    filename: line(1_000).transform(withoutPath),
    content: z
      .string({ error: (issue) => (issue.input === undefined ? 'is required' : 'must be a base64 string') })
      .transform((value, context) => {
        const bytes = Buffer.from(value, 'base64');
        // Node decodes whatever it is given; only what encodes back to the same was base64.
        if (bytes.toString('base64') === value) return bytes;
        context.addIssue('is not base64');
        return z.NEVER;
      }),
    content_type: line(500).nullish(),
    content_id: line(200).nullish(),
  })
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
    if (refused) context.addIssue(refused);
  });

const headers = z
  .custom<Record<string, unknown>>(
    (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
    'must be an object',
  )
  .transform((value, context) => {
    if (Object.keys(value).length > limits.headers) {
      context.addIssue(`may have ${limits.headers} entries at the most`);
      return z.NEVER;
    }
    return Object.entries(value).flatMap(([name, content]) => {
      const refused = typeof content === 'string' ? refuseHeader(name, content) : 'must be a string';
      if (refused) context.addIssue({ code: 'custom', path: [name], message: refused });
      return typeof content === 'string' ? [{ name, value: content }] : [];
    });
  });

/** A time to send at: not in the past, and within a year. */
export const scheduledAt = timestamp.superRefine((at, context) => {
  const ahead = at.getTime() - Date.now();
  if (ahead < -pastToleranceMs) context.addIssue('is in the past');
  if (ahead > limits.scheduleAheadMs) context.addIssue('is more than a year ahead');
});

/** Null counts as absent: many clients send every field that they know. */
const fields = z.object({
  from: mailbox,
  to: mailboxes(limits.recipients),
  cc: mailboxes(limits.recipients).nullish(),
  bcc: mailboxes(limits.recipients).nullish(),
  reply_to: mailboxes(limits.recipients).nullish(),
  subject: line(limits.subject),
  html: text(limits.body).nullish(),
  text: text(limits.body).nullish(),
  template: z.unknown().optional(),
  headers: headers.nullish(),
  tags: list(line(256), limits.tags).nullish(),
  attachments: list(attachment, limits.attachments).nullish(),
  scheduled_at: scheduledAt.nullish(),
  type: oneOf(['transactional', 'marketing']).nullish(),
});

/** The body of `POST /api/v1/emails`, and of each item of a batch. */
export const sendRequest = fields.transform((input, context): SendRequest => {
  const request: SendRequest = {
    from: input.from,
    to: input.to,
    cc: input.cc ?? [],
    bcc: input.bcc ?? [],
    replyTo: input.reply_to ?? [],
    subject: input.subject,
    html: input.html ?? null,
    text: input.text ?? null,
    headers: input.headers ?? [],
    tags: input.tags ?? [],
    attachments: input.attachments ?? [],
    scheduledAt: input.scheduled_at ?? null,
    type: input.type ?? 'transactional',
  };
  for (const { path, message } of refusals(request, input.template))
    context.addIssue({ code: 'custom', path: [path], message });
  return request;
});

/** What is wrong between fields that are each right. */
function* refusals(request: SendRequest, template: unknown): Generator<{ path: string; message: string }> {
  const { to, cc, bcc, html, text: plain, attachments, headers: custom } = request;
  if (template !== undefined && template !== null)
    yield { path: 'template', message: 'there is no such published template' };
  if (to.length === 0) yield { path: 'to', message: 'must name at least one recipient' };
  if (to.length + cc.length + bcc.length > limits.recipients) {
    yield { path: 'to', message: `to, cc and bcc together may have ${limits.recipients} addresses at the most` };
  }
  if (!html && !plain) yield { path: 'html', message: 'html or text is required' };
  if (attachments.reduce((sum, { content }) => sum + content.length, 0) > limits.attachmentsBytes) {
    yield { path: 'attachments', message: 'are larger than 20 MB together' };
  }
  const names = custom.map(({ name }) => name.toLowerCase());
  if (new Set(names).size < names.length) yield { path: 'headers', message: 'name a header twice' };
}

/** The last component, whichever system's path it was. */
function withoutPath(filename: string): string {
  return filename.split(/[/\\]/).at(-1) ?? '';
}
