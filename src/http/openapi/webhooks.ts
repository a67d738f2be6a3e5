import { z } from 'zod';
import { testEvent } from '../../core/webhooks/webhook-deliveries.ts';
import { eventTypes } from '../../core/webhooks/webhooks.ts';
import { part } from '../input/validation.ts';
import { deliveryQuery, newWebhook, range, webhookChanges } from '../routes/webhooks.ts';
import { type Group, message } from './operation.ts';
import type { Refusal } from './refusals.ts';
import { eventSamples, samples } from './samples.ts';
import { flag, id, integer, list, oneOf, time, total, words } from './schema.ts';

const webhook = z
  .object({
    id: id('Its id.'),
    url: words('The URL that is called.'),
    events: list(z.enum(eventTypes), 'The events that it is called for.'),
    status: oneOf(['enabled', 'disabled'], 'A `disabled` endpoint is not called, and events are not kept for it.'),
    disabled_reason: words('Why the server disabled it; null if it did not.').nullable(),
    failing_since: time('When calls began to fail; null if they succeed.').nullable(),
    created_at: time('When it was created.'),
  })
  .meta({ id: 'Webhook', description: 'An endpoint that is called for events.' });

const deliveryFields = {
  id: id('Its id, as in `X-Service-Webhook-Id`.'),
  webhook_id: id('The endpoint.'),
  event: oneOf([...eventTypes, testEvent], 'The event.'),
  email_id: id('The email that it is about; null for a test.').nullable(),
  status: oneOf(['pending', 'succeeded', 'failed'], '`pending` until it succeeds or is given up.'),
  error: words('Why it was not retried.').nullable(),
  attempts: list(
    z.object({
      at: time('When it began.'),
      response_status: integer('The HTTP status of the response; null if there was none.').nullable(),
      response_body: words('The start of its body.').nullable(),
      error: words('Why there was no response.').nullable(),
      duration_ms: integer('How long it took.'),
    }),
    'The last 20, oldest first.',
  ),
  next_attempt_at: time('When it is tried next; null once it has succeeded or failed.').nullable(),
  created_at: time('When the event happened.'),
};

const listedDelivery = z
  .object({
    ...deliveryFields,
    recipient: words('The first recipient that the event is about, or of the email; null for a test.').nullable(),
    subject: words('The subject of the email; null for a test.').nullable(),
  })
  .meta({ id: 'WebhookDelivery', description: 'One event for one endpoint, with its calls.' });

const deliveryWithPayload = z
  .object({ ...deliveryFields, payload: z.record(z.string(), z.unknown()).describe('The body as it is sent.') })
  .meta({ id: 'WebhookDeliveryWithPayload', description: 'A delivery with its body.' });

const secret = words('The secret that signs the calls. It is shown only once.');

const example = {
  id: samples.webhook,
  url: 'https://shop.example.com/hooks',
  events: ['email.delivered', 'email.failed'],
  status: 'enabled',
  disabled_reason: null,
  failing_since: null,
  created_at: samples.createdAt,
};

const secretExample = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw...';

const deliveryExample = {
  id: samples.delivery,
  webhook_id: samples.webhook,
  event: 'email.delivered',
  email_id: samples.email,
  status: 'succeeded',
  error: null,
  attempts: [{ at: samples.deliveredAt, response_status: 200, response_body: 'ok', error: null, duration_ms: 38 }],
  next_attempt_at: null,
  created_at: samples.deliveredAt,
};

const listedDeliveryExample = { ...deliveryExample, recipient: samples.to, subject: 'Your order' };

const disabled: Refusal = {
  status: 409,
  error: 'conflict',
  when: 'The endpoint is disabled or deleted.',
  detail: 'the endpoint is disabled or deleted: nothing is sent to it',
};

const underTest: Refusal = {
  status: 409,
  error: 'conflict',
  when: 'Another test of the endpoint is under way.',
  detail: 'a test of this endpoint is under way: wait for its result',
};

const tooMany: Refusal = {
  status: 400,
  error: 'invalid request',
  when: 'The account already has the maximum number of endpoints.',
  detail: 'an account may have at most 20 endpoints',
};

const params = { id: "The endpoint's id." };

export const webhookGroup: Group = {
  name: 'Webhooks',
  description: 'Your endpoints, which are called when something happens to an email.',
  operations: [
    {
      id: 'createWebhook',
      method: 'post',
      path: '/api/v1/webhooks',
      summary: 'Create an endpoint',
      description: 'Returns the secret that signs its calls, which is shown only once.',
      access: 'login',
      body: { schema: newWebhook(false), example: { url: example.url, events: example.events } },
      answer: {
        status: 201,
        description: 'The new endpoint.',
        schema: z.object({ webhook, secret }),
        example: { webhook: example, secret: secretExample },
      },
      refusals: [tooMany],
    },
    {
      id: 'listWebhooks',
      method: 'get',
      path: '/api/v1/webhooks',
      summary: 'List endpoints',
      description: 'All endpoints of the account, newest first.',
      access: 'login',
      query: z.object(part),
      answer: {
        description: 'The endpoints.',
        schema: z.object({ webhooks: list(webhook, 'Newest first.') }),
        example: { webhooks: [example] },
      },
    },
    {
      id: 'getWebhook',
      method: 'get',
      path: '/api/v1/webhooks/:id',
      summary: 'Get an endpoint',
      description: 'One endpoint, without its secret.',
      access: 'login',
      params,
      answer: { description: 'The endpoint.', schema: z.object({ webhook }), example: { webhook: example } },
    },
    {
      id: 'changeWebhook',
      method: 'patch',
      path: '/api/v1/webhooks/:id',
      summary: 'Change an endpoint',
      description:
        'Takes at least one field; those that you omit do not change. Calls that are still waiting go to the new URL.',
      access: 'login',
      params,
      body: { schema: webhookChanges(false), example: { status: 'disabled' } },
      answer: {
        description: 'The changed endpoint.',
        schema: z.object({ webhook }),
        example: { webhook: { ...example, status: 'disabled' } },
      },
    },
    {
      id: 'removeWebhook',
      method: 'delete',
      path: '/api/v1/webhooks/:id',
      summary: 'Remove an endpoint',
      description: 'The endpoint is no longer called; calls that are waiting for it fail.',
      access: 'login',
      params,
      answer: {
        description: 'The endpoint is removed.',
        schema: message,
        example: { message: `webhook ${samples.webhook} was removed` },
      },
    },
    {
      id: 'rotateWebhookSecret',
      method: 'post',
      path: '/api/v1/webhooks/:id/rotate-secret',
      summary: 'Rotate the secret',
      description:
        'For 24 hours calls are signed with both the new and the previous secret, so that you can switch without losing any.',
      access: 'login',
      params,
      answer: {
        description: 'The new secret.',
        schema: z.object({
          webhook,
          secret,
          previous_secret_valid_until: time('When the previous secret stops signing.').nullable(),
        }),
        example: {
          webhook: example,
          secret: secretExample,
          previous_secret_valid_until: '2026-11-22T09:00:00.000Z',
        },
      },
    },
    {
      id: 'testWebhook',
      method: 'post',
      path: '/api/v1/webhooks/:id/test',
      summary: 'Call an endpoint now',
      description: `Posts a \`${testEvent}\` event, and returns after one attempt, or after 17 s with the status \`pending\`.`,
      access: 'login',
      params,
      answer: {
        description: 'The call, with the response of the endpoint.',
        schema: z.object({ delivery: deliveryWithPayload }),
        example: {
          delivery: {
            ...deliveryExample,
            event: testEvent,
            email_id: null,
            payload: eventSamples.test,
          },
        },
      },
      refusals: [disabled, underTest],
    },
    {
      id: 'replayWebhook',
      method: 'post',
      path: '/api/v1/webhooks/:id/replay',
      summary: 'Send a time range again',
      description:
        'Sends all deliveries of that time again, including those that succeeded and those that wait for another attempt, with the same ids and oldest first. There are none for the time when the endpoint was disabled: list the emails of that time instead. One call covers 10,000 deliveries, and all others of the same millisecond as the last.',
      access: 'login',
      params,
      body: { schema: range, example: { since: '2026-11-20T00:00:00Z', until: '2026-11-21T00:00:00Z' } },
      answer: {
        description: 'How many are being sent again.',
        schema: z.object({
          count: integer('How many deliveries are sent again.'),
          next_since: time('The `since` of the next call if there are more; null if not.').nullable(),
        }),
        example: { count: 12, next_since: null },
      },
      refusals: [disabled],
    },
  ],
};

const deliveryParams = { id: "The delivery's id." };

export const deliveryGroup: Group = {
  name: 'Webhook deliveries',
  description: 'Every call to your endpoints, with the responses.',
  operations: [
    {
      id: 'listWebhookDeliveries',
      method: 'get',
      path: '/api/v1/webhook-deliveries',
      summary: 'List deliveries',
      description: "The account's deliveries, newest first.",
      access: 'login',
      query: deliveryQuery,
      answer: {
        description: 'One page.',
        schema: z.object({
          deliveries: list(listedDelivery, 'The page.'),
          count: total,
          count_exact: flag(
            'False if more match than `count` says, which is at most 10,000. Those of one email are all counted.',
          ),
        }),
        example: { deliveries: [listedDeliveryExample], count: 1, count_exact: true },
      },
    },
    {
      id: 'getWebhookDelivery',
      method: 'get',
      path: '/api/v1/webhook-deliveries/:id',
      summary: 'Get a delivery',
      description: 'One delivery, with its body.',
      access: 'login',
      params: deliveryParams,
      answer: {
        description: 'The delivery.',
        schema: z.object({ delivery: deliveryWithPayload }),
        example: { delivery: { ...deliveryExample, payload: eventSamples.delivered } },
      },
    },
    {
      id: 'retryWebhookDelivery',
      method: 'post',
      path: '/api/v1/webhook-deliveries/:id/retry',
      summary: 'Send a delivery again',
      description: 'Sends it at once, whatever its status. A delivery that had ended starts its schedule again.',
      access: 'login',
      params: deliveryParams,
      answer: {
        description: 'The delivery, which is being sent.',
        schema: z.object({ delivery: deliveryWithPayload }),
        example: {
          delivery: {
            ...deliveryExample,
            status: 'pending',
            next_attempt_at: '2026-11-21T10:00:00.000Z',
            payload: eventSamples.delivered,
          },
        },
      },
      refusals: [disabled],
    },
  ],
};
