import t from 'tap';
import { tlsOutlook } from '../../src/core/outgoing/tls-outlook.ts';
import type { Email, Recipient } from '../../src/generated/prisma/client.ts';
import { newId } from '../../src/ids.ts';
import type { TlsDescription } from '../../src/smtp/policies/tls-policies.ts';
import { openDatabase } from '../support/db.ts';
import { startZone } from '../support/zone.ts';

const email = { domainId: newId(), accountId: newId(), tls: 'required' } as Email;
const waitingAt = (destination: string) => ({ destination, nextAttemptAt: new Date() }) as Recipient;

t.test('a destination whose policies are not known in time is left out', async (t) => {
  const db = await openDatabase(t);
  const zone = await startZone({
    'silent.test': { MX: [[10, 'mx.silent.test']] },
    'known.test': { MX: [[10, 'mx.known.test']] },
  });
  t.teardown(() => zone.close());
  const known: TlsDescription = { policy: 'required', source: 'this email', notes: [], refused: new Map() };
  const describe = (domain: string) =>
    domain === 'known.test' ? Promise.resolve(known) : new Promise<never>(() => undefined);
  const recipients = [waitingAt('silent.test'), waitingAt('known.test')];
  const looked = { lookUp: { resolver: zone.resolver }, tlsPolicies: { describe } };
  // Longer, until a full machine has described the other one in time.
  for (let patienceMs = 200; ; patienceMs *= 2) {
    const outlooks = await tlsOutlook(db, { email, recipients }, looked, patienceMs);
    if (outlooks.size === 0 && patienceMs < 60_000) continue;
    t.strictSame([...outlooks], [['known.test', { policy: 'required', source: 'this email', notes: [] }]]);
    break;
  }
});
