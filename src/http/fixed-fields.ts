import { isDeepStrictEqual } from 'node:util';
import * as log from '../core/log/email-log.ts';
import type { Database } from '../db/client.ts';
import { ApiError } from '../errors.ts';
import { sendFields } from './input/send-fields.ts';
import { isEmpty } from './input/unknown-members.ts';
import { refusedField } from './input/validation.ts';
import * as present from './present.ts';

const { scheduled_at: _, ...fixedShape } = sendFields.shape;
const fixedFields = [...Object.keys(fixedShape), 'template'];

/**
 * Refuses fields in the change of an email that would change what was accepted, such as other recipients. A field with its
 * accepted or shown value passes, so that a client may send an email back with another time. Files and a template are
 * always refused: only what was made of them is stored, so they cannot be compared. No files pass only if the email has none.
 *
 * @throws ApiError 400 that names the first such field, or 404
 */
export async function refuseFixedFields(
  db: Database,
  accountId: string,
  id: string,
  body: Record<string, unknown>,
): Promise<void> {
  // Among empty values only a list has a meaning: that there should be none.
  const given = fixedFields.filter((name) => Array.isArray(body[name]) || !isEmpty(body[name]));
  if (given.length === 0) return;
  const { email, ...parts } = await log.get(db, accountId, id);
  const answered: Record<string, unknown> = {
    ...present.emailDetail(email, parts),
    ...(await contentOf(db, accountId, id)),
  };
  for (const name of given) {
    // The `to` of an answer is only the first recipient.
    const isAsAccepted = isSame(body[name], answered[name]) || (name === 'to' && isSame(body[name], email.to));
    if (!isAsAccepted) throw refusedField(name, 'cannot be changed: only scheduled_at can');
  }
}

/** A single value is the same as a list of it. */
const isSame = (given: unknown, answered: unknown) => isDeepStrictEqual([given].flat(), asList(answered));

const asList = (value: unknown) => (isEmpty(value) ? [] : [value].flat());

/** The content of the email in the form of a request; empty if it is no longer kept. */
async function contentOf(db: Database, accountId: string, id: string) {
  try {
    const { headers, ...rest } = await log.content(db, accountId, id);
    return { ...rest, headers: Object.fromEntries(headers.map(({ name, value }) => [name, value])) };
  } catch (error) {
    if (error instanceof ApiError && error.status === 410) return {};
    throw error;
  }
}
