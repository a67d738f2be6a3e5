import { setTimeout as sleep } from 'node:timers/promises';
import { createTransport } from 'nodemailer';
import type { Logger } from '../log.ts';
import { mailboxHost } from './zone.ts';

/** What the sandbox's mailbox sends back after it has accepted a message. */
export type ReturnKind = 'late bounce' | 'complaint';

/** Long enough for the delivery to be recorded first, as on the internet. */
const afterMs = 1_000;
const timeoutMs = 10_000;

export interface ReturnPlace {
  host: string;
  port: number;
}

export interface Came {
  returnPath: string;
  recipient: string;
  /** The message as it arrived. */
  raw: Buffer;
}

/** Sends bounces and complaints about arrived messages, by SMTP, to the server of their return path. */
export class Returns {
  readonly #log: Logger;
  readonly #underWay = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  /** Where that server listens; null: there is none, and nothing is sent. */
  place: ReturnPlace | null = null;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Sends it a second later, in the background. It is tried once; a failure is only logged. */
  send(kind: ReturnKind, came: Came): void {
    if (this.place === null || came.returnPath === '') return;
    const work = this.#send(kind, came, this.place).catch((error: Error) => {
      if (!this.#stopping.signal.aborted)
        this.#log.warn({ error: error.message }, `the sandbox could not send a ${kind}`);
    });
    this.#underWay.add(work);
    void work.finally(() => this.#underWay.delete(work));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#underWay);
  }

  async #send(kind: ReturnKind, came: Came, place: ReturnPlace): Promise<void> {
    await sleep(afterMs, undefined, { signal: this.#stopping.signal });
    const transport = createTransport({
      ...place,
      name: mailboxHost,
      // The server's certificate is self-signed; most senders do not check those of MX hosts either.
      tls: { rejectUnauthorized: false },
      connectionTimeout: timeoutMs,
      greetingTimeout: timeoutMs,
      socketTimeout: timeoutMs,
      dnsTimeout: timeoutMs,
    });
    try {
      const { returnPath } = came;
      await transport.sendMail({
        envelope: { from: '', to: [returnPath] },
        raw: kind === 'complaint' ? complaint(came) : bounce(came),
      });
    } finally {
      transport.close();
    }
  }
}

/** A delivery status notification (RFC 3464), as from a server that accepts a message before it looks for the mailbox. */
function bounce({ returnPath, recipient, raw }: Came): Buffer {
  return report('delivery-status', {
    from: `Mail Delivery System <MAILER-DAEMON@${mailboxHost}>`,
    to: returnPath,
    subject: 'Undelivered Mail Returned to Sender',
    text: `This is the mail system at host ${mailboxHost}.\r\n\r\n<${recipient}>: the mailbox does not exist\r\n`,
    type: 'message/delivery-status',
    fields: [
      `Reporting-MTA: dns; ${mailboxHost}`,
      '',
      `Final-Recipient: rfc822; ${recipient}`,
      'Action: failed',
      'Status: 5.1.1',
      'Diagnostic-Code: smtp; 550 5.1.1 the mailbox does not exist',
    ],
    raw,
  });
}

/** A feedback report (RFC 5965), as providers send when a reader presses "spam". Like most, it does not name the reader. */
function complaint({ returnPath, raw }: Came): Buffer {
  return report('feedback-report', {
    from: `Feedback Loop <feedback@${mailboxHost}>`,
    to: returnPath,
    subject: 'Complaint',
    text: 'A reader reported this message as spam.\r\n',
    type: 'message/feedback-report',
    fields: [
      'Feedback-Type: abuse',
      'User-Agent: Sendwright-Sandbox/1',
      'Version: 1',
      `Original-Mail-From: <${returnPath}>`,
    ],
    raw,
  });
}

interface Report {
  from: string;
  to: string;
  subject: string;
  text: string;
  type: string;
  fields: string[];
  raw: Buffer;
}

const boundary = 'sandbox=_returned';

/** A `multipart/report` (RFC 6522) that includes the message's header. */
function report(kind: string, { from, to, subject, text, type, fields, raw }: Report): Buffer {
  const end = raw.indexOf('\r\n\r\n');
  const lines = [
    `From: ${from}`,
    `To: <${to}>`,
    `Subject: ${subject}`,
    `Date: ${new Date().toUTCString().replace('GMT', '+0000')}`,
    'Auto-Submitted: auto-replied',
    'MIME-Version: 1.0',
    `Content-Type: multipart/report; report-type=${kind}; boundary="${boundary}"`,
    '',
    `--${boundary}`,
    'Content-Type: text/plain; charset=us-ascii',
    '',
    text,
    `--${boundary}`,
    `Content-Type: ${type}`,
    '',
    ...fields,
    '',
    `--${boundary}`,
    'Content-Type: text/rfc822-headers',
    '',
  ];
  return Buffer.concat([
    Buffer.from(`${lines.join('\r\n')}\r\n`),
    raw.subarray(0, end === -1 ? raw.length : end),
    Buffer.from(`\r\n\r\n--${boundary}--\r\n`),
  ]);
}
