import t from 'tap';
import { meanings } from '../../src/core/log/advice.ts';
import { explain } from '../../src/core/log/explain.ts';
import { stoppedNote } from '../../src/core/recipients/settlement.ts';
import { pauseOf, tooMuchFor } from '../../src/core/recipients/waiting-for.ts';
import type { Attempt, Email, Recipient } from '../../src/generated/prisma/client.ts';
import type { Classification } from '../../src/smtp/deliver.ts';
import { rules } from '../../src/smtp/rules/rules.ts';

const at = new Date('2026-11-21T09:00:00Z');
const nothingElse = { returns: [], tls: new Map(), onHoldSince: null };
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
    { email, recipients: [recipient as Recipient], attempts: [attempt as Attempt], ...nothingElse },
    3_600_000,
    at,
  );
  return recipients[0]?.advice ?? '';
}

t.test('each class that a rule can give says what it means and what to do', async (t) => {
  for (const kind of new Set(rules.map((rule) => rule.is))) {
    const { meaning, advice } = meanings[kind];
    for (const text of [meaning, advice]) t.match(text, /^[A-Z].{15,}\.$/, kind);
    t.equal(adviceFor(kind, 'deferred', 'deferred'), `${meaning} ${advice} It is tried again automatically.`);
    t.match(adviceFor(kind, 'deferred', 'failed'), /It is not tried again; send it again once that is fixed\.$/);
  }
});

t.test('the advice mentions the suppression list only where an address is suppressed', async (t) => {
  const told = (Object.keys(meanings) as Classification[]).filter((kind) =>
    /suppression list/.test(adviceFor(kind, 'bounced', 'failed')),
  );
  t.same(told, ['bad_mailbox', 'bad_domain']);
  t.notMatch(adviceFor('bad_mailbox', 'deferred', 'failed'), /suppression list/);
});

t.test('the advice says so if the MX records of a domain lead to this server', async (t) => {
  const told = adviceFor('sender', 'bounced', 'failed', { phase: 'dns', reply: null, enhancedCode: '5.4.6' });
  t.match(told, /^The MX records of the recipient’s domain lead to this server, which keeps no mailboxes: /);
  t.match(adviceFor('sender', 'bounced', 'failed'), /Verify the sending domain again/);
});

t.test('what was decided is not taken for an answer', async (t) => {
  const recipient = { address: 'jane@example.com', status: 'delivered', destination: 'example.com' };
  const lastResponse = 'taken for delivered, as was decided';
  const doubtful = { outcome: 'deferred', classification: 'other', reply: null, reason: 'closed' };
  const attempt = { recipient: recipient.address, number: 1, at, ...doubtful };
  const { recipients } = explain(
    {
      email,
      recipients: [{ ...recipient, lastResponse } as Recipient],
      attempts: [attempt as Attempt],
      ...nothingElse,
    },
    3_600_000,
    at,
  );
  t.match(recipients[0], {
    cause: null,
    classification: null,
    sentence: 'Counts as delivered: taken for delivered, as was decided.',
  });
});

t.test(
  'the last attempt is the one with the last number, even if the clock was set back since the one before',
  async (t) => {
    const address = 'jane@example.com';
    const recipient = {
      address,
      status: 'failed',
      attempts: 2,
      destination: 'example.com',
      lastResponse: '550 no such user',
    };
    const attempt = { recipient: address, mxHost: 'mx.example.com', reason: '', uncertain: false };
    const later = new Date(at.getTime() + 86_400_000);
    const first = { number: 1, at: later, outcome: 'deferred', classification: 'rate', reply: '451 later' };
    const second = { number: 2, at, outcome: 'bounced', classification: 'bad_mailbox', reply: '550 no such user' };
    // As the log has them, by their times.
    const attempts = [second, first].map((one) => ({ ...attempt, ...one }) as Attempt);
    const explained = { email, recipients: [recipient as Recipient], attempts, ...nothingElse };
    t.match(explain(explained, 3_600_000, at).recipients, [
      { cause: 'refused', classification: 'bad_mailbox', lastAttempt: { response: '550 no such user' } },
    ]);
  },
);

t.test('mail given up before it was known to have arrived does not need to be sent again', async (t) => {
  const address = 'jane@example.com';
  const recipient = {
    address,
    status: 'failed',
    attempts: 0,
    destination: 'example.com',
    claimedBy: null,
    waitingFor: null,
  };
  const attempt = { recipient: address, number: 1, at, mxHost: 'mx.example.com', classification: 'other' };
  const delivered = { ...attempt, outcome: 'delivered', reply: '250 taken', reason: '', uncertain: false };
  const doubtful = { ...attempt, outcome: 'deferred', reply: null, reason: 'stopped', uncertain: true };
  for (const lastResponse of [stoppedNote, 'taken for not delivered, as was decided']) {
    const told = (attempts: object[]) =>
      explain(
        {
          email,
          recipients: [{ ...recipient, lastResponse } as Recipient],
          attempts: attempts as Attempt[],
          ...nothingElse,
        },
        3_600_000,
        at,
      ).recipients[0];
    for (const attempts of [[delivered], [delivered, { ...doubtful, number: 2 }]])
      t.match(told(attempts), {
        cause: 'given_up',
        sentence: `Counts as failed (${lastResponse}), but did arrive, which was not known then: mx.example.com answered: 250 taken.`,
        advice: 'There is no need to send it again.',
      });
    t.match(told([doubtful]), {
      cause: 'given_up',
      sentence: /^Tried once and .* so it may have arrived all the same\.$/,
    });
  }
});

t.test('what a recipient waits for is said in one sentence', async (t) => {
  const address = 'jane@example.com';
  const told = (waitingFor: string) => {
    const recipient = {
      address,
      status: 'queued',
      attempts: 0,
      destination: 'example.com',
      claimedBy: null,
      waitingFor,
    };
    return explain({ email, recipients: [recipient as Recipient], attempts: [], ...nothingElse }, 3_600_000, at)
      .recipients[0]?.sentence;
  };
  t.equal(told(pauseOf('example.com')), 'Waits without using up an attempt: example.com is paused.');
  t.equal(
    told(tooMuchFor('example.com')),
    'Waits without using up an attempt: example.com gets what it bears at a time.',
  );
});
