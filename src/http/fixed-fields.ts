import { isDeepStrictEqual } from 'node:util';
import * as log from '../core/log/email-log.ts';
import type { Database } from '../db/client.ts';
import { ApiError } from '../errors.ts';
import * as present from './present.ts';
import { fields } from './send-request.ts';
import { isEmpty } from './unknown-members.ts';
import { refusedField } from './validation.ts';

const { scheduled_at: _, ...stays } = fields.shape;
const fixed = [...Object.keys(stays), 'template'];

/**
 * Refuses fields in the change of an email that would change what was accepted, such as other recipients. A field with its
 * accepted or shown value passes, so that a client may send an email back with another time. Files and a template are
 * always refused: only what was made of them is stored, so they cannot be compared.
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
  const named = fixed.filter((name) => Array.isArray(body[name]) || !isEmpty(body[name]));
  if (named.length === 0) return;
  const { email, ...parts } = await log.get(db, accountId, id);
  const answered: Record<string, unknown> = {
    ...present.emailDetail(email, parts),
    ...(await said(db, accountId, id)),
  };
  const isSame = (name: string, value: unknown) => isDeepStrictEqual([body[name]].flat(), listed(value));
  // The shown `to` is only the first recipient.
  for (const name of named)
    if (!isSame(name, answered[name]) && !(name === 'to' && isSame(name, email.to)))
      throw refusedField(name, 'stays as it was accepted: only scheduled_at can be changed');
}

/** The content of the email; empty if it is no longer kept. */
async function said(db: Database, accountId: string, id: string) {
  try {
    const { html, text, headers } = await log.content(db, accountId, id);
    return { html, text, headers: Object.fromEntries(headers.map(({ name, value }) => [name, value])) };
  } catch (error) {
    if (error instanceof ApiError && error.status === 410) return {};
    throw error;
  }
}

const listed = (value: unknown) => (isEmpty(value) ? [] : [value].flat());
