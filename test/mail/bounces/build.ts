import type { Classification } from '../../../src/smtp/replies/result.ts';

/**
 * A message that came back, as the named server writes one, and how it should be read. Written for this test, after
 * real ones.
 */
export interface Bounce {
  name: string;
  message: Buffer;
  kind: 'bounce' | 'delay' | 'relayed' | 'auto_reply' | 'unknown';
  /** For each recipient: the address, what it is about, and whether it is permanent. */
  says: [address: string | null, is: Classification, permanent: boolean][];
}

type Says = Bounce['says'][number];

interface Written {
  from?: string;
  subject?: string;
  /** Additional header lines. */
  header?: string;
  text: string;
  charset?: string;
  /** The text as octets, if it is not UTF-8. */
  octets?: Buffer;
}

const returned = `Return-Path: <bounces+x@mail.sender.test>
From: Shop <hello@sender.test>
To: Jane <jane@example.com>
Subject: Your order
Message-ID: <0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001@sender.test>

550 5.1.1 is in the subject of nothing. Final-Recipient: rfc822; nobody@elsewhere.test
`;

export const original = returned;

const wire = (text: string) => Buffer.from(text.trimStart().replaceAll('\n', '\r\n'));

const top = ({ from, subject, header }: Written, daemon: string) =>
  `From: ${from ?? daemon}\nTo: <bounces+x@mail.sender.test>\nSubject: ${subject ?? 'Undelivered Mail Returned to Sender'}\nDate: Sat, 21 Nov 2026 09:00:00 +0000${header ? `\n${header}` : ''}\nMIME-Version: 1.0`;

const daemonOf = 'Mail Delivery System <MAILER-DAEMON@mx.relay.test>';

const said = (kind: Bounce['kind'], says: Says | Says[] | null): Pick<Bounce, 'kind' | 'says'> => ({
  kind,
  says: says === null ? [] : Array.isArray(says[0]) ? (says as Says[]) : [says as Says],
});

/** A `multipart/report` (RFC 3464): words, fields for programs, and the message. */
export function report(
  name: string,
  kind: Bounce['kind'],
  says: Says | Says[] | null,
  written: Written & { fields: string },
): Bounce {
  const { text, fields, charset = 'utf-8', octets } = written;
  const head = `${top(written, daemonOf)}
Content-Type: multipart/report; report-type=delivery-status; boundary="b1/mx.relay.test"

This is a MIME-encapsulated message.

--b1/mx.relay.test
Content-Description: Notification
Content-Type: text/plain; charset=${charset}

`;
  const tail = `
--b1/mx.relay.test
Content-Description: Delivery report
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.relay.test
Arrival-Date: Sat, 21 Nov 2026 09:00:00 +0000

${fields.trim()}

--b1/mx.relay.test
Content-Description: Undelivered Message
Content-Type: message/rfc822

${returned}
--b1/mx.relay.test--
`;
  return { name, ...said(kind, says), message: Buffer.concat([wire(head), octets ?? wire(text), wire(tail)]) };
}

/** A bounce of text only. */
export function plain(name: string, kind: Bounce['kind'], says: Says | Says[] | null, written: Written): Bounce {
  const { text, charset = 'utf-8', octets } = written;
  const head = `${top(written, daemonOf)}\nContent-Type: text/plain; charset=${charset}\nContent-Transfer-Encoding: 8bit\n\n`;
  return { name, ...said(kind, says), message: Buffer.concat([wire(head), octets ?? wire(text.replace(/^\n/, ''))]) };
}

/** Exactly these lines. */
export function raw(name: string, kind: Bounce['kind'], says: Says | Says[] | null, text: string): Bounce {
  return { name, ...said(kind, says), message: wire(text) };
}
