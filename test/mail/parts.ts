import { parseMailbox } from '../../src/mail/address/address.ts';
import type { MessageAttachment } from '../../src/mail/compose/attachments.ts';
import { compose, type MessageParts } from '../../src/mail/compose/compose.ts';

/** The parts of a plain message, except those that a test is about. */
export const message = (parts: Partial<MessageParts> = {}): MessageParts => ({
  from: parseMailbox('Shop <shop@sender.example>'),
  to: [parseMailbox('a@b.example')],
  cc: [],
  replyTo: [],
  subject: 'Hello',
  html: null,
  text: 'Hello',
  headers: [],
  attachments: [],
  messageId: '0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001@sender.example',
  date: new Date('2026-11-20T10:11:12.345Z'),
  ...parts,
});
/** An attachment, likewise. */
export const file = (parts: Partial<MessageAttachment> = {}): MessageAttachment => ({
  filename: 'a.bin',
  contentType: 'application/octet-stream',
  contentId: null,
  content: Buffer.from('content'),
  ...parts,
});

/** The whole message in one piece. */
export async function composed(parts: MessageParts): Promise<Buffer> {
  const { header, body } = await compose(parts);
  return Buffer.concat([header, body.bytes]);
}
