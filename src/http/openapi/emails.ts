import { z } from 'zod';
import { meanings } from '../../core/log/advice.ts';
import { logQuery } from '../input/log-query.ts';
import {
  attempt,
  besideEmails,
  content,
  email,
  emailWithRecipients,
  explanation,
  listedEmail,
  source,
} from './email-schemas.ts';
import type { Group } from './operation.ts';
import type { Refusal } from './refusals.ts';
import { samples } from './samples.ts';
import { list, words } from './schema.ts';

export const contentGone: Refusal = {
  status: 410,
  error: 'gone',
  when: 'The content is gone: its retention is over, or the data of its recipient was erased.',
  detail: 'the content of an email is kept for 30 days, which are over',
};

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
            api_key_id: samples.key,
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
