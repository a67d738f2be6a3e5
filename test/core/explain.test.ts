import t from 'tap';
import { meanings } from '../../src/core/log/advice.ts';
import { explain } from '../../src/core/log/explain.ts';
import { objections } from '../../src/core/outgoing/objection.ts';
import { stoppedNote } from '../../src/core/recipients/settlement.ts';
import { crashedNote, heldNote, pauseOf, tooMuchFor } from '../../src/core/recipients/waiting-for.ts';
import type { Attempt, Email, Recipient, Return } from '../../src/generated/prisma/client.ts';
import type { Classification } from '../../src/smtp/deliver.ts';
import { rules } from '../../src/smtp/rules/rules.ts';

const at = new Date('2026-11-21T09:00:00Z');
const nothingElse = { returns: [], tls: new Map(), onHoldSince: null, delivers: true, objection: null };
const email = { status: 'queued', createdAt: at, scheduledAt: null } as Email;

function adviceFor(
  classification: Classification,
  outcome: 'bounced' | 'deferred',
  status: Recipient['status'],
  fields: Partial<Attempt> = {},
) {
  const address = 'jane@example.com';
  const rest = { destination: 'example.com', claimedBy: null, waitingFor: null, lastResponse: null };
  const recipient = { address, status, attempts: 1, ...rest };
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

t.test('a class that only a later release knows is explained like any failure', async (t) => {
  const ofLater = 'quota_of_tenant' as Classification;
  t.equal(adviceFor(ofLater, 'deferred', 'failed'), adviceFor('other', 'deferred', 'failed'));
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

/** An email of these recipients, whose row is everything that is not given here. */
interface Told {
  email?: Partial<Email>;
  recipients: Partial<Recipient>[];
  attempts?: Partial<Attempt>[];
  returns?: Partial<Return>[];
  onHoldSince?: Date;
  delivers?: boolean;
  objection?: string;
}

const jane = 'jane@example.com';
const hours = (count: number) => new Date(at.getTime() + count * 3_600_000);
/** The time as it is in a sentence. */
const said = (count: number) => hours(count).toISOString();

/** Two hours after the email was accepted; it is tried for one. */
function tell({ email: more, recipients, attempts = [], returns = [], delivers = true, ...told }: Told) {
  const usual = { status: 'queued', attempts: 0, destination: 'example.com', claimedBy: null, waitingFor: null };
  const rest = { nextAttemptAt: null, lastResponse: null, crashes: 0 };
  const attempt = { recipient: jane, number: 1, at, outcome: 'deferred', classification: 'other', uncertain: false };
  const words = { mxHost: 'mx.example.com', phase: 'rcpt', reply: null, reason: 'It closed the connection.' };
  return explain(
    {
      email: { ...email, ...more },
      recipients: recipients.map((one) => ({ ...usual, ...rest, address: jane, ...one }) as Recipient),
      attempts: attempts.map((one) => ({ ...attempt, ...words, ...one }) as Attempt),
      returns: returns.map(
        (one) => ({ recipient: jane, receivedAt: at, diagnostic: null, classification: null, ...one }) as Return,
      ),
      tls: new Map([['example.com', 'opportunistic' as never]]),
      onHoldSince: told.onHoldSince ?? null,
      delivers,
      objection: told.objection ?? null,
    },
    3_600_000,
    hours(2),
  );
}

/** What is said of a single recipient. */
const tellOne = ({ recipient, ...told }: Omit<Told, 'recipients'> & { recipient: Partial<Recipient> }) =>
  tell({ ...told, recipients: [recipient] }).recipients[0];

t.test('what a recipient waits for is said in one sentence', async (t) => {
  const told = (waitingFor: string) => tellOne({ recipient: { waitingFor } })?.sentence;
  t.equal(told(pauseOf('example.com')), 'Waits without using up an attempt: example.com is paused.');
  t.equal(
    told(tooMuchFor('example.com')),
    'Waits without using up an attempt: example.com gets what it bears at a time.',
  );
});

t.test('what is said of one that was delivered is what a server said, or that somebody decided so', async (t) => {
  const delivered = { status: 'delivered', attempts: 1 } as const;
  const attempts = [{ uncertain: true }, { number: 2, outcome: 'delivered', reply: '250 taken' } as const];
  const told = (more: Partial<Recipient>, known: Partial<Attempt>[]) =>
    tellOne({ recipient: { ...delivered, ...more }, attempts: known });
  t.match(told({ lastResponse: '250 taken' }, attempts), {
    cause: null,
    sentence: 'Delivered to mx.example.com, which answered: 250 taken',
    advice: null,
    nextAttemptAt: null,
    givesUpAt: null,
    tls: null,
  });
  t.equal(
    told({}, [{ outcome: 'delivered', reply: null }])?.sentence,
    'Delivered to mx.example.com.',
    'what the server said was erased with its recipient',
  );
  // Held because processes crashed, of which no attempt is known.
  t.match(told({ attempts: 0, lastResponse: 'taken for delivered, as was decided' }, []), {
    sentence: 'Counts as delivered: taken for delivered, as was decided.',
    lastAttempt: null,
  });
});

t.test('what waits and would not be sent is said to, and what can still be done', async (t) => {
  const due = { nextAttemptAt: hours(3) };
  for (const objection of Object.values(objections)) {
    const scheduled = tellOne({ recipient: due, email: { scheduledAt: hours(3) }, objection });
    t.match(scheduled, {
      cause: 'scheduled',
      sentence: `Waits for its scheduled time, ${said(3)}. As things are it will not be sent: ${objection}.`,
      advice: /^(?:Until then, |Cancel it, )/,
    });
    const retried = tellOne({ recipient: { ...due, status: 'deferred', attempts: 1 }, attempts: [{}], objection });
    t.match(retried, { cause: 'retrying', sentence: / As things are it will not be sent: / });
    const begun = tellOne({ recipient: { ...due, claimedBy: 'node', claimedAt: hours(2) }, objection });
    t.equal(begun?.sentence, `Has been in delivery since ${said(2)}.`);
  }
});

t.test('mail that is due while no node delivers is said to wait for one, and what waits anyway is not', async (t) => {
  const [due, later] = [{ nextAttemptAt: hours(1) }, { nextAttemptAt: hours(3) }];
  const none = 'No node that delivers mail is running.';
  const advice = 'An operator has to start a node with the role mta, or find out why it has ended.';
  const told = (recipient: Partial<Recipient>, given: Omit<Told, 'recipients'> = {}) =>
    tellOne({ recipient, delivers: false, ...given });
  t.match(told(due), {
    cause: 'in_queue',
    sentence: `Has been in the queue since ${said(0)}; no attempt has been made yet. ${none}`,
    advice,
  });
  const tried = { status: 'deferred', attempts: 1 } as const;
  const retried = told({ ...due, ...tried }, { attempts: [{}] });
  t.match(retried, { cause: 'retrying', sentence: ` The next one is due at ${said(1)}. ${none}`, advice });
  for (const other of [
    told({ ...later, ...tried }, { attempts: [{}] }),
    told(later, { email: { scheduledAt: hours(3) } }),
    told({ ...due, claimedBy: 'node', claimedAt: hours(2) }),
    told(due, { onHoldSince: hours(1) }),
    told({ status: 'delivered', nextAttemptAt: null }),
  ]) {
    t.notMatch(other?.sentence, none);
    t.not(other?.advice, advice);
  }
});

t.test('whatever was erased with a recipient leaves no gap in the sentence', async (t) => {
  const erased = { recipient: jane, mxHost: 'mx.example.com', reply: null, reason: 'erased' };
  const told = (status: Recipient['status'], outcome: Attempt['outcome'] | null) => {
    const attempts = outcome === null ? [] : [{ ...erased, outcome }];
    return tellOne({ recipient: { status, attempts: attempts.length }, attempts })?.sentence;
  };
  t.equal(told('delivered', null), 'Counts as delivered: that was decided.');
  t.equal(told('delivered', 'deferred'), 'Counts as delivered: that was decided.');
  t.equal(told('failed', null), 'Not sent: the reason was erased.');
  t.equal(told('failed', 'bounced'), 'Refused for good: erased.');
  t.equal(told('failed', 'deferred'), 'Tried once and given up.');
  t.equal(
    told('failed', 'delivered'),
    'Counts as failed (the reason was erased), but did arrive, which was not known then: erased.',
  );
});

t.test('what is said of one that waits is true: since when, until when, and what of', async (t) => {
  const due = { nextAttemptAt: hours(1) };
  const later = { nextAttemptAt: hours(3) };
  t.match(tellOne({ recipient: due }), {
    cause: 'in_queue',
    sentence: `Has been in the queue since ${said(0)}; no attempt has been made yet.`,
    givesUpAt: hours(1).toISOString(),
    tls: 'opportunistic',
  });
  t.match(tellOne({ recipient: due, email: { scheduledAt: hours(1) } }), {
    cause: 'in_queue',
    sentence: `Has been in the queue since ${said(1)}; no attempt has been made yet.`,
  });
  const scheduled = tellOne({ recipient: later, email: { scheduledAt: hours(3) } });
  t.match(scheduled, { cause: 'scheduled', sentence: `Waits for its scheduled time, ${said(3)}.` });
  t.strictSame([scheduled?.nextAttemptAt, scheduled?.givesUpAt], [hours(3), hours(4)]);
  t.match(tellOne({ recipient: due, onHoldSince: hours(1) }), {
    cause: 'on_hold',
    sentence: `Waits, because the whole service is on hold and has sent nothing since ${said(1)}.`,
  });
  t.match(tellOne({ recipient: { ...due, claimedBy: 'node', claimedAt: hours(2) } }), {
    cause: 'being_delivered',
    sentence: `Has been in delivery since ${said(2)}.`,
  });
  t.equal(tellOne({ recipient: { ...due, destination: 'elsewhere.test' } })?.tls, null, 'it was not looked up');

  const [answered, closed] = [{ reply: '451 later.' }, { number: 2 }] as const;
  t.equal(
    tellOne({ recipient: { ...later, attempts: 1 }, attempts: [answered] })?.sentence,
    `Attempt 1 did not succeed: mx.example.com answered: 451 later. The next one is due at ${said(3)}.`,
  );
  const odd = {
    phase: 'data',
    reply: '250 ok',
    replyCode: 250,
    reason: 'mx.example.com answered DATA with: 250 ok',
  } as const;
  t.equal(
    tellOne({ recipient: { ...later, attempts: 1 }, attempts: [odd] })?.sentence,
    `Attempt 1 did not succeed: mx.example.com answered DATA with: 250 ok. The next one is due at ${said(3)}.`,
    'an answer that only its place makes wrong',
  );
  const retried = { ...later, attempts: 2 };
  t.match(tellOne({ recipient: retried, attempts: [answered, closed] }), {
    sentence: `Attempt 2 did not succeed: It closed the connection. The next one is due at ${said(3)}.`,
    lastAttempt: { response: 'It closed the connection.' },
  });
  const doubt = 'ended after the whole message and before an answer to it, so it may have arrived all the same.';
  const doubtful = { ...closed, uncertain: true };
  for (const [attempts, which] of [
    [[answered, doubtful], 'Attempt 2'],
    [[{ ...answered, uncertain: true }, doubtful], 'Attempts 1, 2'],
  ] as const)
    t.equal(
      tellOne({ recipient: retried, attempts: [...attempts] })?.sentence,
      `Attempt 2 did not succeed: It closed the connection. The next one is due at ${said(3)}. ${which} ${doubt}`,
    );
  for (const waitingFor of [heldNote, crashedNote]) {
    const held = tellOne({ recipient: { ...later, waitingFor, crashes: 20 } });
    t.strictSame([held?.nextAttemptAt, held?.givesUpAt], [null, null], 'nothing is due');
  }
});

t.test('what is said of one that nothing is sent to any more is why', async (t) => {
  const failed = { status: 'failed', attempts: 1 } as const;
  const bounced = { outcome: 'bounced', classification: 'content' } as const;
  const reply = '554 spam.';
  t.equal(
    tellOne({ recipient: failed, attempts: [{ ...bounced, reply }] })?.sentence,
    'Refused for good: mx.example.com answered: 554 spam.',
  );
  t.equal(
    tellOne({ recipient: failed, attempts: [{ ...bounced, phase: 'local', reason: 'The domain is gone.' }] })?.sentence,
    'Not sent: The domain is gone.',
  );
  // Held because processes crashed, of which no attempt is known: no server has refused it.
  const decided = 'taken for not delivered, as was decided';
  t.match(tellOne({ recipient: { ...failed, attempts: 0, lastResponse: decided } }), {
    cause: 'refused',
    sentence: `Not sent: ${decided}.`,
    advice: null,
  });
  const times = { ...failed, attempts: 3, lastResponse: 'given up after 3 days; the last answer was: 451 later.' };
  t.equal(
    tellOne({ recipient: times, attempts: [{ number: 3 }] })?.sentence,
    'Tried 3 times and given up after 3 days; the last answer was: 451 later.',
  );
  t.equal(tellOne({ recipient: failed, attempts: [{}] })?.sentence, 'Tried once and given up.', 'the rest was erased');

  const canceled = { status: 'canceled' } as const;
  for (const [status, sentence] of [
    ['canceled', 'The email was canceled before it was sent.'],
    ['suppressed', 'Nothing was sent, because another recipient is suppressed.'],
    ['sent', 'Was canceled before it was sent, because the data of this recipient was to be erased.'],
  ] as const)
    t.equal(tellOne({ recipient: canceled, email: { status } })?.sentence, sentence);
});

t.test('what came back is said of the recipient that it is about', async (t) => {
  const delivered = { status: 'delivered', attempts: 1 } as const;
  const attempts = [jane, 'john@example.com'].map(
    (recipient) => ({ recipient, outcome: 'delivered', reply: '250 taken' }) as const,
  );
  const told = (...returns: Partial<Return>[]) =>
    tell({ recipients: [delivered, { ...delivered, address: 'john@example.com' }], attempts, returns }).recipients;
  const before = 'Delivered to mx.example.com, which answered: 250 taken';
  const late = { kind: 'delay' } as const;
  const bounce = { kind: 'bounce', classification: 'mailbox_full', diagnostic: '552 full.' } as const;
  t.strictSame(
    told(late, bounce).map(({ sentence, classification }) => [sentence, classification]),
    [
      [`${before}. It was reported as delayed on ${said(0)}. It came back on ${said(0)}: 552 full.`, 'mailbox_full'],
      [before, null],
    ],
  );
  t.match(told(bounce)[0], { address: jane, status: 'delivered', cause: null, attempts: 1 });
  t.equal(told(bounce)[0]?.advice, `${meanings.mailbox_full.meaning} ${meanings.mailbox_full.advice}`);
  for (const [kind, sentence] of [
    ['complaint', 'Its reader called it spam'],
    ['unsubscribe', 'Its reader unsubscribed'],
  ] as const)
    t.match(told({ kind })[0], {
      sentence: `${before}. ${sentence} on ${said(0)}.`,
      classification: null,
      advice: null,
    });
});

t.test('a summary counts the recipients, and speaks of the one that needs somebody first', async (t) => {
  const [done, failed, waiting, held] = [
    { status: 'delivered' },
    { status: 'failed', lastResponse: 'no' },
    { nextAttemptAt: hours(1) },
    { status: 'deferred', attempts: 1, waitingFor: heldNote, nextAttemptAt: hours(9) },
  ] as const;
  const told = (...recipients: Partial<Recipient>[]) =>
    tell({
      recipients: recipients.map((one, place) => ({ ...one, address: `r${place}@example.com` })),
    }).summary;
  t.equal(told(done, done), 'queued: 2 recipients (2 delivered).');
  t.match(
    told(done, waiting),
    /^queued: 2 recipients \(1 delivered, 1 queued\)\. r1@example\.com: Has been in the queue/,
  );
  t.match(told(waiting, failed), / r1@example\.com: Not sent: no\.$/);
  t.match(told(waiting, failed, held), / r2@example\.com: Is not tried again until somebody decides/);
});
