import { z } from 'zod';
import { testEvent } from '../../core/webhooks/webhook-deliveries.ts';
import { eventTypes } from '../../core/webhooks/webhooks.ts';
import { emailStatuses } from '../input/log-query.ts';
import { eventSamples, samples } from './samples.ts';
import { id, type JsonSchema, list, oneOf, time, toJsonSchema, words } from './schema.ts';

const event = z
  .object({
    type: oneOf(eventTypes, 'The event.'),
    created_at: time('When it happened.'),
    data: z
      .object({
        email_id: id('The email.'),
        from: words('Its sender.'),
        to: list(z.string(), 'Its recipients.'),
        subject: words('Its subject.'),
        status: oneOf([...emailStatuses, 'delivered'], 'Its status at that time; `delivered` for `email.delivered`.'),
        created_at: time('When it was accepted.'),
        tags: list(z.string(), 'Its tags; absent if it has none.').optional(),
        recipients: list(
          z.object({
            address: words('The recipient.'),
            status: words('Its status; `bounced`, `complained` or `unsubscribed` if that happened after delivery.'),
            response: words('The last reply for the recipient, or why nothing was sent to it.').nullable(),
          }),
          'The recipients that the event is about; absent in `email.queued`, which is about all of them.',
        ).optional(),
      })
      .describe('The email.'),
  })
  .meta({ id: 'Event', description: 'The body of a call to an endpoint.' });

const test = z
  .object({
    type: z.literal(testEvent).describe('The event.'),
    created_at: time('When the call was requested.'),
    data: z
      .object({ webhook_id: id('The endpoint.'), message: words('What the call is for.') })
      .describe('The endpoint.'),
  })
  .meta({ id: 'WebhookTest', description: 'What `POST /api/v1/webhooks/:id/test` posts to an endpoint.' });

const description = `Your endpoint gets a \`POST\` for each event that you registered it for. Any 2xx within 15 seconds is a success. After anything
else, including a redirect, the call is tried again after 5 s, 1 min, 5 min, 30 min, 2 h, 6 h, 12 h and 24 h. \`410\` disables the endpoint;
events are not kept for a disabled endpoint. An event may come more than once and out of order.

\`X-Service-Webhook-Signature\` is \`v1=\` and the HMAC-SHA256, in lower-case hex and keyed with the endpoint's whole secret, of the id, a
dot, the timestamp, a dot and the raw body. Right after a rotation it has one for each of the two secrets, separated by a space. The
headers of Standard Webhooks (\`webhook-id\`, \`webhook-timestamp\`, \`webhook-signature\`) are sent as well.`;

const header = (name: string, description: string, example: string) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
  example,
});

/** The call that endpoints get, as OpenAPI describes it. */
export function eventWebhook(named: Record<string, JsonSchema>): JsonSchema {
  const post = {
    operationId: 'receiveEvent',
    summary: 'Receive an event',
    description,
    parameters: [
      header('X-Service-Webhook-Id', 'The id of the delivery, the same at each attempt.', samples.delivery),
      header('X-Service-Webhook-Timestamp', 'When this attempt was signed, in Unix seconds.', '1795251600'),
      header('X-Service-Webhook-Signature', 'Proves that the call is genuine.', `v1=${'0f'.repeat(32)}`),
    ],
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: toJsonSchema(z.union([event, test]), named),
          examples: {
            'email.delivered': { summary: 'The email was delivered to all.', value: eventSamples.delivered },
            [testEvent]: { summary: 'A test call.', value: eventSamples.test },
          },
        },
      },
    },
    responses: { '2XX': { description: 'The event was received.' } },
  };
  return { event: { post } };
}
