import type { KeyHolder } from '../../src/core/accounts/keys.ts';
import type { SendRequest } from '../../src/core/emails/draft.ts';
import { type Accepted, answerAll } from '../../src/core/emails/emails.ts';
import { FreshBodies } from '../../src/core/emails/fresh-bodies.ts';
import type { Sendable } from '../../src/core/emails/template-sending.ts';
import type { Database } from '../../src/db/client.ts';
import { parseMailbox } from '../../src/mail/address/address.ts';
import type { Queue } from '../../src/queue.ts';

/** Accepts emails as one call: one entry per request, in order. */
export async function accept(db: Database, queue: Queue, holder: KeyHolder, requests: Sendable[]): Promise<Accepted[]> {
  let accepted: Accepted[] = [];
  const respond = (results: Accepted[]) => {
    accepted = results;
  };
  await answerAll(db, queue, holder, [{ requests, idempotency: null, respond }], new FreshBodies({ room: 0 }));
  return accepted;
}

/** An email for which only the sender, the recipients and the given fields matter. */
export const requestOf = (from: string, to: string[], fields: Partial<SendRequest> = {}): SendRequest => ({
  from: parseMailbox(from),
  to: to.map((address) => parseMailbox(address)),
  cc: [],
  bcc: [],
  replyTo: [],
  subject: 's',
  html: null,
  text: 't',
  headers: [],
  attachments: [],
  tags: [],
  type: 'transactional',
  tls: 'opportunistic',
  onUncertain: 'retry',
  scheduledAt: null,
  ...fields,
});
