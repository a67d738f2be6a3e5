import type { Database, Sql } from '../../db/client.ts';
import { ApiError, fromDomainNotVerified, quotaExceeded } from '../../errors.ts';
import type { Email, SuppressionReason } from '../../generated/prisma/client.ts';
import { byWeight } from '../../pace/by-weight.ts';
import { givingWay, Pace } from '../../pace/give-way.ts';
import type { Queue } from '../../queue.ts';
import * as idempotency from '../accounts/idempotency.ts';
import type { Sender } from '../accounts/keys.ts';
import * as plans from '../accounts/plans.ts';
import { addedDomains, refusalOfKey, sendersNow } from '../domains/sender-domains.ts';
import * as suppressions from '../returns/suppressions.ts';
import { type EmailEvent, emit } from '../webhooks/webhooks.ts';
import { type Draft, draft, refusalOfPlace, type SendRequest } from './draft.ts';
import { store } from './draft-rows.ts';
import type { FreshBodies } from './fresh-bodies.ts';
import { lineUp } from './mail-lines.ts';
import { resolve, type Sendable } from './template-sending.ts';

/** What became of one email of a call. */
export type Accepted = { email: Email } | { refusal: ApiError };

/** A call that sends emails, and gets one answer. */
export interface SendCall {
  requests: Sendable[];
  /** If it has a key, its emails are accepted once, even if it is made several times, or several times at once. */
  idempotency: idempotency.Idempotency | null;
  /** Makes the answer from the results. If it throws, nothing is sent. */
  respond: (results: Accepted[]) => unknown;
}

/** The answer to a call; `replayed`: an earlier call with its key got this answer. */
export type SendAnswer = { response: unknown; replayed: boolean } | { error: unknown };

/**
 * Accepts the emails of calls that one API key makes together, with the same number of statements for one email and for a
 * whole batch, unless that has thousands of recipients. Each email is accepted or refused by itself. All accepted ones are
 * committed together, with their recipients, contents and jobs, before this returns. The idempotency key of a call without an
 * accepted email stays free.
 *
 * @param calls no two have the same idempotency key
 * @param fresh keeps the bodies for this process, which sends them soon
 * @returns one answer for each call, in order
 * @throws Error if several calls are too large together: each may be accepted alone
 */
export async function answerAll(
  db: Database,
  queue: Queue,
  sender: Sender,
  calls: SendCall[],
  fresh: FreshBodies,
): Promise<SendAnswer[]> {
  const { answers, priority, webhookDeliveries, stored } = await db.transaction((tx) =>
    answerIn(tx, queue, sender, calls),
  );
  if (stored) fresh.keep(stored.version, stored.drafts);
  queue.wake(priority);
  if (webhookDeliveries > 0) queue.webhooks.wake();
  return answers;
}

/** What the work after the commit depends on. */
interface Committed {
  /** The best of the jobs. */
  priority?: number;
  webhookDeliveries: number;
  stored: { version: string; drafts: Draft[] } | null;
}

/** Accepts the emails of the calls that are the first with their key, and makes the answers. */
async function answerIn(
  tx: Sql,
  queue: Queue,
  sender: Sender,
  calls: SendCall[],
): Promise<{ answers: SendAnswer[] } & Committed> {
  const keyed = calls.flatMap((call) => call.idempotency ?? []);
  const taken = await idempotency.take(tx, sender.accountId, keyed);
  const turns = new Map(keyed.map(({ key }, index) => [key, taken[index]]));
  const turnOf = (call: SendCall) => (call.idempotency && turns.get(call.idempotency.key)) ?? 'first';
  const first = calls.flatMap((call) => (turnOf(call) === 'first' ? call.requests : []));
  const { results, ...committed } = await acceptIn(tx, queue, sender, first);
  // The rendered templates of all calls share one limit: to find out which call is too large, each has to be tried alone.
  if (calls.length > 1 && results.some((result) => 'refusal' in result && result.refusal.status === 413))
    throw new Error('too large to be committed together');
  const kept: { key: string; response: unknown }[] = [];
  const free: string[] = [];
  const answers = calls.map((call): SendAnswer => {
    const turn = turnOf(call);
    if (turn instanceof ApiError) return { error: turn };
    if (turn !== 'first') return { ...turn, replayed: true };
    const own = results.splice(0, call.requests.length);
    const answer = respondTo(call, own);
    const key = call.idempotency?.key;
    if (key === undefined) return answer;
    // A batch is answered even if all of its emails were refused. A repetition of it must be tried anew.
    if ('response' in answer && own.some(isAccepted)) kept.push({ key, response: answer.response });
    else free.push(key);
    return answer;
  });
  await idempotency.keep(tx, sender.accountId, kept, free);
  return { answers, ...committed };
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

/** How long laying out a batch may hold up everything else, in ms: giving way prolongs a transaction, and few batches need it. */
const layingOutMs = 25;

/** Accepts the emails that can be, and stores them. */
async function acceptIn(
  tx: Sql,
  queue: Queue,
  sender: Sender,
  sendables: Sendable[],
): Promise<{ results: Accepted[] } & Committed> {
  const resolved = await resolve(tx, sender.accountId, sendables);
  const requests = resolved.filter((request): request is SendRequest => !(request instanceof ApiError));
  const names = requests.map(({ from }) => from.domain);
  const { domains, now } = await sendersNow(tx, sender.accountId, names);
  const unverified = names.filter((name) => !domains.has(name));
  const added = await addedDomains(tx, sender.accountId, unverified);
  const suppressed = await findSuppressed(tx, sender.accountId, requests);
  const drafted = await givingWay(
    resolved,
    (request): Drafted => {
      if (request instanceof ApiError) return { refusal: request };
      const { domain } = request.from;
      const refusal = refusalOfKey(sender, domain) ?? refusalOfPlace(request);
      if (refusal) return { refusal };
      const domainId = domains.get(domain);
      if (!domainId) return { refusal: fromDomainNotVerified(domain, added.has(domain)) };
      return { draft: draft(request, sender, domainId, suppressed, now) };
    },
    new Pace(layingOutMs),
  );
  const charged = await withinPlan(tx, sender, drafted);
  const results = charged.map((result) => ('draft' in result ? { email: result.draft.email } : result));
  const drafts = charged.flatMap((result) => ('draft' in result ? [result.draft] : []));
  if (drafts.length === 0) return { results, webhookDeliveries: 0, stored: null };
  const linedUp = await lineUp(tx, sender.accountId, drafts, now);
  const version = await store(tx, queue, sender.accountId, drafts, linedUp);
  const events = drafts.map(eventOf);
  const webhookDeliveries = await emit(tx, queue, events);
  const priority = linedUp.jobs.reduce((best, job) => Math.max(best, job.priority), 0);
  return { results, priority, webhookDeliveries, stored: { version, drafts } };
}

/** Addresses that are looked up together: more of them would hold up everything else. */
const addressesAtOnce = 5_000;

async function findSuppressed(
  tx: Sql,
  accountId: string,
  requests: SendRequest[],
): Promise<Map<string, SuppressionReason>> {
  const lists = requests.map(({ to, cc, bcc }) => [...to, ...cc, ...bcc]);
  const found = new Map<string, SuppressionReason>();
  for (const some of byWeight(lists, addressesAtOnce, ({ length }) => length)) {
    const addresses = some.flat().map(({ address }) => address);
    for (const [address, reason] of await suppressions.find(tx, accountId, addresses)) found.set(address, reason);
  }
  return found;
}

function eventOf({ email, refusals }: Draft): EmailEvent {
  const { accountId, createdAt } = email;
  if (refusals.length === 0) return { type: 'email.queued', accountId, createdAt, email };
  const recipients = refusals.map(({ address, reason }) => ({
    address,
    status: 'suppressed' as const,
    response: `the address is on the suppression list (${reason})`,
  }));
  return { type: 'email.suppressed', accountId, createdAt, email, recipients };
}

type Drafted = { draft: Draft } | { refusal: ApiError };

/** Charges for the emails that are to be queued; those that exceed the plan are refused, the last ones first. */
async function withinPlan(tx: Sql, sender: Sender, results: Drafted[]): Promise<Drafted[]> {
  const isCharged = (result: Drafted) => 'draft' in result && result.draft.email.status === 'queued';
  const wanted = results.filter(isCharged).length;
  if (wanted === 0 || !plans.isCounted(sender.plan)) return results;
  const { granted, onlyDayIsFull, now } = await plans.charge(tx, sender.accountId, wanted);
  if (granted >= wanted) return results;
  const { detail, retryAfter } = plans.whyExceeded(sender.plan, onlyDayIsFull, now);
  let left = granted;
  return results.map((result) => {
    if (!isCharged(result) || left-- > 0) return result;
    return { refusal: quotaExceeded(retryAfter, detail) };
  });
}
