import { z } from 'zod';
import { stoppedNote } from '../../core/recipients/settlement.ts';
import { grouped } from '../../numbers.ts';
import { stopMatchingRequest } from '../input/email-search.ts';
import { shownSendRequest } from '../input/send-fields.ts';
import { mostInBatch, move, releaseRequest, resendRequest, sendQuery } from '../routes/sending.ts';
import { suppressionReasons } from '../routes/suppressions.ts';
import { email, source, tlsOutlook } from './email-schemas.ts';
import { contentGone, emailExample } from './emails.ts';
import type { Group } from './operation.ts';
import { keyUsed, type Refusal } from './refusals.ts';
import { samples } from './samples.ts';
import { flag, integer, list, oneOf, words } from './schema.ts';

const destination = z.object({
  domain: words("The recipients' domain."),
  recipients: list(z.string(), 'The recipients at this domain.'),
  hosts: list(
    z.object({
      name: words('The MX host.'),
      preference: integer('Its preference: lower is tried first.'),
      addresses: list(z.string(), 'Its IP addresses.'),
      problem: words('Why it cannot be used now; null when it can.').nullable(),
    }),
    'The MX hosts, in the order in which they would be tried.',
  ),
  problem: z
    .object({ permanent: flag('Trying later would not help.'), reason: words('The reason.') })
    .nullable()
    .describe('Why mail for this domain could not be delivered now.'),
  tls: tlsOutlook.describe('How the connection would be secured.'),
});

const authentication = z.object({
  dkim: z
    .object({
      domain: words('The domain that would sign.'),
      selector: words('The selector of its key.'),
      aligned: flag('It is aligned with the domain in `from`.'),
      problem: words('Why a receiver could not verify it with what DNS has now; null: it could.').nullable(),
    })
    .describe('The DKIM signature.'),
  spf: z
    .object({
      domain: words('The domain of the return path.'),
      results: list(
        z.object({ ip: words('An address that we send from.'), result: words('Such as `pass`.') }),
        'The result of SPF for each address.',
      ),
      aligned: flag('It is aligned with the domain in `from`.'),
    })
    .describe('The return path.'),
  dmarc: z
    .object({
      record: words(
        "The DMARC record of the sender's domain or, if it has none, of its organizational domain; null if there is none, or more than one.",
      ).nullable(),
      would_pass: flag('DMARC would pass: DKIM or SPF does, and is aligned.'),
    })
    .describe('DMARC, for the domain in `from`.'),
});

const dryRun = z
  .object({
    dry_run: z.literal(true).describe('Nothing was stored or sent.'),
    would: oneOf(['be_queued', 'be_scheduled', 'be_suppressed', 'exceed_quota'], 'What would happen to the email.'),
    message: z
      .object({ size: integer('In bytes.'), raw: words('The signed source; bytes that are not UTF-8 are U+FFFD.') })
      .describe('The message as it would be sent.'),
    return_path: words('Where bounces would go.'),
    source: source.nullable().describe('The addresses it would be sent from; null: the system chooses.'),
    suppressed: list(
      z.object({
        address: words('The recipient.'),
        reason: oneOf(suppressionReasons, 'Why it is listed.'),
      }),
      'Recipients on the suppression list.',
    ),
    destinations: list(destination, 'Where it would go, for each domain.'),
    authentication: authentication.describe('What a receiver would find when it checks SPF, DKIM and DMARC.'),
  })
  .meta({ id: 'DryRun', description: 'What would happen to an email. Nothing was stored or sent.' });

const sent = z.object({ email });

const batchAnswer = z.object({
  emails: list(email, 'The emails that were accepted, in the order of the request.'),
  count: integer('How many emails the request had.'),
  errors: list(
    z.object({
      index: integer('The index of the email in the request, from 0.'),
      error: words('The error, as for a single email.'),
      detail: words('The reason.').optional(),
    }),
    'The emails that were refused.',
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
  detail:
    'from: shop.example.com is not a verified domain of this account: it is added; publish its DNS records and verify it',
};

const recipientErased: Refusal = {
  status: 409,
  error: 'conflict',
  when: 'The data of one of the recipients was erased.',
  detail: 'the data of a recipient was erased: the recipients of the email are no longer known',
};

const notWaiting: Refusal = {
  status: 409,
  error: 'conflict',
  when: 'The email is already on its way, was canceled, is held, or was never scheduled; `detail` says which.',
  detail: 'the email is not waiting for a scheduled time any more: it is on its way',
};

const notHeld: Refusal = {
  status: 409,
  error: 'conflict',
  when: 'No recipient is held, or no longer.',
  detail: 'no recipient of the email is held',
};

const nothingWaits: Refusal = {
  status: 409,
  error: 'conflict',
  when: 'No recipient is waiting in the queue: all are settled, held, being delivered, or waiting for the scheduled time.',
  detail: 'no recipient of the email is waiting any more',
};

const quotaExceeded: Refusal = {
  status: 429,
  error: 'quota exceeded',
  when: 'The plan, including credit, allows no more emails today or this month; `Retry-After` says when it does again.',
  detail: 'the free plan allows 100 emails a day; sending resumes at 2026-11-22T00:00:00.000Z',
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
        'Returns once the email is stored durably. Delivery follows: get the email, or register a webhook, to learn the outcome. If a recipient is on the suppression list, the response is a 200 with the status `suppressed`, and nobody gets the email; if a recipient is added to the list later, while the email waits, only that recipient is left out. With `dry_run=true` the call returns what would happen, and does nothing. The body can have up to 40 MB.',
      access: { key: 'send', orLogin: true },
      query: sendQuery,
      idempotent: true,
      body: { schema: shownSendRequest, example: requestExample },
      answer: {
        description: 'The accepted email; with `dry_run`, what would happen to it.',
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
      description: `Up to ${grouped(mostInBatch)} at once. If one is malformed, the whole request is refused with a 400 that names it, and nothing is stored. If one is refused for another reason (its domain, the plan, its template), it is listed in \`errors\`, and the others are accepted. The body can have up to 64 MB.`,
      access: { key: 'send', orLogin: true },
      idempotent: true,
      body: {
        schema: z.object({
          emails: z.array(shownSendRequest).min(1).max(mostInBatch).describe('The emails, each as in a single send.'),
        }),
        example: { emails: [requestExample, { ...requestExample, from: 'Me <me@elsewhere.example>' }] },
      },
      answer: {
        description: 'The emails that were accepted, and the errors of those that were refused.',
        schema: batchAnswer,
        example: {
          emails: [emailExample],
          count: 2,
          errors: [
            {
              index: 1,
              error: 'from domain not verified',
              detail: 'from: elsewhere.example is not a verified domain of this account: add it first, then verify it',
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
        'Changes the time of an email that is still waiting for it. Nothing else can be changed: another field of the email with a value that differs from its record is refused with 400.',
      access: { key: 'send', orLogin: true },
      params,
      body: { schema: move, example: { scheduled_at: samples.scheduledAt } },
      answer: {
        description: 'The email, which waits for its new time.',
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
      description: 'Cancels an email that is still waiting for its time. It stays in the log.',
      access: { key: 'send', orLogin: true },
      params,
      answer: {
        description: 'The canceled email.',
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
      summary: 'Release a held email',
      description:
        'A recipient is held if the server never answered the whole message and `on_uncertain` is `hold` (the event `email.uncertain` reports it), or if twenty processes in a row crashed while they delivered to it. `retry` sends the message again, with the same Message-ID; `delivered` and `failed` settle the recipient.',
      access: { key: 'send', orLogin: true },
      params,
      body: { schema: releaseRequest, example: { as: 'delivered' } },
      answer: {
        description: 'The email, with all of its held recipients released.',
        schema: z.object({ email, released: integer('How many recipients were held.') }),
        example: { email: { ...emailExample, status: 'sent' }, released: 1 },
      },
      refusals: [notHeld],
    },
    {
      id: 'stopEmail',
      method: 'post',
      path: '/api/v1/emails/:id/stop',
      summary: 'Give up a waiting email',
      description:
        'Recipients that wait in the queue or for another attempt fail for good and are not tried again. Recipients that a node has in hand, to deliver to them now or in their turn, are left alone, because the message may be on its way; `in_hand` counts them. To cancel an email that waits for its scheduled time, use `DELETE`.',
      access: { key: 'send', orLogin: true },
      params,
      answer: {
        description: 'The email, with its waiting recipients given up.',
        schema: z.object({
          email,
          stopped: integer('How many recipients were given up.'),
          in_hand: integer('How many a node had in hand; the next call finds those that it gives back.'),
        }),
        example: { email: { ...emailExample, status: 'failed', error: stoppedNote }, stopped: 1, in_hand: 0 },
      },
      refusals: [nothingWaits],
    },
    {
      id: 'stopEmails',
      method: 'post',
      path: '/api/v1/emails/stop',
      summary: 'Stop all waiting emails that match',
      description:
        'For half a newsletter that must not go on, or what a leaked key has sent. Of all emails that match all of the given fields (at least one; the same search as in the log), recipients that wait in the queue or for another attempt fail for good, and emails that wait for their `scheduled_at` are canceled. It cannot be undone. Recipients that a node has in hand and held ones are left alone, and so is mail that is accepted later. If `rest_waits` is true there was too much for one call: repeat it. A field that the call does not take is a 400. A key that is restricted to domains cannot do this.',
      access: { key: 'send', orLogin: true },
      body: { schema: stopMatchingRequest, example: { tag: 'news-42', created_after: samples.createdAt } },
      answer: {
        description: 'What was stopped, and what is left.',
        schema: z.object({
          stopped: integer('How many recipients were given up.'),
          canceled: integer('How many emails were canceled that waited for their scheduled time.'),
          in_hand: integer(
            'Recipients that a node has in hand: their message is on its way, or waits there for its turn.',
          ),
          held: integer('Recipients that are held until you decide with `release`.'),
          rest_waits: flag('There were too many for one call; repeat it.'),
        }),
        example: { stopped: 4_120, canceled: 0, in_hand: 20, held: 0, rest_waits: false },
      },
    },
    {
      id: 'resendEmail',
      method: 'post',
      path: '/api/v1/emails/:id/resend',
      summary: 'Send an email again',
      description:
        'Accepts a new email with the same sender, recipients, content and files, to be sent now. With `recipients` it is sent to those only, and names no others. It passes the same checks as any other email: the suppression list, the plan, and the verified domain.',
      access: { key: 'send', orLogin: true },
      params,
      body: { schema: resendRequest, example: { recipients: ['bob@anywhere.test'] }, optional: true },
      idempotent: true,
      answer: { description: 'The new email.', schema: sent, example: { email: emailExample } },
      refusals: [notVerified, recipientErased, keyUsed, quotaExceeded, contentGone],
    },
  ],
};
