import { longestBody, longestSubject } from '../../mail/text/text-limits.ts';

const MB = 1024 * 1024;

/** The limits of one email from any interface, in decoded bytes or characters. */
export const limits = {
  recipients: 100,
  subject: longestSubject,
  body: longestBody,
  tags: 50,
  tag: 256,
  headers: 50,
  attachments: 10,
  attachmentBytes: 10 * MB,
  attachmentsBytes: 20 * MB,
  scheduleAheadMs: 366 * 86_400_000,
  idempotencyKey: 256,
};

/** A `scheduled_at` this little in the past comes from a slow clock, not from a mistake. */
export const pastToleranceMs = 60_000;
