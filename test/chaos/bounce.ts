import { setTimeout as sleep } from 'node:timers/promises';
import { createTransport } from 'nodemailer';
import type { World } from './world.ts';

/** A notice (RFC 3464) that this address does not exist. */
const notice = (returnPath: string, address: string) =>
  `From: Mail Delivery System <MAILER-DAEMON@mx.example.test>
To: <${returnPath}>
Subject: Undelivered Mail Returned to Sender
Date: Sat, 21 Nov 2026 09:00:00 +0000
Auto-Submitted: auto-replied
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: text/plain; charset=utf-8

The message could not be delivered: no such user.

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.test

Final-Recipient: rfc822; ${address}
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 no such user

--b--
`.replaceAll('\n', '\r\n');

/** Sends a bounce to the first node, as a server does: repeatedly until it has its 250, which is then in the ledger. */
export async function bounce(world: World, { tag, emailId, address }: Bounced, withinMs = 90_000): Promise<void> {
  const returnPath = world.mx.returnPaths.get(tag);
  if (!returnPath) throw new Error(`${tag} has not arrived yet`);
  for (const end = Date.now() + withinMs; Date.now() < end; await sleep(300)) {
    if (await hand(world.inboundPort, returnPath, notice(returnPath, address))) {
      world.ledger.write({ is: 'returned', emailId, address });
      return;
    }
  }
  throw new Error(`the bounce for ${tag} had no 250 within ${withinMs} ms`);
}

export interface Bounced {
  tag: string;
  emailId: string;
  address: string;
}

async function hand(port: number, to: string, raw: string): Promise<boolean> {
  const transport = createTransport({ host: '127.0.0.1', port, ignoreTLS: true, name: 'mx.example.test' });
  try {
    await transport.sendMail({ envelope: { from: '', to }, raw });
    return true;
  } catch {
    return false;
  } finally {
    transport.close();
  }
}
