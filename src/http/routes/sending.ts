import type Router from '@koa/router';
import type { Context } from 'koa';
import { z } from 'zod';
import { answerTo } from '../../core/accounts/idempotency.ts';
import * as keys from '../../core/accounts/keys.ts';
import { limits } from '../../core/accounts/send-limits.ts';
import { Acceptance } from '../../core/emails/acceptance.ts';
import type { Accepted } from '../../core/emails/emails.ts';
import type { Sendable } from '../../core/emails/template-sending.ts';
import { resendable } from '../../core/orders/resending.ts';
import * as scheduling from '../../core/orders/scheduling.ts';
import { stop } from '../../core/orders/stopping.ts';
import { stopMatching } from '../../core/orders/stopping-matching.ts';
import { release, releases } from '../../core/orders/uncertainty.ts';
import { dryRun } from '../../core/outgoing/dry-run.ts';
import { stoppedNote } from '../../core/recipients/settlement.ts';
import { invalidRequest } from '../../errors.ts';
import type { Logger } from '../../log.ts';
import { grouped } from '../../numbers.ts';
import { AccountTurns, type TurnLimits } from '../../pace/account-turns.ts';
import { givingWay } from '../../pace/give-way.ts';
import { readJson, readJsonObject, readOptionalJson, refuseFields } from '../body/body.ts';
import { demandLoginOrKey, demandWholeAccount, senderOf, sessionOf, takeTurn } from '../credentials/auth.ts';
import { refuseFixedFields } from '../fixed-fields.ts';
import { readIdempotency } from '../idempotency.ts';
import { parseWanted } from '../input/email-search.ts';
import { scheduledAt, sendFields } from '../input/send-fields.ts';
import { sendRequest, unescapedSendRequest } from '../input/send-request.ts';
import { idOf, mailboxes, noSuchField, oneOf, oneOrMore, parse } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

/** Enough for 20 MB of attachments as base64, both bodies, and the overhead of JSON. */
const singleLimit = 40 * 1024 * 1024;
const batchLimit = 64 * 1024 * 1024;
/** Enough for a hundred recipients with names, however they are escaped. */
const resendLimit = 1024 * 1024;
const releaseLimit = 16 * 1024;
const stopLimit = 16 * 1024;
export const mostInBatch = 1_000;
/** More than 1,000 emails with 100 recipients each, and all their other fields, have. */
const mostValuesInBatch = 400_000;

export const sendQuery = z.object({
  dry_run: oneOf(['true', 'false']).optional().describe('`true`: returns what would happen, and sends nothing.'),
});
export const releaseRequest = z.object({
  as: oneOf(releases).describe('`retry`: send it again now; `delivered` or `failed`: settle it with that status.'),
});
/** Only the time of an email can be changed. */
export const move = z.object({ scheduled_at: scheduledAt.describe('The new time to send it, at most a year ahead.') });

export const resendRequest = z.object({
  recipients: mailboxes(limits.recipients)
    .refine((named) => named.length > 0, 'must name at least one recipient')
    .meta(oneOrMore(limits.recipients, 1))
    .describe('The recipients of the email to send it to again, such as those that failed. Omitted: all.')
    .optional(),
});

/** The fields next to the emails, which are parsed one by one. */
export const batchBody = z.object({ emails: z.unknown().optional() });

/** Limited because each resend holds up to 20 MB of files. */
const resendLimits: TurnLimits = { most: 3, mostOfAccount: 2, mostWaiting: 200, patienceMs: 10_000 };

/** Limited because each call has two connections, for as long as it takes to read all that waits. */
const stopLimits: TurnLimits = { most: 3, mostOfAccount: 1, mostWaiting: 200, patienceMs: 10_000 };

/** `POST /emails`, `POST /emails/batch`, `DELETE` and `PATCH /emails/:id` for scheduled emails, `POST /emails/:id/release`, `…/stop` and `…/resend`, and `POST /emails/stop`. */
export function sendingRoutes(router: Router, services: Services): void {
  const { db, queue, commitTurns, fresh } = services;
  const acceptance = new Acceptance(db, queue, commitTurns, fresh);
  const resends = new AccountTurns(resendLimits);
  const stops = new AccountTurns(stopLimits);
  const sender = demandLoginOrKey(services, 'send');

  /** @param read makes the requests from the body, or refuses it */
  async function send(
    ctx: Context,
    body: unknown,
    read: () => Promise<Sendable[]>,
    respond: (results: Accepted[]) => unknown,
  ): Promise<void> {
    const idempotency = await readIdempotency(ctx, body);
    const requests = await read().catch(async (error: unknown) => {
      const earlier = idempotency && (await answerTo(db, senderOf(ctx).accountId, idempotency));
      if (!earlier) throw error;
      return earlier;
    });
    const { response, replayed } = Array.isArray(requests)
      ? await acceptance.answer(senderOf(ctx), { requests, idempotency, respond })
      : { ...requests, replayed: true };
    if (replayed) ctx.set('Idempotent-Replayed', 'true');
    ctx.body = response;
  }

  router.post('/emails', sender, async (ctx) => {
    const { dry_run: dry } = parse(sendQuery, ctx.query);
    const { value: body, escapes } = await readJsonObject(ctx, singleLimit);
    const read = () => parse(requestIn(escapes), body);
    if (dry === 'true') ctx.body = present.dryRun(await dryRun(db, senderOf(ctx), read(), services));
    else await send(ctx, body, async () => [read()], presentSingle);
  });

  router.post('/emails/batch', sender, async (ctx) => {
    const { value: body, escapes } = await readJsonObject(ctx, batchLimit, mostValuesInBatch, '{"emails": [...]}');
    // Counted before any of them is parsed, which would be wasted on too many.
    parse(batchBody, body);
    if (body.emails === undefined)
      throw invalidRequest('emails: is required, as an array: POST /api/v1/emails sends a single one');
    if (!Array.isArray(body.emails)) throw invalidRequest('emails: must be an array');
    if (body.emails.length === 0) throw invalidRequest('emails: must not be empty');
    if (body.emails.length > mostInBatch)
      throw invalidRequest(`emails: must have at most ${grouped(mostInBatch)} entries`);
    const schema = requestIn(escapes);
    const emails: unknown[] = body.emails;
    const read = () => givingWay(emails, (item, index) => parse(schema, item, ['emails', index]));
    await send(ctx, body, read, presentBatch);
  });

  router.delete('/emails/:id', sender, async (ctx) => {
    const holder = senderOf(ctx);
    ctx.body = { email: present.email(await scheduling.cancel(db, holder, idOf(ctx))) };
  });

  router.patch('/emails/:id', sender, async (ctx) => {
    const holder = senderOf(ctx);
    const id = idOf(ctx);
    // It may be all of the email, in the form of its request or of an answer.
    const body = await readJson(ctx, singleLimit);
    await refuseFixedFields(db, holder.accountId, id, body);
    const { scheduled_at: scheduledAt } = parse(move, body);
    ctx.body = { email: present.email(await scheduling.move(db, holder, id, scheduledAt)) };
  });

  router.post('/emails/:id/release', sender, async (ctx) => {
    const holder = senderOf(ctx);
    const input = parse(releaseRequest, await readJson(ctx, releaseLimit));
    const { email, released } = await release(db, queue, holder, idOf(ctx), input.as);
    ctx.body = { email: present.email(email), released };
  });

  router.post('/emails/:id/stop', sender, async (ctx) => {
    await refuseFields(ctx);
    const { email, stopped, inHand } = await stop(db, queue, senderOf(ctx), idOf(ctx));
    ctx.body = { email: present.email(email), stopped, in_hand: inHand };
  });

  router.post('/emails/stop', sender, demandWholeAccount, async (ctx) => {
    const { accountId, keyId } = senderOf(ctx);
    const { value: body } = await readJsonObject(ctx, stopLimit);
    const wanted = parseWanted(body);
    if (wanted.apiKeyId !== null) await keys.demandOwn(db, accountId, wanted.apiKeyId);
    const log: Logger = ctx.state.log;
    const done = { stopped: 0, canceled: 0 };
    const tellers = {
      onStopped: (some: number) => (done.stopped += some),
      onCanceled: (some: number) => (done.canceled += some),
    };
    await takeTurn(stops, accountId, ctx, async () => {
      try {
        ctx.body = present.stopped(await stopMatching(db, queue, accountId, wanted, stoppedNote, tellers));
      } finally {
        // It cannot be undone, so that it must be known who did what was done, also if an error has ended it. What was searched
        // for may be the data of a person.
        const by = keyId ?? sessionOf(ctx).user.id;
        log.info(
          { account: accountId, by, fields: Object.keys(body), ...done },
          'waiting mail of an account was stopped',
        );
      }
    });
  });

  router.post('/emails/:id/resend', sender, async (ctx) => {
    const { accountId } = senderOf(ctx);
    const body = await readOptionalJson(ctx, resendLimit);
    // A `to` would be ignored, and the email would go to its previous recipients.
    const asked = Object.keys(sendFields.shape).find((name) => name in body);
    if (asked) throw noSuchField(asked, 'recipients');
    const { recipients } = parse(resendRequest, body);
    // Its files are in memory until the answer, although the request itself is small and counts for nothing.
    await takeTurn(resends, accountId, ctx, async () => {
      const read = async () => [await resendable(db, accountId, idOf(ctx), recipients)];
      // Null without recipients, to match the fingerprints of calls to earlier releases, which had no body.
      await send(ctx, recipients ? body : null, read, presentSingle);
    });
  });
}

const requestIn = (escapes: boolean) => (escapes ? sendRequest : unescapedSendRequest);

function presentSingle([accepted]: Accepted[]) {
  if (!accepted) throw new Error('answerAll answered for no request');
  if ('refusal' in accepted) throw accepted.refusal;
  return { email: present.email(accepted.email) };
}

function presentBatch(results: Accepted[]) {
  return {
    emails: results.flatMap((result) => ('email' in result ? [present.email(result.email)] : [])),
    count: results.length,
    errors: results.flatMap((result, index) =>
      'refusal' in result ? [{ index, error: result.refusal.message, detail: result.refusal.detail }] : [],
    ),
  };
}
