import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import * as log from '../core/email-log.ts';
import type { Database } from '../db/client.ts';
import { ApiError, invalidRequest } from '../errors.ts';
import { formatMailbox, type Mailbox } from '../mail/address.ts';
import { isNothing } from './elsewhere.ts';
import { fields } from './send-request.ts';
import { examine } from './validation.ts';

const recorded = ['from', 'to', 'cc', 'bcc', 'reply_to', 'subject', 'tags', 'type', 'tls', 'on_uncertain'] as const;
/** What an email says, of which nothing and an empty one are the same. */
const said = ['html', 'text', 'headers', 'attachments'] as const;

const some = fields.partial();
type Given = z.output<typeof some>;

/**
 * For a change of an email, of which what was accepted stays: who names a part of that wants it otherwise. Not so where it is
 * as it was accepted: the request, or what was answered, may be sent back with another time.
 *
 * @throws ApiError 400 that names the first, or 404
 */
export async function refuseFixedFields(
  db: Database,
  accountId: string,
  id: string,
  body: Record<string, unknown>,
): Promise<void> {
  // What was made from it is stored, and not which one it was.
  if (!isNothing(body.template)) throw fixed('template');
  const ofContent = said.filter((name) => !isNothing(body[name]));
  const named = [...recorded.filter((name) => body[name] !== undefined && body[name] !== null), ...ofContent];
  if (named.length === 0) return;
  const { fault, value } = examine(some, Object.fromEntries(named.map((name) => [name, body[name]])));
  if (fault) throw fixed(String(fault.path[0]));
  const given = asStored(value);
  const stored = await storedFields(db, accountId, id, ofContent.length > 0);
  for (const name of named) {
    const isAsItWas = isDeepStrictEqual(given[name], stored[name]);
    // Only the first is answered with.
    if (!isAsItWas && !(name === 'to' && isDeepStrictEqual(given.to, stored.to.slice(0, 1)))) throw fixed(name);
  }
}

async function storedFields(db: Database, accountId: string, id: string, withContent: boolean) {
  const { email } = await log.get(db, accountId, id);
  const content = withContent ? await log.content(db, accountId, id).catch(noneWhereGone) : null;
  return {
    ...email,
    reply_to: email.replyTo,
    on_uncertain: email.onUncertain,
    html: content?.html,
    text: content?.text,
    headers: content?.headers,
    attachments: content?.attachments.map(({ size: _, ...file }) => file),
  };
}

/** Nobody can say any more that it is the same. */
function noneWhereGone(error: unknown): null {
  if (error instanceof ApiError && error.status === 410) return null;
  throw error;
}

function asStored({ from, to, cc, bcc, reply_to: replyTo, attachments, ...rest }: Given) {
  const all = (mailboxes: Mailbox[] | null | undefined) => mailboxes?.map(formatMailbox);
  const files = attachments?.map(({ content, ...file }) => ({ ...file, sha256: sha256(content) }));
  return {
    ...rest,
    from: from && formatMailbox(from),
    ...{ to: all(to), cc: all(cc), bcc: all(bcc), reply_to: all(replyTo) },
    attachments: files,
  };
}

const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex');

const fixed = (name: string) => invalidRequest(`${name}: stays as it was accepted: only scheduled_at can be changed`);
