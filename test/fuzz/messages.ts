import fc from 'fast-check';
import { formatMailbox, parseMailbox } from '../../src/mail/address/address.ts';
import { refuseAttachment } from '../../src/mail/compose/attachments.ts';
import type { MessageParts } from '../../src/mail/compose/compose.ts';
import { plainAddress } from '../mail/addresses.ts';
import { file, message } from '../mail/parts.ts';
import { line } from './texts.ts';

/** Possible bodies: any text, and more of what often goes wrong with encodings and line ends. */
export const body = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc
    .array(
      fc.oneof(
        fc.constantFrom(
          '.',
          '..',
          '\r',
          '\n',
          '\r\n',
          '\n\n',
          ' ',
          '\t',
          '=',
          '--',
          '--=_',
          'From ',
          '\0',
          '\ud800',
          'ü',
          '字',
        ),
        fc.constantFrom('x'.repeat(75), 'x'.repeat(76), 'x'.repeat(990), 'x'.repeat(999), 'ü'.repeat(80), '\r\n.\r\n'),
        fc.string({ maxLength: 20 }),
      ),
      { maxLength: 40 },
    )
    .map((pieces) => pieces.join('')),
);

const name = line(80).map((text) => text.replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, '').trim());
const mailbox = fc
  .tuple(name, plainAddress)
  .map(([name, address]) => parseMailbox(formatMailbox({ ...parseMailbox(address), name: name === '' ? null : name })));

const attachment = fc
  .record({
    filename: fc.oneof(
      line(100),
      fc.constantFrom('a.pdf', '..', '/etc/passwd', 'C:\\a', '"; x=', "utf-8''a%20b", 'ü.txt'),
    ),
    contentType: fc.constantFrom('application/octet-stream', 'text/plain', 'image/png', 'text/html; charset=utf-8'),
    contentId: fc.option(fc.constantFrom('i', 'a.b@c'), { nil: null }),
    content: fc
      .oneof(
        fc.uint8Array({ maxLength: 300 }),
        body.map((text) => Buffer.from(text)),
      )
      .map((bytes) => Buffer.from(bytes)),
  })
  .filter((one) => refuseAttachment(one) === null)
  // Readers count a text part with an id as a body.
  .map((one) => file(one.contentType.startsWith('text/') ? { ...one, contentId: null } : one));

/** A message that could have been accepted. */
export const anyMessage: fc.Arbitrary<MessageParts> = fc
  .record({
    to: fc.array(mailbox, { minLength: 1, maxLength: 4 }),
    cc: fc.array(mailbox, { maxLength: 2 }),
    subject: line(300),
    text: fc.option(body, { nil: null }),
    html: fc.option(body, { nil: null }),
    attachments: fc.array(attachment, { maxLength: 3 }),
  })
  .map(({ text, html, ...parts }) => {
    // Next to files an empty text is left out.
    const given = parts.attachments.length > 0 ? { text: text || null, html: html || null } : { text, html };
    return message({
      ...parts,
      ...given,
      text: given.text ?? (given.html === null && parts.attachments.length === 0 ? '' : null),
    });
  });

/** How a text arrives: each line end is CRLF, and each lone surrogate becomes the replacement character. */
export const arrived = (text: string) => text.replaceAll(/\r\n|\r|\n/g, '\r\n').toWellFormed();
