import { mock } from 'node:test';
import t from 'tap';
import * as keys from '../../src/core/accounts/keys.ts';
import * as domains from '../../src/core/domains/domains.ts';
import { Keyring } from '../../src/seal.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';

const hourMs = 3_600_000;

t.test('mail is due by the clock of the database, whatever the clock of the accepting machine says', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  const request = (scheduledAt: Date | null) => requestOf(`s@${domain}`, ['a@receiver.test'], { scheduledAt });
  for (const offMs of [2 * hourMs, -2 * hourMs]) {
    const began = Date.now();
    mock.timers.enable({ apis: ['Date'], now: began + offMs });
    const accepted = await accept(db, queue, holderOf(account), [
      request(null),
      request(new Date(began + hourMs)),
    ]).finally(() => mock.timers.reset());
    const [atOnce, scheduled] = accepted.map((one) => ('email' in one ? one.email : null));
    if (!atOnce || !scheduled) throw new Error('they were not accepted');
    t.ok(Math.abs(atOnce.createdAt.getTime() - began) < 60_000, `${offMs / hourMs} hours off`);
    const rows = await db.query<{ id: string; due: Date; taken: boolean }>({
      text: 'SELECT email_id AS id, next_attempt_at AS due, job_id IS NOT NULL AS taken FROM recipients WHERE email_id = ANY($1)',
      values: [[atOnce.id, scheduled.id]],
    });
    const [first, second] = [atOnce, scheduled].map((email) => rows.find(({ id }) => id === email.id));
    t.match(first, { taken: true });
    t.ok(Math.abs((first?.due.getTime() ?? 0) - began) < 60_000);
    t.match(second, { taken: false, due: new Date(began + hourMs) });
  }
});

t.test('what a node does takes effect now, even if its clock is a day ahead', async (t) => {
  const { db } = await openQueue(t);
  const account = await buildAccount(db);
  const input = { name: 'leaked', scopes: ['send' as const], domains: [], expiresAt: null };
  const { apiKey } = await keys.create(db, account.id, input);
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 24 * hourMs });
  const changes = Promise.all([
    keys.revoke(db, account.id, apiKey.id),
    domains.add(db, account.id, { domain: 'new.test' }, { keyring: new Keyring(Buffer.alloc(32)) }),
  ]);
  await changes.finally(() => mock.timers.reset());
  const [row] = await db.query({
    text: `SELECT (SELECT revoked_at <= now() FROM api_keys WHERE id = $1) AS revoked,
                  (SELECT next_check_at < now() + interval '1 hour' FROM domains WHERE domain = 'new.test') AS checked`,
    values: [apiKey.id],
  });
  t.same(row, { revoked: true, checked: true });
});
