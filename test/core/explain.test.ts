import t from 'tap';
import { explain, meanings } from '../../src/core/explain.ts';
import type { Attempt, Email, Recipient } from '../../src/generated/prisma/client.ts';
import type { Classification } from '../../src/smtp/deliver.ts';
import { rules } from '../../src/smtp/rules.ts';

const at = new Date('2026-11-21T09:00:00Z');
const email = { status: 'queued', createdAt: at, scheduledAt: null } as Email;

function adviceFor(
  classification: Classification,
  outcome: 'bounced' | 'deferred',
  status: Recipient['status'],
  fields: Partial<Attempt> = {},
) {
  const address = 'jane@example.com';
  const recipient = { address, status, attempts: 1, destination: 'example.com', claimedBy: null, waitingFor: null };
  const attempt = {
    recipient: address,
    number: 1,
    at,
    outcome,
    classification,
    reply: '550 no',
    reason: 'no',
    ...fields,
  };
  const { recipients } = explain(
    { email, recipients: [recipient as Recipient], attempts: [attempt as Attempt] },
    3_600_000,
    at,
  );
  return recipients[0]?.advice ?? '';
}

t.test('each class that a rule can give says what it means and what can be done', async (t) => {
  for (const kind of new Set(rules.map((rule) => rule.is))) {
    const { meaning, advice } = meanings[kind];
    for (const text of [meaning, advice]) t.match(text, /^[A-Z].{15,}\.$/, kind);
    t.equal(adviceFor(kind, 'deferred', 'deferred'), `${meaning} ${advice} It is tried again by itself.`);
    t.match(adviceFor(kind, 'deferred', 'failed'), /It is not tried again; send it anew when that is mended\.$/);
  }
});

t.test('suppression is told of where it happens', async (t) => {
  const told = (Object.keys(meanings) as Classification[]).filter((kind) =>
    /suppression list/.test(adviceFor(kind, 'bounced', 'failed')),
  );
  t.same(told, ['bad_mailbox', 'bad_domain']);
  t.notMatch(adviceFor('bad_mailbox', 'deferred', 'failed'), /suppression list/);
});

t.test('who has the MX of a domain lead here is told that this is it', async (t) => {
  const told = adviceFor('sender', 'bounced', 'failed', { phase: 'dns', reply: null, enhancedCode: '5.4.6' });
  t.match(told, /^The MX records of the recipient’s domain lead to this server, which keeps no mailboxes: /);
  t.match(adviceFor('sender', 'bounced', 'failed'), /Verify the sending domain again/);
});
