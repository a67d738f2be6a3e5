import { isDeepStrictEqual } from 'node:util';
import * as log from '../core/email-log.ts';
import type { Database } from '../db/client.ts';
import { invalidRequest } from '../errors.ts';
import * as present from './present.ts';

/** Fields of a request to send, by what is answered with them. */
const answered = ['from', 'to', 'cc', 'bcc', 'reply_to', 'subject', 'tags', 'type', 'tls', 'on_uncertain'] as const;
const unanswered = ['html', 'text', 'headers', 'attachments', 'template'] as const;

/**
 * For a change of an email, of which what was accepted stays: who names a part of that wants it otherwise. Not so where it is
 * as the email was answered with, which may be sent back with another time.
 *
 * @throws ApiError 400 that names the first, or 404
 */
export async function refuseFixedFields(
  db: Database,
  accountId: string,
  id: string,
  body: Record<string, unknown>,
): Promise<void> {
  const asked = unanswered.find((name) => !isEmpty(body[name]));
  if (asked) throw fixed(asked);
  const named = answered.filter((name) => body[name] !== undefined && body[name] !== null);
  if (named.length === 0) return;
  const { email, ...parts } = await log.get(db, accountId, id);
  const shown = present.emailDetail(email, parts);
  for (const name of named) {
    const given = listOf(body[name]);
    const isAsItWas = isDeepStrictEqual(given, listOf(shown[name]));
    // Only the first is answered with.
    if (!isAsItWas && !(name === 'to' && isDeepStrictEqual(given, email.to))) throw fixed(name);
  }
}

const fixed = (name: string) => invalidRequest(`${name}: stays as it was accepted: only scheduled_at can be changed`);

const listOf = (value: unknown) => (Array.isArray(value) ? value : [value]);

const isEmpty = (value: unknown) =>
  value === undefined ||
  value === null ||
  value === '' ||
  (typeof value === 'object' && Object.keys(value).length === 0);
