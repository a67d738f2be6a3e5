import { createTransport } from 'nodemailer';
import type { Order } from './client.ts';

/**
 * The reply to the final dot, as an API status: 200 with the email's id, 503 for temporary, 400 for permanent, 0 for
 * none.
 */
export interface Submitted {
  status: number;
  ids: Record<string, string>;
  said: string;
}

/** The same bytes each time, as a repeated call under one key requires. */
const date = new Date('2026-11-21T10:00:00Z');

/** Submits an order by SMTP, over TLS and with an API key, on its own connection. */
export async function submit(order: Order, port: number, apiKey: string, withinMs: number): Promise<Submitted> {
  const [mail] = order.mails;
  if (!mail) throw new Error('an order has at least one email');
  const transport = createTransport({
    host: '127.0.0.1',
    port,
    auth: { user: 'chaos', pass: apiKey },
    requireTLS: true,
    tls: { rejectUnauthorized: false },
    connectionTimeout: withinMs,
    greetingTimeout: withinMs,
    socketTimeout: withinMs,
  });
  const message = {
    from: String(mail.body.from),
    to: mail.to,
    subject: mail.tag,
    text: String(mail.body.text),
    date,
    messageId: `<${order.key}@client.test>`,
    headers: { 'X-Sendwright-Idempotency-Key': order.key },
  };
  try {
    const { response } = await transport.sendMail(message);
    const id = /queued as (\S+)/.exec(response)?.[1];
    if (!id) throw new Error(`a 250 does not name the email: ${response}`);
    return { status: 200, ids: { [mail.tag]: id }, said: response };
  } catch (error) {
    const { responseCode = 0, message: said, code } = error as Error & { responseCode?: number; code?: string };
    if (!responseCode && !code) throw error;
    return { status: responseCode >= 500 ? 400 : responseCode >= 400 ? 503 : 0, ids: {}, said };
  } finally {
    transport.close();
  }
}
