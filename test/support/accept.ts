import { type Accepted, answerAll } from '../../src/core/emails.ts';
import type { KeyHolder } from '../../src/core/keys.ts';
import type { Sendable } from '../../src/core/template-sending.ts';
import type { Database } from '../../src/db/client.ts';
import type { Queue } from '../../src/queue.ts';

/** Accepts emails as one call: one entry for each request, in order. */
export async function accept(db: Database, queue: Queue, holder: KeyHolder, requests: Sendable[]): Promise<Accepted[]> {
  let accepted: Accepted[] = [];
  const respond = (results: Accepted[]) => {
    accepted = results;
  };
  await answerAll(db, queue, holder, [{ requests, idempotency: null, respond }]);
  return accepted;
}
