import type { Test } from 'tap';
import { deriveKey } from '../../src/crypto/seal.ts';
import { type ReturnsServerOptions, startReturnsServer } from '../../src/inbound/returns-server.ts';
import { silentLog } from '../../src/log.ts';
import { createReturnPath, createUnsubscribeAddress } from '../../src/mail/links/token.ts';
import { createQueue } from '../../src/queue.ts';
import { buildSender, unsubscribeKey } from '../support/build.ts';
import { startTestNode } from '../support/node.ts';
import { sharedNode } from '../support/shared-node.ts';
import { certificate, Dialog, encryptionKey, serverName } from './scene.ts';

export const host = serverName;
const env = { ENCRYPTION_KEY: encryptionKey.toString('hex'), ROLES: 'api' };
export const keys = { returnPath: deriveKey(encryptionKey, 'return path'), unsubscribe: unsubscribeKey(encryptionKey) };

/** A node that delivers nothing, and next to it the server for bounces and complaints. */
export async function startReturns(t: Test, options: Partial<ReturnsServerOptions> & { databaseUrl?: string } = {}) {
  const { databaseUrl, ...rest } = options;
  const node = await (databaseUrl ? startTestNode(t, { ...env, DATABASE_URL: databaseUrl }) : sharedNode('api'));
  const queue = createQueue(node.databaseUrl, silentLog);
  await queue.start();
  const server = await startReturnsServer({
    db: node.db,
    queue,
    log: silentLog,
    host,
    keys,
    listenOn: '127.0.0.1',
    port: 0,
    tls: certificate,
    ...rest,
  });
  t.teardown(async () => {
    await server.close(100);
    await queue.stop();
  });
  const dial = async () => {
    const dialog = await Dialog.open(t, server.port, false);
    await dialog.ask('EHLO mx.other.test');
    return dialog;
  };
  const idle: Dialog[] = [];
  /** Delivers a message; returns the reply to it, or to what was refused before it. Text is Latin-1. */
  const deliver = async (to: string | string[], message: string | Buffer, from = '') => {
    const text = (typeof message === 'string' ? message : message.toString('latin1')).replaceAll(/\r?\n/g, '\r\n');
    const dialog = idle.pop() ?? (await dial());
    const reply = await dialog.message(from, text.replaceAll('\r\n.', '\r\n..'), [to].flat());
    await dialog.ask('RSET');
    idle.push(dialog);
    return reply;
  };
  return { node, queue, server, dial, deliver, sender: () => buildCorrespondent(node) };
}

/** An account of its own, with an endpoint for all events. */
async function buildCorrespondent(node: Awaited<ReturnType<typeof startTestNode>>) {
  const sender = await buildSender(node.db, encryptionKey);
  const { email, password } = sender.account;
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body;
  const events = ['email.bounced', 'email.complained', 'email.unsubscribed'];
  await node.call('POST', '/api/v1/webhooks', { token, body: { url: 'https://hooks.example.com/', events } });
  const get = async (path: string) => (await node.call('GET', path, { token, key: sender.key })).body;
  return {
    ...sender,
    token,
    /** An email that was accepted and, as far as anybody knows, delivered. */
    async send(to: string | string[], fields: Record<string, unknown> = {}): Promise<string> {
      const body = { from: sender.from, to, subject: 's', text: 't', ...fields };
      const { id, status } = (await node.call('POST', '/api/v1/emails', { key: sender.key, body })).body.email;
      if (status !== 'queued') throw new Error(`it is ${status}`);
      await node.db.query({
        text: `WITH r AS (UPDATE recipients SET status = 'delivered', next_attempt_at = NULL WHERE email_id = $1)
               UPDATE emails SET status = 'sent', pending = 0, sent_at = now() WHERE id = $1`,
        values: [id],
      });
      return id;
    },
    read: async (id: string) => (await get(`/api/v1/emails/${id}`)).email,
    explain: async (id: string) => await get(`/api/v1/emails/${id}/explain`),
    suppressed: async (): Promise<string[]> =>
      (await get('/api/v1/suppressions')).suppressions.map(
        (one: { address: string; reason: string }) => `${one.address} ${one.reason}`,
      ),
    /** What the endpoint will be told, oldest first. */
    async events() {
      const rows = await node.db.query<{ payload: string }>({
        text: 'SELECT payload FROM webhook_deliveries WHERE account_id = $1 ORDER BY id',
        values: [sender.account.id],
      });
      return rows.map((row) => JSON.parse(row.payload));
    },
  };
}

export const returnPath = (emailId: string, position = 0, alone = true) =>
  createReturnPath(keys.returnPath, emailId, host, { position, alone });
/** A return path of the old form, which names no recipient. */
export const oldReturnPath = (emailId: string) => createReturnPath(keys.returnPath, emailId, host);
export const unsubscribeAddress = (emailId: string, position = 0) =>
  createUnsubscribeAddress(keys.unsubscribe, { emailId, position }, host);

/** A bounce with one group for each of these. */
export function bounce(...groups: { to?: string; action?: string; status?: string; said?: string }[]): string {
  const fields = groups.map(
    ({ to = 'jane@example.com', action = 'failed', status = '5.1.1', said = '550 5.1.1 no such user' }) =>
      `Final-Recipient: rfc822; ${to}\nAction: ${action}\nStatus: ${status}\nDiagnostic-Code: smtp; ${said}\n`,
  );
  return `From: MAILER-DAEMON@mx.other.test
Subject: Undelivered Mail Returned to Sender
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b
Content-Type: text/plain

It failed.

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.other.test

${fields.join('\n')}
--b--
`;
}

/** A feedback report about a message with these header lines. */
export function complaint(header: string, fields = '', type = 'abuse'): string {
  return `From: feedback@provider.test
Subject: FW: s
Content-Type: multipart/report; report-type=feedback-report; boundary=b

--b
Content-Type: message/feedback-report

Feedback-Type: ${type}
Version: 1
${fields}
--b
Content-Type: text/rfc822-headers

${header}
--b--
`;
}
