import { createHash } from 'node:crypto';
import type { Idempotency } from '../core/accounts/idempotency.ts';
import { limits, pastToleranceMs } from '../core/accounts/send-limits.ts';
import type { SendRequest } from '../core/emails/draft.ts';
import { findForeignRequest } from '../mail/headers/foreign-controls.ts';
import type { SubmittedMessage } from '../mail/submission/submission.ts';
import { parseTimestamp } from '../timestamp.ts';
import { badContent } from './refusal.ts';

/** What a message must have instead of another service's header. */
const called = {
  idempotencyKey: 'must be called X-Sendwright-Idempotency-Key',
  scheduledAt: 'must be called X-Sendwright-Scheduled-At',
  type: 'must be called X-Sendwright-Type',
  tls: 'must be called X-Sendwright-TLS',
  to: 'must be recipients of the envelope',
  bcc: 'must be a recipient of the envelope',
  separateEmails: 'must be a separate message for each recipient: all would read who else gets it, with the variables',
  dryRun: 'asks for a test, but the message would be sent: use POST /api/v1/emails?dry_run=true',
};

/** @throws Refusal for another service's control that asks for something, unless our own control is there as well: that counts */
export function refuseForeignControls({ headers, controls }: SubmittedMessage): void {
  const refused = findForeignRequest(headers, called, (asked) => asked in controls);
  if (refused) throw badContent(`${refused.name}: ${refused.words}`);
}

/** The tags, separated by commas. @throws Refusal 554 if there are too many, or one is too long */
export function readTags(text = ''): string[] {
  const tags = text
    .split(',')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '');
  if (tags.length > limits.tags) throw badContent(`X-Sendwright-Tags: must have at most ${limits.tags} entries`);
  if (tags.some((tag) => tag.length > limits.tag))
    throw badContent(`X-Sendwright-Tags: a tag must have at most ${limits.tag} characters`);
  return tags;
}

/** The one of the choices that the header names; the fallback if there is no such header. @throws Refusal for any other text */
export function readChoice<T extends string>(
  header: string,
  choices: readonly T[],
  text: string | undefined,
  fallback: T,
): T {
  if (text === undefined) return fallback;
  const chosen = choices.find((one) => one === text);
  if (chosen) return chosen;
  throw badContent(`${header}: must be one of ${choices.join(', ')}`);
}

/** When to send; null: at once. @throws Refusal if it is not an RFC 3339 timestamp, is past, or more than a year ahead */
export function readTime(text: string | undefined): Date | null {
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
 * Message-ID. Null without a key.
 *
 * @throws Refusal if the key is empty or too long
 */
export function readIdempotency(key: string | undefined, request: SendRequest): Idempotency | null {
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
