import { z } from 'zod';
import { actors, kept } from '../../core/operations/sandbox-messages.ts';
import { grouped } from '../../numbers.ts';
import { sandboxQuery } from '../routes/sandbox.ts';
import type { Group } from './operation.ts';
import { samples } from './samples.ts';
import { flag, id, integer, list, time, total, words } from './schema.ts';

const message = z
  .object({
    id: id('Its id.'),
    email_id: id('The email that it came from; null if this server did not send it.').nullable(),
    received_at: time('When it arrived.'),
    mail_from: words('The return path.'),
    rcpt_to: list(z.string(), 'The recipients in the envelope.'),
    from: words('The address in its `From` header.'),
    subject: words('Its subject.'),
    tls_version: words('The TLS version of the connection; null if it was not encrypted.').nullable(),
    dkim: list(
      z.object({
        domain: words('The domain that signed.'),
        selector: words('The selector of its key.'),
        result: words('Such as `pass`.'),
        info: words('More about it.'),
      }),
      'The verdict on each signature.',
    ),
    size: integer('In bytes.'),
    raw: words('The source; bytes that are not UTF-8 are U+FFFD.'),
    raw_truncated: flag('The source is cut; get the single message for all of it.'),
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

const keptInWords = grouped(kept);
const acting = Object.entries(actors).map(([local, does]) => `- \`${local}@\` ${does}`);

export const sandboxGroup: Group = {
  name: 'Sandbox',
  description: `The messages in the built-in mailbox, while \`DELIVERY_MODE\` is \`sandbox\`. It keeps the latest ${keptInWords} messages of all accounts together. Mail to any address arrives. These addresses behave differently, at any domain, so that you can test how you handle it:\n\n${acting.join('\n')}`,
  operations: [
    {
      id: 'listSandboxMessages',
      method: 'get',
      path: '/api/v1/sandbox/messages',
      summary: 'List sandbox messages',
      description: `The account's messages, newest first. The mailbox keeps the latest ${keptInWords} of all accounts together.`,
      access: 'login',
      query: sandboxQuery,
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
      summary: 'Get a sandbox message',
      description: 'One message with its whole source.',
      access: 'login',
      params: { id: "The message's id." },
      answer: { description: 'The message.', schema: z.object({ message }), example: { message: example } },
    },
  ],
};
