import { createTransport } from 'nodemailer';
import type { Peer } from '../support/mx.ts';

/** Text that moves a terminal's cursor, ends a line for some programs, and looks like a log entry. */
export const unprintable = '\x1b[31m\x1b[2J\x1b]0;x\x07{"level":60,"msg":"forged"}\0\x08\x9b31m\x85\xe2\x80\xa8\x7f';

/** The same in UTF-8, where U+2028 ends a line for some programs, and without what ends a message. */
const inUtf8 = Buffer.from('\x1b[31m\u2028{"level":60,"msg":"forged"}\u2029\u0085\u009b31m\ufeff').toString('latin1');

/** An MX host that answers with such text, at another step in each connection. */
export async function talk(peer: Peer, number: number): Promise<void> {
  const place = number % 6;
  if (place === 0) peer.send(`220 mx ${unprintable}\n{"level":60}\r\n`);
  else if (place === 1) peer.send(`${unprintable}\r\n`);
  else peer.send(`220-${unprintable}\r\n220 mx\r\n`);
  await peer.answer(place === 2 ? `554 5.0.0 ${unprintable}` : `250-mx ${unprintable}\r\n250 8BITMIME`);
  if (place === 2) await peer.answer(`554 ${unprintable}`);
  await peer.answer(place === 3 ? `451 4.3.0 ${unprintable}\ra` : '250 ok');
  await peer.answer(`${place === 4 ? 550 : 250} ${inUtf8}`);
  await peer.answer('354 go');
  await peer.until('\r\n.\r\n');
  peer.send(`550-5.7.1 ${unprintable}\r\n550 5.7.1 ${unprintable}\r\n`);
}

/** A mail client that sends such text where it may, and where it may not. */
export async function submit(port: number, { key, from }: { key: string; from: string }): Promise<string[]> {
  const replies: string[] = [];
  const header = `From: ${from}\r\nTo: a@b.test`;
  for (const [sender, to, raw] of [
    [from, 'a@b.test', `${header}\r\nSubject: ${inUtf8}\r\n\r\nt`],
    [from, 'a@b.test', `${header}\r\nSubject: s\r\nX-Sendwright-${inUtf8}: x\r\n\r\nt`],
    [from, 'a@b.test', `${header}\r\nSubject: s\r\nX-Sendwright-Type: =?utf-8?Q?=1B[31m=0A{?=\r\n\r\nt`],
    [from, 'a\x1b[31m@b.test', `${header}\r\nSubject: s\r\n\r\nt`],
    ['a@\x1b[31m.test', 'a@b.test', `${header}\r\nSubject: s\r\n\r\nt`],
  ] as const) {
    const transport = createTransport({
      host: '127.0.0.1',
      port,
      requireTLS: true,
      tls: { rejectUnauthorized: false },
      auth: { user: '{"level":60}\u202e\u2028', pass: key },
    });
    const envelope = { from: sender, to: [to] };
    replies.push(
      await transport.sendMail({ envelope, raw: Buffer.from(raw, 'latin1') }).then(
        ({ response }) => response,
        (error: Error) => error.message,
      ),
    );
    transport.close();
  }
  return replies;
}
