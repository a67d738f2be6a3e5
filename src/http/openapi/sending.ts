import { z } from 'zod';
import { stoppedNote } from '../../core/stopping.ts';
import { mostInBatch, move, releaseRequest, resendRequest, sendQuery } from '../routes/sending.ts';
import { shownSendRequest } from '../send-request.ts';
import { contentGone, email, emailExample, source, tlsOutlook } from './emails.ts';
import type { Group } from './operation.ts';
import { keyUsed, type Refusal } from './refusals.ts';
import { samples } from './samples.ts';
import { flag, integer, list, oneOf, words } from './schema.ts';

const destination = z.object({
  domain: words("The recipients' domain."),
  recipients: list(z.string(), 'Those at this domain.'),
  hosts: list(
    z.object({
      name: words('The MX host.'),
      preference: integer('Its preference: lower is tried first.'),
      addresses: list(z.string(), 'Its IP addresses.'),
      problem: words('Why it cannot be used now; null when it can.').nullable(),
    }),
    'In the order in which they would be tried.',
  ),
  problem: z
    .object({ permanent: flag('Trying later would not help.'), reason: words('Why.') })
    .nullable()
    .describe('Why mail for this domain could not be delivered now.'),
  tls: tlsOutlook.describe('How the connection would be secured.'),
});

const authentication = z.object({
  dkim: z
    .object({
      domain: words('The domain that would sign.'),
      selector: words('The selector of its key.'),
      aligned: flag('It belongs to the domain in `from`.'),
    })
    .describe('The signature.'),
  spf: z
    .object({
      domain: words('The domain of the return path.'),
      results: list(
        z.object({ ip: words('An address that we send from.'), result: words('Such as `pass`.') }),
        'What SPF says.',
      ),
      aligned: flag('It belongs to the domain in `from`.'),
    })
    .describe('The return path.'),
  dmarc: z
    .object({
      record: words(
        "The policy of the sender's domain or, where it has none, of its organisation's; null when there is none, or more than one.",
      ).nullable(),
      would_pass: flag('Whether a receiver would find the email genuine.'),
    })
    .describe('The domain in `from`.'),
});

const dryRun = z
  .object({
    dry_run: z.literal(true).describe('Nothing was stored or sent.'),
    would: oneOf(['be_queued', 'be_scheduled', 'be_suppressed', 'exceed_quota'], 'What would become of it.'),
    message: z
      .object({ size: integer('In bytes.'), raw: words('The source, signed; what is not UTF-8 is U+FFFD.') })
      .describe('The message as it would be sent.'),
    return_path: words('Where bounces would go.'),
    source: source.nullable().describe('What it would leave from; null: what the system chooses.'),
    suppressed: list(
      z.object({
        address: words('The recipient.'),
        reason: oneOf(['bounce', 'complaint', 'unsubscribe', 'manual'], 'Why.'),
      }),
      'Recipients on the suppression list.',
    ),
    destinations: list(destination, 'Where it would go, by domain.'),
    authentication: authentication.describe('How a receiver would see it.'),
  })
  .meta({ id: 'DryRun', description: 'What would happen to an email. Nothing was stored or sent.' });

const sent = z.object({ email });

const batchAnswer = z.object({
  emails: list(email, 'Those that were accepted, in the order of the request.'),
  count: integer('How many the request had.'),
  errors: list(
    z.object({
      index: integer('Which one, from 0.'),
      error: words('As the error of a single email would be.'),
      detail: words('The reason.').optional(),
    }),
    'Those that were refused.',
  ),
});

const requestExample = {
  from: samples.from,
  to: [samples.to],
  subject: 'Your order',
  html: '<p>It is on its way.</p>',
  text: 'It is on its way.',
  tags: ['orders'],
};

const notVerified: Refusal = {
  status: 400,
  error: 'from domain not verified',
  when: "The sender's domain is not verified on this account.",
  detail: 'from: shop.example.com is not a verified domain of this account',
};

const recipientErased: Refusal = {
  status: 409,
  error: 'conflict',
  when: 'The data of one of its recipients was erased.',
  detail: 'the data of a recipient was erased: nobody knows any more whom it was for',
};

const notWaiting: Refusal = {
  status: 409,
  error: 'conflict',
  when: 'It is on its way already, was canceled, is held, or was never scheduled; `detail` says which.',
  detail: 'the email is not waiting for a scheduled time any more: it is on its way',
};

const notHeld: Refusal = {
  status: 409,
  error: 'conflict',
  when: 'None of its recipients is held, or not any more.',
  detail: 'no recipient of the email is held',
};

const nothingWaits: Refusal = {
  status: 409,
  error: 'conflict',
  when: 'Nobody of it waits: all are settled, held, in hand, or wait for the scheduled time.',
  detail: 'nobody of the email waits any more',
};

const quotaExceeded: Refusal = {
  status: 429,
  error: 'quota exceeded',
  when: 'The plan, with its credit, allows no more emails today or this month; `Retry-After` says until when.',
  detail: 'the free plan allows 100 emails a day; it goes on at 2026-11-22T00:00:00.000Z',
};

const params = { id: "The email's id." };

export const sendingGroup: Group = {
  name: 'Sending',
  description: 'Send emails, one at a time or many, now or later.',
  operations: [
    {
      id: 'sendEmail',
      method: 'post',
      path: '/api/v1/emails',
      summary: 'Send an email',
      description:
        'Answers once the email is stored for good. It is delivered afterwards: read it, or register a webhook, to learn what became of it. A recipient on the suppression list makes it `suppressed`, which is a 200, and nobody gets it; one that comes onto the list while it waits is left out alone. With `dry_run=true` it says what would happen, and does nothing. The body may have 40 MB.',
      access: { key: 'send', orLogin: true },
      query: sendQuery,
      idempotent: true,
      body: { schema: shownSendRequest, example: requestExample },
      answer: {
        description: 'It is accepted; or, with `dry_run`, what would happen.',
        schema: z.union([sent, dryRun]),
        example: { email: emailExample },
      },
      refusals: [notVerified, keyUsed, quotaExceeded],
    },
    {
      id: 'sendBatch',
      method: 'post',
      path: '/api/v1/emails/batch',
      summary: 'Send many emails',
      description: `Up to ${mostInBatch} at once. One that is malformed makes the whole request a 400 that names it, and nothing is stored. One that is refused for another reason (its domain, the plan, its template) is listed in \`errors\`, and the others are accepted. The body may have 64 MB.`,
      access: { key: 'send', orLogin: true },
      idempotent: true,
      body: {
        schema: z.object({
          emails: z.array(shownSendRequest).min(1).max(mostInBatch).describe('The emails, as for a single one.'),
        }),
        example: { emails: [requestExample, { ...requestExample, from: 'Me <me@elsewhere.example>' }] },
      },
      answer: {
        description: 'Each is accepted or refused.',
        schema: batchAnswer,
        example: {
          emails: [emailExample],
          count: 2,
          errors: [
            {
              index: 1,
              error: 'from domain not verified',
              detail: 'from: elsewhere.example is not a verified domain of this account',
            },
          ],
        },
      },
      refusals: [keyUsed],
    },
    {
      id: 'rescheduleEmail',
      method: 'patch',
      path: '/api/v1/emails/:id',
      summary: 'Move a scheduled email',
      description:
        'Gives an email that waits for its time another one. The rest of it stays: what names a part of it, and is not as its record has it, is a 400.',
      access: { key: 'send', orLogin: true },
      params,
      body: { schema: move, example: { scheduled_at: samples.scheduledAt } },
      answer: {
        description: 'It waits for its new time.',
        schema: sent,
        example: { email: { ...emailExample, scheduled_at: samples.scheduledAt } },
      },
      refusals: [notWaiting],
    },
    {
      id: 'cancelEmail',
      method: 'delete',
      path: '/api/v1/emails/:id',
      summary: 'Cancel a scheduled email',
      description: 'Ends an email that waits for its time. It stays in the log.',
      access: { key: 'send', orLogin: true },
      params,
      answer: {
        description: 'It is canceled.',
        schema: sent,
        example: {
          email: { ...emailExample, status: 'canceled', scheduled_at: samples.scheduledAt },
        },
      },
      refusals: [notWaiting],
    },
    {
      id: 'releaseEmail',
      method: 'post',
      path: '/api/v1/emails/:id/release',
      summary: 'Decide about an email that is held',
      description:
        'With `on_uncertain: hold` a recipient waits when the answer to the whole message never came; the event `email.uncertain` tells of it. So does one that twenty processes in a row ended with, which may be the reason. `retry` sends it again, `delivered` and `failed` settle it. A copy that is sent again has the same Message-ID.',
      access: { key: 'send', orLogin: true },
      params,
      body: { schema: releaseRequest, example: { as: 'delivered' } },
      answer: {
        description: 'It is decided, for all of its recipients that were held.',
        schema: z.object({ email, released: integer('How many recipients were held.') }),
        example: { email: { ...emailExample, status: 'sent' }, released: 1 },
      },
      refusals: [notHeld],
    },
    {
      id: 'stopEmail',
      method: 'post',
      path: '/api/v1/emails/:id/stop',
      summary: 'Give up an email that waits',
      description:
        'Whoever of its recipients waits, in the queue or for another attempt, fails for good and is not tried again. Whom a server has in hand at this moment is left alone, as the message may be on its way; `in_hand` counts them. One that waits for its scheduled time is canceled with `DELETE`.',
      access: { key: 'send', orLogin: true },
      params,
      answer: {
        description: 'They are given up.',
        schema: z.object({
          email,
          stopped: integer('How many recipients were given up.'),
          in_hand: integer('How many were being delivered just then, and are settled by that.'),
        }),
        example: { email: { ...emailExample, status: 'failed', error: stoppedNote }, stopped: 1, in_hand: 0 },
      },
      refusals: [nothingWaits],
    },
    {
      id: 'resendEmail',
      method: 'post',
      path: '/api/v1/emails/:id/resend',
      summary: 'Send an email again',
      description:
        'Accepts another email with the same sender, recipients, content and files, to be sent now; with `recipients` to some of them, and only those are named in it. It is looked at as any other: by the suppression list, the plan, and whether the domain is verified.',
      access: { key: 'send', orLogin: true },
      params,
      body: { schema: resendRequest, example: { recipients: ['bob@anywhere.test'] }, optional: true },
      idempotent: true,
      answer: { description: 'The new one.', schema: sent, example: { email: emailExample } },
      refusals: [notVerified, recipientErased, keyUsed, quotaExceeded, contentGone],
    },
  ],
};
