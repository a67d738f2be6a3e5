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
 * For a change of an email, of which what was accepted stays: who names a part of that wants it otherwise, such as other
 * recipients. Not so where it is as it was answered, or accepted: that may be sent back with another time. Of a file and a
 * template nobody can say so: what was made of them is stored.
 *
 * @throws ApiError 400 that names the first, or 404
 */
export async function refuseFixedFields(
  db: Database,
  accountId: string,
  id: string,
  body: Record<string, unknown>,
): Promise<void> {
  // Of what is empty a list alone says something: that there are to be none.
  const named = fixed.filter((name) => Array.isArray(body[name]) || !isEmpty(body[name]));
  if (named.length === 0) return;
  const { email, ...parts } = await log.get(db, accountId, id);
  const answered: Record<string, unknown> = {
    ...present.emailDetail(email, parts),
    ...(await said(db, accountId, id)),
  };
  const isSame = (name: string, value: unknown) => isDeepStrictEqual([body[name]].flat(), listed(value));
  // What is answered has the first of all in `to`.
  for (const name of named)
    if (!isSame(name, answered[name]) && !(name === 'to' && isSame(name, email.to)))
      throw refusedField(name, 'stays as it was accepted: only scheduled_at can be changed');
}

/** Nothing, where it is not kept any more. */
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
