import t from 'tap';
import { tlsOutlook } from '../../src/core/outgoing/tls-outlook.ts';
import type { Database } from '../../src/db/client.ts';
import type { Email, Recipient } from '../../src/generated/prisma/client.ts';
import type { TlsDescription } from '../../src/smtp/tls-policies.ts';

const email = { domainId: 'd', accountId: 'a', tls: 'required' } as Email;
const waitingAt = (destination: string) => ({ destination, nextAttemptAt: new Date() }) as Recipient;
const db = { prisma: { domain: { findFirst: async () => null } } } as unknown as Database;

t.test('a destination whose policies are not known in time is left out', async (t) => {
  const known: TlsDescription = { policy: 'required', source: 'this email', notes: [], refused: new Map() };
  const recipients = [waitingAt('silent.test'), waitingAt('known.test')];
  const resolveMx = async (name: string) => [{ exchange: `mx.${name}`, priority: 1 }];
  const describe = (domain: string) =>
    domain === 'known.test' ? Promise.resolve(known) : new Promise<never>(() => undefined);
  const tools = { lookUp: { resolver: { resolveMx } as never }, tlsPolicies: { describe } };
  const outlooks = await tlsOutlook(db, { email, recipients }, tools, 1);
  t.strictSame([...outlooks], [['known.test', { policy: 'required', source: 'this email', notes: [] }]]);
});
