import t from 'tap';
import { heldNote, pausedUntil } from '../../src/core/recipients/waiting-for.ts';
import { record } from '../../src/delivery/outcome/attempt-record.ts';
import type { RecipientResult, Session } from '../../src/smtp/deliver.ts';
import { buildClaim } from '../support/claim.ts';

const now = new Date();
const hoursMs = 3_600_000;
const days = { scheduleMs: [60_000, 300_000], forMs: 72 * hoursMs };

const cutOff: RecipientResult = {
  recipient: 'a@d.test',
  outcome: 'deferred',
  phase: 'ehlo',
  reply: null,
  reason: 'mx.d.test was left because this server ended the attempt.',
  enhanced: null,
  class: 'other',
  uncertain: false,
};
const unanswered: RecipientResult = { ...cutOff, phase: 'dot', class: 'network', uncertain: true };
const givenUp: RecipientResult = { ...cutOff, phase: 'local', reason: 'This server did not end the message.' };
const later: RecipientResult = {
  ...cutOff,
  phase: 'rcpt',
  reply: { code: 451, enhanced: null, text: 'later' },
  reason: 'mx.d.test said "451 later".',
};

/** What is recorded about one attempt, the eighth, for mail that was due this many hours ago. */
function recordOf(
  results: RecipientResult[],
  { hours = 1, onUncertain = 'retry' as 'retry' | 'hold', cutShort = false, begun = false, policy = days } = {},
) {
  const session: Session = {
    ...{ startedAt: now, durationMs: 1, host: 'mx.d.test', remoteAddress: null, localAddress: null, tls: null },
    ...{ verification: 'none', reused: false, conversation: [], results },
  };
  const recipients = results.map(({ recipient: address }, position) => ({ position, address, attempts: 7 }));
  const claim = buildClaim({ recipients });
  const email = { accountId: 'x', dueAt: new Date(now.getTime() - hours * hoursMs), onUncertain };
  const ending = {
    begun: begun || cutShort,
    late: cutShort,
    signal: cutShort ? AbortSignal.abort() : new AbortController().signal,
  };
  return record({ policy, clock: { now: () => now } }, claim, { sessions: [session] }, email, ending);
}

const settle = (...what: Parameters<typeof recordOf>) => recordOf(...what).settlements;

t.test('mail that is held when its delivery is uncertain is held at the end of its time, too', async (t) => {
  for (const hours of [1, 71, 72, 100]) {
    const held = { status: 'deferred', nextAttemptAt: pausedUntil.toISOString(), waitingFor: heldNote, attempts: 8 };
    t.match(settle([unanswered], { hours, onUncertain: 'hold' }), [held], `${hours} hours`);
  }
  t.match(settle([unanswered], { hours: 72 }), [{ status: 'failed', lastResponse: /^given up after 72 hours/ }]);
});

t.test("an attempt that this server's stop ended does not count, and ends nothing", async (t) => {
  for (const hours of [1, 73]) {
    const undone = { status: 'deferred', attempts: 7, waitingFor: null };
    t.match(
      settle([cutOff], { hours, cutShort: true }),
      [{ ...undone, nextAttemptAt: now.toISOString() }],
      'on shutdown',
    );
    t.match(
      settle([givenUp], { hours, begun: true }),
      [{ ...undone, nextAttemptAt: now.toISOString() }],
      'before another copy',
    );
  }
});

t.test('mail that this server gave up for a reason other than its stop comes back, at growing intervals', async (t) => {
  t.match(settle([givenUp], { hours: 1 }), [{ status: 'deferred', attempts: 8, nextAttemptAt: Date }]);
  const last = { status: 'deferred', attempts: 8, nextAttemptAt: new Date(now.getTime() + 300_000).toISOString() };
  t.match(settle([givenUp], { hours: 73 }), [last], 'after its time, too');
});

t.test('a site is to blame if a server of it was asked, and not if this host could not even try', async (t) => {
  const untried: RecipientResult = { ...cutOff, phase: 'connect', reason: 'no descriptors', class: 'sender' };
  const unreached: RecipientResult = { ...untried, reason: 'no answer', class: 'network' };
  t.match(recordOf([untried]), { verdict: 'untried', reply: 'no descriptors', host: null });
  t.match(recordOf([unreached, untried]), { verdict: 'unreachable', reply: 'no answer' });
  t.match(
    recordOf([{ ...cutOff, phase: 'connect' }]),
    { verdict: 'nothing', reply: null },
    'nor if the attempt was ended',
  );
  t.match(settle([untried], { hours: 73 }), [{ status: 'failed', attempts: 8 }], 'it is not tried forever');
  const unasked: RecipientResult = { ...untried, phase: 'dns', enhanced: '4.4.3' };
  t.match(recordOf([unasked]), { verdict: 'untried', reply: 'no descriptors' });
  t.match(recordOf([{ ...unasked, enhanced: '5.4.6' }]), { verdict: 'nothing' }, 'nor is a route that leads back here');
});

t.test('a site that took or judged mail gets more, and one that asks for less or leaves gets less', async (t) => {
  const said = (code: number, text: string, outcome: RecipientResult['outcome']): RecipientResult => ({
    ...{ ...later, recipient: `${code}@d.test`, outcome, reply: { code, enhanced: null, text } },
  });
  const taken = said(250, 'ok', 'delivered');
  const [refused, asks] = [said(550, 'no such user', 'bounced'), said(451, 'too many connections', 'deferred')];
  const [waits, leaves] = [said(450, 'greylisted', 'deferred'), said(421, 'good night', 'deferred')];
  const local: RecipientResult = { ...cutOff, outcome: 'bounced', recipient: 'local@d.test' };
  const table: [results: RecipientResult[], verdict: string, reply: string | null][] = [
    [[taken], 'fine', '250 ok'],
    [[refused], 'fine', '550 no such user'],
    [[waits], 'nothing', '450 greylisted'],
    [[taken, waits], 'fine', '450 greylisted'],
    [[asks, taken], 'slower', '451 too many connections'],
    [[leaves], 'slower', '421 good night'],
    [[taken, leaves], 'fine', '421 good night'],
    [[waits, local], 'nothing', '450 greylisted'],
    [[local], 'nothing', null],
  ];
  for (const [results, verdict, reply] of table)
    t.match(recordOf(results), { verdict, reply, host: reply && 'mx.d.test' }, `${verdict}: ${reply}`);
});

t.test('given up after seconds, minutes or hours, as people say it', async (t) => {
  const after = (forMs: number) =>
    recordOf([later], { hours: 100, policy: { scheduleMs: [1_000], forMs } }).settlements[0]?.lastResponse;
  t.match(after(90_000), /^given up after 90 seconds;/);
  t.match(after(120_000), /^given up after 2 minutes;/);
  t.match(after(2 * hoursMs), /^given up after 2 hours;/);
});

t.test("a server's answer counts, even if the attempt was cut short", async (t) => {
  t.match(settle([later], { hours: 73, cutShort: true }), [{ status: 'failed', attempts: 8 }]);
  const [step] = settle([later], { cutShort: true });
  t.match(step, { status: 'deferred', attempts: 8 });
  t.ok(Number(step?.nextAttemptAt) > now.getTime() + 200_000, 'as scheduled');
});

t.test('recipients that were deferred together are retried together', async (t) => {
  const names = Array.from({ length: 40 }, (_, at) => `r${at}@d.test`);
  const steps = settle(names.map((recipient) => ({ ...later, recipient })));
  t.equal(new Set(steps.map(({ nextAttemptAt }) => Number(nextAttemptAt))).size, 1);
});
