import { buildSender } from './build.ts';
import { testKey } from './keys.ts';
import { adminPassword, startTestNode, type TestNode } from './node.ts';
import type { SendwrightProcess } from './process.ts';
import { startZone, type Zone, type ZoneEntry } from './zone.ts';

type Test = { teardown(work: () => Promise<void>): void };

/** An attempt each second for as long as a test takes; fewer later, because so many could not be counted. */
export const everySecond = `${'1s,'.repeat(100)}10s`;

export const mailHostname = 'out.sender.test';

/** Our SPF record, and a receiver that is itself a host on loopback. */
export const receiverZone: Record<string, ZoneEntry> = {
  [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
  'receiver.test': { A: ['127.0.0.1'] },
};

/** The environment of a node that delivers to MX hosts on loopback, which it finds through this zone. */
export function directEnv(zone: Zone, mxPort: number): Record<string, string> {
  return {
    DELIVERY_MODE: 'direct',
    MAIL_HOSTNAME: mailHostname,
    DNS_SERVERS: zone.address,
    MX_PORT: String(mxPort),
    ALLOW_PRIVATE_NETWORKS: 'true',
    SENDING_IPS: '127.0.0.1',
    RETRY_SCHEDULE: everySecond,
    RATE_LIMIT: '100000/100000',
  };
}

export interface DirectNode extends TestNode {
  zone: Zone;
  from: string;
  key: string;
  account: { id: string; email: string; password: string };
  domainId: string;
  domain: string;
  /** Sends, and returns the email's record. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the service answered
  send(fields: Record<string, unknown>): Promise<any>;
  /** The record with its recipients, now. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the service answered
  read(id: string): Promise<any>;
}

/** A node in `direct` mode, with an account that can send. */
export async function startDirectNode(
  t: Test,
  options: { zone: Record<string, ZoneEntry>; mxPort: number; env?: Record<string, string> },
): Promise<DirectNode> {
  const zone = await startZone(options.zone);
  t.teardown(() => zone.close());
  const encryptionKey = testKey(7);
  const env = { ...directEnv(zone, options.mxPort), ENCRYPTION_KEY: encryptionKey.toString('hex'), ...options.env };
  const node = await startTestNode(t, env);
  const sender = await buildSender(node.db, encryptionKey);
  return {
    ...node,
    ...sender,
    zone,
    async send(fields) {
      const body = { from: sender.from, subject: 'subject', text: 'text', ...fields };
      const answer = await node.call('POST', '/api/v1/emails', { key: sender.key, body });
      if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
      return answer.body.email;
    },
    read: async (id) => (await node.call('GET', `/api/v1/emails/${id}`, { key: sender.key })).body.email,
  };
}

/** Logs in, adds the domain, publishes what it is told to, verifies, and creates a key, like a real operator. */
export async function prepareSender(app: Pick<SendwrightProcess, 'call'>, zone: Zone, domain: string): Promise<string> {
  const login = await app.call('POST', '/api/v1/auth/login', {
    body: { email: 'admin@example.test', password: adminPassword },
  });
  const token = login.body.token;
  const added = await app.call('POST', '/api/v1/domains', { token, body: { domain } });
  const { verification, dkim, spf } = added.body.dns_records;
  zone.set(verification.name, { TXT: [verification.value] });
  zone.set(dkim.name, { TXT: [dkim.value] });
  zone.set(spf.name, { TXT: [spf.value] });
  const verified = await app.call('POST', `/api/v1/domains/${added.body.domain.id}/verify`, { token });
  if (verified.status !== 200) throw new Error(JSON.stringify(verified.body));
  return (await app.call('POST', '/api/v1/keys', { token, body: { name: 'crash' } })).body.key;
}
