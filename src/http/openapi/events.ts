import { z } from 'zod';
import { testEvent } from '../../core/webhook-deliveries.ts';
import { eventTypes } from '../../core/webhooks.ts';
import { emailStatuses } from './emails.ts';
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
        status: oneOf([...emailStatuses, 'delivered'], 'Its status then; `delivered` for `email.delivered`.'),
        created_at: time('When it was accepted.'),
        tags: list(z.string(), 'Its labels; absent where it has none.').optional(),
        recipients: list(
          z.object({
            address: words('The recipient.'),
            status: words('Where it is; `bounced`, `complained` or `unsubscribed` for what came later.'),
            response: words('What its server said.').nullable(),
          }),
          'Whom it is about; absent where it was just accepted, or suppressed in place of that.',
        ).optional(),
      })
      .describe('The email.'),
  })
  .meta({ id: 'Event', description: 'What is posted to an endpoint.' });

const test = z
  .object({
    type: z.literal(testEvent).describe('The event.'),
    created_at: time('When the call was asked for.'),
    data: z.object({ webhook_id: id('The endpoint.'), message: words('What it is.') }).describe('The endpoint.'),
  })
  .meta({ id: 'WebhookTest', description: 'What `POST /api/v1/webhooks/:id/test` posts to an endpoint.' });

const description = `An endpoint is called with a \`POST\` for each event that it registered. Any 2xx within 15 seconds is a success. Anything
else, a redirect too, is tried again after 5 s, 1 min, 5 min, 30 min, 2 h, 6 h, 12 h and 24 h; \`410\` disables the endpoint, and
what happens while it is disabled is not kept for it. An event may come more than once and out of order.

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
      header('X-Service-Webhook-Id', 'Names the delivery: the same at each attempt.', samples.delivery),
      header('X-Service-Webhook-Timestamp', 'When this attempt was signed, in Unix seconds.', '1795251600'),
      header('X-Service-Webhook-Signature', 'Proves that the call is from here.', `v1=${'0f'.repeat(32)}`),
    ],
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: toJsonSchema(z.union([event, test]), named),
          examples: {
            'email.delivered': { summary: 'It was delivered to all.', value: eventSamples.delivered },
            [testEvent]: { summary: 'A test call.', value: eventSamples.test },
          },
        },
      },
    },
    responses: { '2XX': { description: 'It was received.' } },
  };
  return { event: { post } };
}
