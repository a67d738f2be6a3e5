import { detectMimeType } from 'nodemailer/lib/mime-funcs';
import { z } from 'zod';
import { limits } from '../../core/accounts/send-limits.ts';
import { refuseAttachment, withoutPath } from '../../mail/compose/attachments.ts';
import { line } from './validation.ts';

/** One of the `attachments` of a send request. */
export const attachment = z
  .object(
    {
      filename: line(1_000)
        .transform(withoutPath)
        .describe('The name that the recipient sees, without folders, of at most 255 bytes.'),
      content: z
        .string({
          error: (issue) =>
            issue.input === undefined
              ? 'is required'
              : "must be a base64 string, as buffer.toString('base64') makes it",
        })
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
