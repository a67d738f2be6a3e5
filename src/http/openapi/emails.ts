import { z } from 'zod';
import { meanings } from '../../core/log/explain.ts';
import { uncertainPolicies } from '../../core/log/uncertainty.ts';
import { tlsLevels } from '../../smtp/tls-names.ts';
import { logQuery } from '../log-query.ts';
import type { Group } from './operation.ts';
import type { Refusal } from './refusals.ts';
import { samples } from './samples.ts';
import { flag, id, integer, list, oneOf, time, total, words } from './schema.ts';

export const emailStatuses = ['queued', 'sent', 'failed', 'suppressed', 'canceled'] as const;
const recipientStatuses = ['queued', 'deferred', 'delivered', 'failed', 'suppressed', 'canceled'] as const;

const emailFields = {
  id: id('Its id.'),
  status: oneOf(
    emailStatuses,
    '`queued`: at least one recipient is not settled; `sent`: delivered to all; `failed`: at least one failed for good; `suppressed`: a recipient is on the suppression list, and nobody got the email (if the address was added to the list while the email waited, the others got it); `canceled`: canceled before its scheduled time.',
  ),
  from: words('The sender.'),
  to: words('The first recipient.'),
  cc: list(z.string(), 'Recipients of a copy.'),
  bcc: list(z.string(), 'Recipients of a blind copy.'),
  reply_to: list(z.string(), 'Where replies go.'),
  subject: words('The subject line.'),
  tags: list(z.string(), 'Its labels.'),
  type: oneOf(['transactional', 'marketing'], 'Its type.'),
  created_at: time('When it was accepted.'),
  scheduled_at: time('When it is to be sent; absent if it was not scheduled.').optional(),
  sent_at: time('When it was delivered to the last recipient; null unless all have it.').nullable(),
  error: words('Why it failed; null if it did not.').nullable(),
};

export const email = z.object(emailFields).meta({ id: 'Email', description: 'An email in the log.' });

const returnKinds = ['bounce', 'delay', 'complaint', 'unsubscribe'] as const;

const listedFields = {
  ...emailFields,
  returned: list(z.enum(returnKinds), 'What came back after delivery: each kind once; `returns` has the details.'),
  recipient_count: integer('How many recipients it has in to, cc and bcc.'),
  held: flag('A recipient is held until you decide with `release`; `explain` says why.'),
};

const listedEmail = z.object(listedFields).meta({ id: 'ListedEmail', description: 'An email in a list.' });

export const accountEmail = z
  .object({ ...listedFields, account_id: id('The account that sent it.') })
  .meta({ id: 'AccountEmail', description: 'An email in the log of all accounts.' });

const whenNext = 'When it is tried next; null once settled, while its destination is paused, and while it is held.';

const recipient = z
  .object({
    address: words('The address.'),
    kind: oneOf(['to', 'cc', 'bcc'], 'Its field in the request.'),
    status: oneOf(recipientStatuses, 'Its status; `deferred`: the server said "later".'),
    attempts: integer('How often it was tried.'),
    last_response: words('The last reply of the server, or our own last note.').nullable(),
    waiting_for: words(
      'Why it is due but not tried, such as a limit, a back-off or a pause; or which step it is in.',
    ).nullable(),
    next_attempt_at: time(whenNext).nullable(),
  })
  .meta({ id: 'Recipient', description: 'One recipient of an email.' });

const returned = z
  .object({
    recipient: words('The recipient that it is about.'),
    kind: oneOf(
      returnKinds,
      '`bounce`: a server gave up after it had accepted the email; `delay`: it still tries; `complaint`: the reader reported spam.',
    ),
    classification: words('The class of a bounce or delay, such as `bad_mailbox`.').nullable(),
    enhanced_code: words('The enhanced code (RFC 3463), such as `5.1.1`.').nullable(),
    diagnostic: words('The text of the report.').nullable(),
    received_at: time('When it arrived.'),
  })
  .meta({ id: 'Return', description: 'What came back after delivery. The status of the email does not change.' });

const emailWithRecipients = z
  .object({
    ...emailFields,
    tls: oneOf(tlsLevels, 'The TLS that it requires; the domain and the receiver may require more.'),
    on_uncertain: oneOf(uncertainPolicies, 'What to do after an attempt that may have delivered it.'),
    recipients: list(recipient, 'Each recipient: first to, then cc and bcc.'),
    returns: list(returned, 'What came back later, oldest first.'),
  })
  .meta({ id: 'EmailWithRecipients', description: 'An email with the status of each recipient.' });

const content = z
  .object({
    html: words('The body as HTML.').nullable(),
    text: words('The body as plain text.').nullable(),
    headers: list(
      z.object({ name: words('Its name.'), value: words('Its value.') }),
      'Header fields from the request.',
    ),
    attachments: list(
      z.object({
        filename: words('The name that the recipient sees.'),
        content_type: words('The MIME type.'),
        content_id: words('Its name in `cid:` links in the html; null for a plain attachment.').nullable(),
        size: integer('In bytes.'),
      }),
      'Its files.',
    ),
  })
  .meta({ id: 'EmailContent', description: 'The content of an email.' });

export const contentGone: Refusal = {
  status: 410,
  error: 'gone',
  when: 'The content is gone: its retention is over, or the data of its recipient was erased.',
  detail: 'the content of an email is kept for 30 days, which are over',
};

const attempt = z
  .object({
    id: id('Its id.'),
    at: time('When it began.'),
    number: integer('The number of the attempt for this recipient, from 1.'),
    recipient: words('The recipient.'),
    mx_host: words('The host that was tried; null if it failed before there was one.').nullable(),
    remote_address: words('Its IP address; null if none of several answered.').nullable(),
    local_address: words('The address that we connected from.').nullable(),
    tls_version: words('Such as `TLSv1.3`; null when it was not encrypted.').nullable(),
    tls_cipher: words('The cipher.').nullable(),
    verification: words(
      'The TLS policy that applied, or that forbade the connection: `opportunistic`, `required`, `verified`, `mta-sts` or `dane`; `none`: not encrypted, or no connection.',
    ),
    phase: words('The SMTP command that decided it, or `dns`, `connect`, `local`.'),
    outcome: oneOf(['delivered', 'deferred', 'bounced'], 'The outcome; `bounced` is final.'),
    uncertain: flag('We sent the message but got no reply: the server may have it.'),
    reply_code: integer('The code of the reply, such as 550.').nullable(),
    enhanced_code: words('The enhanced code (RFC 3463), such as `5.1.1`.').nullable(),
    reply: words("The server's full reply; null if no reply decided it.").nullable(),
    reason: words('What happened, in one sentence.'),
    duration_ms: integer('How long it took.'),
    classification: words('The class of a failure, such as `bad_mailbox` or `rate`.').nullable(),
    conversation: list(
      z.object({
        ms: integer('Milliseconds since the start.'),
        by: oneOf(
          ['us', 'server', 'note'],
          'Who sent the line; `note`: something that we looked up, decided or observed.',
        ),
        text: words('The command, or a line of a reply.'),
      }),
      'The SMTP conversation without the message itself; shared by all recipients of a session, and empty if there was none.',
    ),
  })
  .meta({ id: 'Attempt', description: 'One SMTP attempt: one recipient at one MX host.' });

/** What holds for a destination. */
export const tlsOutlook = z.object({
  policy: oneOf([...tlsLevels, 'mta-sts', 'dane'], 'The policy that applies.'),
  source: words('Where the policy comes from; `default`: nothing is required.'),
  notes: list(z.string(), 'Notes about it.'),
});

export const source = z.object({
  pool: words('The pool of sending addresses.'),
  ips: list(z.string(), 'Its addresses.'),
  notes: list(z.string(), 'Which addresses are new, and why the pool of the domain is not used.'),
});

const explanation = z
  .object({
    address: words('The recipient.'),
    status: oneOf(recipientStatuses, 'Its status.'),
    cause: words(
      'Why it has this status: `scheduled`, `in_queue`, `on_hold`, `being_delivered`, `held_back`, `uncertain`, `crashed`, `retrying`, `refused`, `given_up`, `suppressed` or `canceled`; null when delivered.',
    ).nullable(),
    classification: words('The class of a failure.').nullable(),
    sentence: words('The explanation in words.'),
    advice: words('What you can do; null if there is nothing to do.').nullable(),
    attempts: integer('How often it was tried.'),
    last_attempt: z
      .object({
        at: time('When.'),
        mx_host: words('The MX host.').nullable(),
        phase: words('The SMTP command.'),
        response: words('The reply.'),
        uncertain: flag('The server may have the message anyway.'),
      })
      .nullable()
      .describe('The last attempt; null before the first.'),
    tls: tlsOutlook
      .nullable()
      .describe('How the connection will be secured; null once settled, and after the first ten destinations.'),
    next_attempt_at: time(whenNext).nullable(),
    gives_up_at: time('When we give up if nothing changes; null once settled.').nullable(),
  })
  .meta({ id: 'Explanation', description: 'Why a recipient has its status, and what happens next.' });

export const emailExample = {
  id: samples.email,
  status: 'queued',
  from: samples.from,
  to: samples.to,
  cc: [],
  bcc: [],
  reply_to: [],
  subject: 'Your order',
  tags: ['orders'],
  type: 'transactional',
  created_at: samples.createdAt,
  sent_at: null,
  error: null,
};

const sentExample = { ...emailExample, status: 'sent', sent_at: samples.deliveredAt };
export const listedExample = { ...sentExample, returned: [], recipient_count: 1, held: false };

const attemptExample = {
  id: samples.attempt,
  at: '2026-11-21T09:00:00.120Z',
  number: 1,
  recipient: samples.to,
  mx_host: 'mx.example.net',
  remote_address: '192.0.2.25',
  local_address: '198.51.100.7',
  tls_version: 'TLSv1.3',
  tls_cipher: 'TLS_AES_256_GCM_SHA384',
  verification: 'opportunistic',
  phase: 'dot',
  outcome: 'delivered',
  uncertain: false,
  reply_code: 250,
  enhanced_code: '2.0.0',
  reply: '250 2.0.0 Ok: queued as 4XyZ',
  reason: 'mx.example.net answered the message with: 250 2.0.0 Ok: queued as 4XyZ',
  duration_ms: 292,
  classification: null,
  conversation: [
    { ms: 0, by: 'note', text: 'MX hosts of example.net: 10 mx.example.net' },
    { ms: 0, by: 'us', text: 'EHLO mail.example.org' },
    { ms: 21, by: 'server', text: '250-mx.example.net' },
    { ms: 21, by: 'server', text: '250 STARTTLS' },
  ],
};

/** What a page of a log has beside its emails. */
export const besideEmails = {
  count: total,
  count_exact: flag(
    'False if more may match than `count` says: a search by recipient, or by more than one of tag, sender and domain, counts up to 10,000; a search by words or by the recipients’ domain, up to 1,000.',
  ),
  next_cursor: id(
    'The `cursor` of the next page; null on the last. A search by the recipients’ domain looks at 100,000 emails at a time, so a page may be short or empty although another follows.',
  ).nullable(),
};

const params = { id: "The email's id." };

export const emailGroup: Group = {
  name: 'Emails: the log',
  description: 'What you sent, what happened to it, and why.',
  operations: [
    {
      id: 'listEmails',
      method: 'get',
      path: '/api/v1/emails',
      summary: 'List emails',
      description: "The account's emails, newest first. Filters are combined: an email must match all of them.",
      access: { key: 'read', orLogin: true },
      query: logQuery,
      answer: {
        description: 'One page.',
        schema: z.object({
          emails: list(listedEmail, 'The page.'),
          ...besideEmails,
        }),
        example: { emails: [listedExample], count: 1, count_exact: true, next_cursor: null },
      },
    },
    {
      id: 'getEmail',
      method: 'get',
      path: '/api/v1/emails/:id',
      summary: 'Get an email',
      description: 'One email, with the status of each recipient.',
      access: { key: 'read', orLogin: true },
      params,
      answer: {
        description: 'The email.',
        schema: z.object({ email: emailWithRecipients }),
        example: {
          email: {
            ...sentExample,
            recipients: [
              {
                address: samples.to,
                kind: 'to',
                status: 'delivered',
                attempts: 1,
                last_response: attemptExample.reply,
                waiting_for: null,
                next_attempt_at: null,
              },
            ],
            tls: 'opportunistic',
            on_uncertain: 'retry',
            returns: [],
          },
        },
      },
    },
    {
      id: 'listAttempts',
      method: 'get',
      path: '/api/v1/emails/:id/attempts',
      summary: 'List delivery attempts',
      description: "Every SMTP attempt, oldest first, with the server's full reply.",
      access: { key: 'read', orLogin: true },
      params,
      answer: {
        description: 'The attempts.',
        schema: z.object({ attempts: list(attempt, 'Oldest first.') }),
        example: { attempts: [attemptExample] },
      },
    },
    {
      id: 'getEmailContent',
      method: 'get',
      path: '/api/v1/emails/:id/content',
      summary: 'Get the content of an email',
      description:
        'Its bodies and header fields as they were accepted, and a list of its files. The content is kept for 30 days, and for as long as the email waits; the rest of the log is kept as long as its week.',
      access: { key: 'read', orLogin: true },
      params,
      answer: {
        description: 'The content.',
        schema: content,
        example: {
          html: '<p>It is on its way.</p>',
          text: 'It is on its way.',
          headers: [{ name: 'X-Order', value: '4711' }],
          attachments: [{ filename: 'invoice.pdf', content_type: 'application/pdf', content_id: null, size: 48213 }],
        },
      },
      refusals: [contentGone],
    },
    {
      id: 'explainEmail',
      method: 'get',
      path: '/api/v1/emails/:id/explain',
      summary: 'Explain an email',
      description:
        'Says in words and in fields why each recipient has its status, what happens next, and what you can do.',
      access: { key: 'read', orLogin: true },
      params,
      answer: {
        description: 'The explanation.',
        schema: z.object({
          email,
          summary: words('The email in one sentence.'),
          source: source
            .nullable()
            .describe('The addresses it is sent from; null once settled, or if the system chooses.'),
          recipients: list(explanation, 'Each recipient.'),
        }),
        example: {
          email: emailExample,
          summary:
            'queued: 1 recipient (1 deferred). Attempt 1 did not succeed: mx.example.net answered: 451 4.7.1 try again later. The next one is due at 2026-11-21T09:05:00.000Z.',
          source: { pool: 'default', ips: ['198.51.100.7'], notes: [] },
          recipients: [
            {
              address: samples.to,
              status: 'deferred',
              cause: 'retrying',
              classification: 'policy',
              sentence:
                'Attempt 1 did not succeed: mx.example.net answered: 451 4.7.1 try again later. The next one is due at 2026-11-21T09:05:00.000Z.',
              advice: `${meanings.policy.meaning} ${meanings.policy.advice} It is tried again automatically.`,
              attempts: 1,
              last_attempt: {
                at: '2026-11-21T09:00:00.120Z',
                mx_host: 'mx.example.net',
                phase: 'rcpt',
                response: '451 4.7.1 try again later',
                uncertain: false,
              },
              next_attempt_at: '2026-11-21T09:05:00.000Z',
              tls: { policy: 'opportunistic', source: 'default', notes: [] },
              gives_up_at: '2026-11-24T09:00:00.000Z',
            },
          ],
        },
      },
    },
  ],
};
