import type { Database, Sql } from '../db/client.ts';
import { ApiError, forbidden, fromDomainNotVerified, quotaExceeded } from '../errors.ts';
import type { Email } from '../generated/prisma/client.ts';
import type { Queue } from '../queue.ts';
import { type Draft, draft, type SendRequest } from './draft.ts';
import { store } from './draft-rows.ts';
import * as idempotency from './idempotency.ts';
import type { KeyHolder } from './keys.ts';
import { lineUp } from './mail-lines.ts';
import * as plans from './plans.ts';
import { senderDomains } from './sender-domains.ts';
import * as suppressions from './suppressions.ts';
import { resolve, type Sendable } from './template-sending.ts';
import { type EmailEvent, emit } from './webhooks.ts';

export type Accepted = { email: Email } | { refusal: ApiError };

/**
 * Accepts emails: one, or a whole batch, with the same number of statements. Each is refused or accepted on its own; all
 * that are accepted are committed together with their recipients, contents and jobs before this returns.
 *
 * @returns one entry for each request, in order
 */
export async function accept(db: Database, queue: Queue, holder: KeyHolder, requests: Sendable[]): Promise<Accepted[]> {
  const { results, told } = await db.transaction((tx) => acceptIn(tx, queue, holder, requests));
  wake(queue, told);
  return results;
}

/**
 * The same for a call with an idempotency key: however often and however parallel it is made, the emails are accepted
 * once and every call gets the first answer.
 *
 * @param respond makes the answer from the results; what it throws undoes everything, and the key stays free
 * @throws ApiError 409 when the key was used with another request
 */
export async function acceptOnce(
  db: Database,
  queue: Queue,
  holder: KeyHolder,
  requests: Sendable[],
  call: idempotency.Idempotency,
  respond: (results: Accepted[]) => unknown,
): Promise<{ response: unknown; replayed: boolean }> {
  const answer = await db.transaction(async (tx) => {
    const first = await idempotency.take(tx, holder.accountId, call);
    if (first) return { response: first.response, replayed: true, told: 0 };
    const { results, told } = await acceptIn(tx, queue, holder, requests);
    const response = respond(results);
    await idempotency.keep(tx, holder.accountId, call.key, response);
    return { response, replayed: false, told };
  });
  if (!answer.replayed) wake(queue, answer.told);
  return answer;
}

function wake(queue: Queue, told: number): void {
  queue.wake();
  if (told > 0) queue.webhooks.wake();
}

async function acceptIn(
  tx: Sql,
  queue: Queue,
  holder: KeyHolder,
  sendables: Sendable[],
): Promise<{ results: Accepted[]; told: number }> {
  const resolved = await resolve(tx, holder.accountId, sendables);
  const requests = resolved.filter((request): request is SendRequest => !(request instanceof ApiError));
  const domains = await senderDomains(
    tx,
    holder.accountId,
    requests.map(({ from }) => from.domain),
  );
  const addresses = requests.flatMap(({ to, cc, bcc }) => [...to, ...cc, ...bcc].map((mailbox) => mailbox.address));
  const suppressed = await suppressions.find(tx, holder.accountId, addresses);
  const now = new Date();
  const results = resolved.map((request): Drafted => {
    if (request instanceof ApiError) return { refusal: request };
    const name = request.from.domain;
    if (holder.domains.length > 0 && !holder.domains.includes(name)) return { refusal: forbidden() };
    const domainId = domains.get(name);
    if (!domainId) return { refusal: fromDomainNotVerified(`from: ${name} is not a verified domain of this account`) };
    return { draft: draft(request, holder, domainId, suppressed, now) };
  });
  const paid = await withinPlan(tx, holder, results);
  const drafts = await lineUp(
    tx,
    holder.accountId,
    paid.flatMap((result) => ('draft' in result ? [result.draft] : [])),
  );
  if (drafts.length > 0) await store(tx, queue, holder.accountId, drafts);
  const told = await emit(
    tx,
    queue,
    drafts.map(({ email }) => eventOf(email)),
  );
  return { results: paid.map((result) => ('draft' in result ? { email: result.draft.email } : result)), told };
}

const eventOf = (email: Email): EmailEvent => ({
  type: email.status === 'suppressed' ? 'email.suppressed' : 'email.queued',
  accountId: email.accountId,
  createdAt: email.createdAt,
  email,
});

type Drafted = { draft: Draft } | { refusal: ApiError };

/** Charges for what is to be queued; what the plan does not allow any more, the last of it first, is refused. */
async function withinPlan(tx: Sql, holder: KeyHolder, results: Drafted[]): Promise<Drafted[]> {
  const isCharged = (result: Drafted) => 'draft' in result && result.draft.email.status === 'queued';
  const wanted = results.filter(isCharged).length;
  if (wanted === 0 || !plans.isCounted(holder.plan)) return results;
  const { granted, dayIsFull } = await plans.charge(tx, holder.accountId, wanted);
  if (granted >= wanted) return results;
  const { detail, retryAfter } = plans.whyExceeded(holder.plan, dayIsFull, new Date());
  let left = granted;
  return results.map((result) => {
    if (!isCharged(result) || left-- > 0) return result;
    return { refusal: quotaExceeded(retryAfter, detail) };
  });
}
