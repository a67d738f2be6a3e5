import { z } from 'zod';
import { actors, kept } from '../../core/sandbox-messages.ts';
import { page } from '../validation.ts';
import type { Group } from './operation.ts';
import { samples } from './samples.ts';
import { flag, id, integer, list, time, total, words } from './schema.ts';

const message = z
  .object({
    id: id('Its id.'),
    email_id: id('The email that it was; null for one that is not from here.').nullable(),
    received_at: time('When it arrived.'),
    mail_from: words('The return path.'),
    rcpt_to: list(z.string(), 'For whom it arrived.'),
    from: words('The address in its header.'),
    subject: words('Its subject.'),
    tls_version: words('How the connection was secured; null when it was not.').nullable(),
    dkim: list(
      z.object({
        domain: words('Who signed.'),
        selector: words('With which key.'),
        result: words('Such as `pass`.'),
        info: words('More about it.'),
      }),
      'The verdict on each signature.',
    ),
    size: integer('In bytes.'),
    raw: words('The source; what is not UTF-8 is U+FFFD.'),
    raw_truncated: flag('The source was cut: the single message has all of it.'),
  })
  .meta({ id: 'SandboxMessage', description: "A message in the sandbox's mailbox." });

const example = {
  id: samples.message,
  email_id: samples.email,
  received_at: samples.deliveredAt,
  mail_from: 'b+01a3c1a0@mail.sendwright.test',
  rcpt_to: [samples.to],
  from: 'hello@shop.example.com',
  subject: 'Your order',
  tls_version: 'TLSv1.3',
  dkim: [{ domain: 'shop.example.com', selector: 'sw1f2e3d4c', result: 'pass', info: 'dkim=pass' }],
  size: 1274,
  raw: 'From: Shop <hello@shop.example.com>\r\nSubject: Your order\r\n\r\nIt is on its way.\r\n',
  raw_truncated: false,
};

const keptInWords = kept.toLocaleString('en');
const acting = Object.entries(actors).map(([local, does]) => `- \`${local}@\` ${does}`);

export const sandboxGroup: Group = {
  name: 'Sandbox',
  description: `What arrived in the built-in mailbox, while \`DELIVERY_MODE\` is \`sandbox\`. It keeps the latest ${keptInWords} messages, of all accounts together. Mail to any address arrives; at any domain these act, so that you can try how you handle it:\n\n${acting.join('\n')}`,
  operations: [
    {
      id: 'listSandboxMessages',
      method: 'get',
      path: '/api/v1/sandbox/messages',
      summary: 'List what arrived',
      description: `The account's messages, newest first. Of all accounts together the latest ${keptInWords} are kept.`,
      access: 'login',
      query: z.object(page),
      answer: {
        description: 'One page.',
        schema: z.object({ messages: list(message, 'The page.'), count: total }),
        example: { messages: [example], count: 1 },
      },
    },
    {
      id: 'getSandboxMessage',
      method: 'get',
      path: '/api/v1/sandbox/messages/:id',
      summary: 'Get what arrived',
      description: 'One message with its whole source.',
      access: 'login',
      params: { id: "The message's id." },
      answer: { description: 'The message.', schema: z.object({ message }), example: { message: example } },
    },
  ],
};
