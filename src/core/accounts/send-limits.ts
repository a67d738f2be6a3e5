import { longest } from '../../mail/template.ts';

const MB = 1024 * 1024;

/** The limits of one email, however it comes in, all on decoded bytes or on characters. */
export const limits = {
  recipients: 100,
  ...longest,
  tags: 50,
  tag: 256,
  headers: 50,
  attachments: 10,
  attachmentBytes: 10 * MB,
  attachmentsBytes: 20 * MB,
  scheduleAheadMs: 366 * 86_400_000,
  idempotencyKey: 256,
};

/** A time this little in the past is a clock that is behind, not a mistake. */
export const pastToleranceMs = 60_000;
