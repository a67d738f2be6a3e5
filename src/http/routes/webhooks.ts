import { setTimeout as sleep } from 'node:timers/promises';
import type Router from '@koa/router';
import { z } from 'zod';
import { shortlyAfterNow } from '../../clock.ts';
import * as deliveries from '../../core/webhooks/webhook-deliveries.ts';
import * as webhooks from '../../core/webhooks/webhooks.ts';
import { conflict, invalidRequest } from '../../errors.ts';
import type { WebhookDelivery } from '../../generated/prisma/client.ts';
import type { PrivateNetworks } from '../../ip.ts';
import { refuseUrl } from '../../smtp/calls/endpoint.ts';
import { readJson, refuseFields } from '../body/body.ts';
import { demandLogin, sessionOf } from '../credentials/auth.ts';
import { id, idOf, line, list, oneOf, page, parse, part, timestamp } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

const bodyLimit = 64 * 1024;

/** How long to wait for the result of a test call: the longest that a call may take, and a little for the queue. */
const testWithinMs = 17_000;
const lookEveryMs = 100;

const events = list(oneOf(webhooks.eventTypes), 100)
  .min(1, 'must name at least one event')
  .transform((names) => [...new Set(names)]);

const endpointUrl = (allowPrivate: PrivateNetworks) =>
  line(2_048).transform((value, context): string => {
    const url = URL.canParse(value) ? new URL(value) : null;
    const refused = url ? refuseUrl(url, allowPrivate) : 'must be an absolute http or https address';
    if (!url || refused) {
      context.addIssue(refused ?? '');
      return z.NEVER;
    }
    // The normalized URL, so that the URL that was checked is the one that is called.
    return url.href;
  });

/** @param allowPrivate the addresses outside the public internet that an endpoint may have */
export const newWebhook = (allowPrivate: PrivateNetworks) =>
  z.object({
    url: endpointUrl(allowPrivate).meta({ format: 'uri' }).describe('An absolute http or https address.'),
    events: events.describe('The events that it is called for.'),
  });

/** Omitted fields stay. */
export const webhookChanges = (allowPrivate: PrivateNetworks) =>
  newWebhook(allowPrivate)
    .partial()
    .extend({
      status: oneOf(['enabled', 'disabled'])
        .optional()
        .describe(
          '`enabled`: it is called, also after the server disabled it because it failed; `disabled`: it is no longer called.',
        ),
    });

const anId = id('must be an id').optional();

export const deliveryQuery = z.object({
  webhook_id: anId.describe('Only deliveries to this endpoint.'),
  email_id: anId.describe('Only deliveries about this email.'),
  event: oneOf([...webhooks.eventTypes, deliveries.testEvent])
    .optional()
    .describe('Only deliveries of this event.'),
  status: oneOf(['pending', 'succeeded', 'failed']).optional().describe('Only deliveries with this status.'),
  ...page,
});

export const range = z
  .object({
    since: timestamp.describe('Deliveries made at this time or later.'),
    until: timestamp.nullish().describe('Deliveries made before this time. Omitted: now.'),
  })
  .refine(({ since, until }) => !until || since < until, { path: ['until'], message: 'must be later than since' });

/** `/webhooks`: endpoints and their secrets. `/webhook-deliveries`: what was sent to them, and sending it again. */
export function webhookRoutes(router: Router, services: Services): void {
  const { db, keyring } = services;
  const loggedIn = demandLogin(services);
  const creation = newWebhook(services.allowPrivateNetworks);
  const changes = webhookChanges(services.allowPrivateNetworks);
  /** Accounts and endpoints of the tests under way: each looks at the database ten times a second. */
  const testing = new Set<string>();

  router.post('/webhooks', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const input = parse(creation, await readJson(ctx, bodyLimit));
    const { webhook, secret } = await webhooks.create(db, accountId, input, keyring);
    ctx.status = 201;
    ctx.body = { webhook: present.webhook(webhook), secret };
  });

  router.get('/webhooks', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const found = await webhooks.list(db, accountId, parse(z.object(part), ctx.query));
    ctx.body = { webhooks: found.map(present.webhook) };
  });

  router.get('/webhooks/:id', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    ctx.body = { webhook: present.webhook(await webhooks.get(db, accountId, idOf(ctx))) };
  });

  router.patch('/webhooks/:id', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const input = parse(changes, await readJson(ctx, bodyLimit));
    // Not in the schema, whose errors come before a better one: that ours is called `status`.
    if (Object.keys(input).length === 0) throw invalidRequest('url, events or status is required');
    ctx.body = { webhook: present.webhook(await webhooks.change(db, accountId, idOf(ctx), input)) };
  });

  router.delete('/webhooks/:id', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const webhook = await webhooks.remove(db, accountId, idOf(ctx));
    ctx.body = { message: `webhook ${webhook.id} was removed` };
  });

  router.post('/webhooks/:id/rotate-secret', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    await refuseFields(ctx);
    const { webhook, secret } = await webhooks.rotateSecret(db, accountId, idOf(ctx), keyring);
    ctx.body = present.rotatedWebhook(webhook, secret);
  });

  router.post('/webhooks/:id/test', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    await refuseFields(ctx);
    const test = `${accountId} ${idOf(ctx)}`;
    if (testing.has(test)) throw conflict('a test of this endpoint is under way: wait for its result');
    testing.add(test);
    try {
      const made = await deliveries.sendTest(db, services.queue, accountId, idOf(ctx));
      const delivery = await untilOver(services, accountId, made);
      ctx.body = { delivery: present.webhookDeliveryWithPayload(delivery) };
    } finally {
      testing.delete(test);
    }
  });

  router.post('/webhooks/:id/replay', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const { since, until = null } = parse(range, await readJson(ctx, bodyLimit));
    if (!until && since >= shortlyAfterNow(services.clock)) throw invalidRequest('since: is in the future');
    const { count, nextSince } = await deliveries.replay(db, accountId, idOf(ctx), { since, until });
    ctx.body = { count, next_since: nextSince?.toISOString() ?? null };
  });

  router.get('/webhook-deliveries', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const { webhook_id: webhookId, email_id: emailId, event, status, ...rest } = parse(deliveryQuery, ctx.query);
    const found = await deliveries.list(db, accountId, { webhookId, emailId, event, status }, rest);
    ctx.body = {
      deliveries: found.deliveries.map(present.listedWebhookDelivery),
      count: found.count,
      count_exact: found.countExact,
    };
  });

  router.get('/webhook-deliveries/:id', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const delivery = await deliveries.get(db, accountId, idOf(ctx));
    ctx.body = { delivery: present.webhookDeliveryWithPayload(delivery) };
  });

  router.post('/webhook-deliveries/:id/retry', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    await refuseFields(ctx);
    const delivery = await deliveries.retry(db, services.queue, accountId, idOf(ctx));
    ctx.body = { delivery: present.webhookDeliveryWithPayload(delivery) };
  });
}

/** The delivery after its only attempt; still pending if that took too long. */
async function untilOver({ db }: Services, accountId: string, made: WebhookDelivery): Promise<WebhookDelivery> {
  let delivery = made;
  for (const end = Date.now() + testWithinMs; delivery.status === 'pending' && Date.now() < end; ) {
    await sleep(lookEveryMs);
    delivery = await deliveries.get(db, accountId, made.id);
  }
  return delivery;
}
