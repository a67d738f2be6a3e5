import type { Database, Sql } from '../../db/client.ts';
import { ApiError, fromDomainNotVerified, quotaExceeded } from '../../errors.ts';
import type { Email } from '../../generated/prisma/client.ts';
import type { Queue } from '../../queue.ts';
import * as idempotency from '../accounts/idempotency.ts';
import type { Sender } from '../accounts/keys.ts';
import * as plans from '../accounts/plans.ts';
import { refusalOfKey, sendersNow } from '../domains/sender-domains.ts';
import * as suppressions from '../returns/suppressions.ts';
import { type EmailEvent, emit } from '../webhooks/webhooks.ts';
import { type Draft, draft, refusalOfPlace, type SendRequest } from './draft.ts';
import { store } from './draft-rows.ts';
import type { FreshBodies } from './fresh-bodies.ts';
import { lineUp } from './mail-lines.ts';
import { resolve, type Sendable } from './template-sending.ts';

export type Accepted = { email: Email } | { refusal: ApiError };

/** A request to send emails, which gets one answer. */
export interface SendCall {
  requests: Sendable[];
  /** If it has a key, its emails are accepted once, however often and however concurrently it is made. */
  idempotency: idempotency.Idempotency | null;
  /** Makes the answer from the results; if it throws, nothing is sent. Its idempotency key stays free if none is accepted. */
  respond: (results: Accepted[]) => unknown;
}

/** The answer to a call; `replayed`: an earlier call with its key got this answer. */
export type SendAnswer = { response: unknown; replayed: boolean } | { error: unknown };

/**
 * Accepts the emails of calls that one API key makes together, with the same number of statements for one email and for a
 * whole batch. Each email is refused or accepted on its own; all accepted ones are committed together with their
 * recipients, contents and jobs before this returns.
 *
 * @param calls no two with the same idempotency key
 * @param fresh keeps the bodies for this process, which sends them soon
 * @returns one answer for each call, in order
 * @throws Error if several are too large together: each may be accepted alone
 */
export async function answerAll(
  db: Database,
  queue: Queue,
  sender: Sender,
  calls: SendCall[],
  fresh?: FreshBodies,
): Promise<SendAnswer[]> {
  const { answers, told, stored } = await db.transaction((tx) => answerIn(tx, queue, sender, calls));
  if (stored) fresh?.keep(stored.version, stored.drafts);
  queue.wake();
  if (told > 0) queue.webhooks.wake();
  return answers;
}

/** What remains to be done after the commit. */
interface Effects {
  /** Deliveries to webhook endpoints. */
  told: number;
  stored: { version: string; drafts: Draft[] } | null;
}

async function answerIn(
  tx: Sql,
  queue: Queue,
  sender: Sender,
  calls: SendCall[],
): Promise<{ answers: SendAnswer[] } & Effects> {
  const keyed = calls.flatMap((call) => (call.idempotency ? [call.idempotency] : []));
  const taken = (await idempotency.take(tx, sender.accountId, keyed)).values();
  const turns = calls.map((call) => (call.idempotency ? (taken.next().value ?? 'first') : 'first'));
  const first = calls.flatMap(({ requests }, index) => (turns[index] === 'first' ? requests : []));
  const { results, ...effects } = await acceptIn(tx, queue, sender, first);
  // Rendered templates of all calls share one limit: to know which call is too large, each has to be tried alone.
  if (calls.length > 1 && results.some((result) => 'refusal' in result && result.refusal.status === 413))
    throw new Error('too large to be committed together');
  const kept: { key: string; response: unknown }[] = [];
  const free: string[] = [];
  const answers = calls.map((call, index): SendAnswer => {
    const turn = turns[index] ?? 'first';
    if (turn instanceof ApiError) return { error: turn };
    if (turn !== 'first') return { ...turn, replayed: true };
    const own = results.splice(0, call.requests.length);
    const answer = respondTo(call, own);
    const key = call.idempotency?.key;
    if (key === undefined) return answer;
    // A batch is answered even if all of it was refused; that is no success, and a repetition must be tried anew.
    if ('response' in answer && own.some(isAccepted)) kept.push({ key, response: answer.response });
    else free.push(key);
    return answer;
  });
  await idempotency.keep(tx, sender.accountId, kept, free);
  return { answers, ...effects };
}

const isAccepted = (result: Accepted) => 'email' in result;

/** If all emails of a call were refused, an error of `respond` is the answer; otherwise it undoes the transaction. */
function respondTo({ respond }: SendCall, results: Accepted[]): SendAnswer {
  try {
    return { response: respond(results), replayed: false };
  } catch (error) {
    if (results.some(isAccepted)) throw error;
    return { error };
  }
}

async function acceptIn(
  tx: Sql,
  queue: Queue,
  sender: Sender,
  sendables: Sendable[],
): Promise<{ results: Accepted[] } & Effects> {
  const resolved = await resolve(tx, sender.accountId, sendables);
  const requests = resolved.filter((request): request is SendRequest => !(request instanceof ApiError));
  const { domains, now } = await sendersNow(
    tx,
    sender.accountId,
    requests.map(({ from }) => from.domain),
  );
  const addresses = requests.flatMap(({ to, cc, bcc }) => [...to, ...cc, ...bcc].map((mailbox) => mailbox.address));
  const suppressed = await suppressions.find(tx, sender.accountId, addresses);
  const results = resolved.map((request): Drafted => {
    if (request instanceof ApiError) return { refusal: request };
    const name = request.from.domain;
    const refusal = refusalOfKey(sender, name) ?? refusalOfPlace(request);
    if (refusal) return { refusal };
    const domainId = domains.get(name);
    if (!domainId) return { refusal: fromDomainNotVerified(name) };
    return { draft: draft(request, sender, domainId, suppressed, now) };
  });
  const paid = await withinPlan(tx, sender, results);
  const drafts = paid.flatMap((result) => ('draft' in result ? [result.draft] : []));
  const stored =
    drafts.length > 0
      ? {
          version: await store(tx, queue, sender.accountId, drafts, await lineUp(tx, sender.accountId, drafts, now)),
          drafts,
        }
      : null;
  const told = await emit(
    tx,
    queue,
    drafts.map(({ email }) => eventOf(email)),
  );
  return { results: paid.map((result) => ('draft' in result ? { email: result.draft.email } : result)), told, stored };
}

const eventOf = (email: Email): EmailEvent => ({
  type: email.status === 'suppressed' ? 'email.suppressed' : 'email.queued',
  accountId: email.accountId,
  createdAt: email.createdAt,
  email,
});

type Drafted = { draft: Draft } | { refusal: ApiError };

/** Charges for the emails that are to be queued; those that exceed the plan are refused, the last ones first. */
async function withinPlan(tx: Sql, sender: Sender, results: Drafted[]): Promise<Drafted[]> {
  const isCharged = (result: Drafted) => 'draft' in result && result.draft.email.status === 'queued';
  const wanted = results.filter(isCharged).length;
  if (wanted === 0 || !plans.isCounted(sender.plan)) return results;
  const { granted, dayIsFull } = await plans.charge(tx, sender.accountId, wanted);
  if (granted >= wanted) return results;
  const { detail, retryAfter } = plans.whyExceeded(sender.plan, dayIsFull, new Date());
  let left = granted;
  return results.map((result) => {
    if (!isCharged(result) || left-- > 0) return result;
    return { refusal: quotaExceeded(retryAfter, detail) };
  });
}
