import fc from 'fast-check';
import t from 'tap';
import { decide } from '../../src/delivery/outcome/outcome.ts';
import { afterOpening, nextAttempt, type RetryPolicy } from '../../src/delivery/outcome/schedule.ts';
import type { RecipientResult } from '../../src/smtp/deliver.ts';
import { figure } from '../support/figure.ts';

const minute = 60_000;
const hour = 60 * minute;
const policy: RetryPolicy = {
  scheduleMs: [minute, 5 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 4 * hour, 6 * hour],
  forMs: 72 * hour,
};
const dueAt = new Date('2027-01-01T00:00:00Z');

t.test('the whole of three days, with its own clock', async (t) => {
  const attempts: number[] = [];
  for (
    let now: Date | null = dueAt;
    now;
    now = nextAttempt(policy, { attempts: attempts.length, dueAt }, now, () => 0.5)
  ) {
    attempts.push((now.getTime() - dueAt.getTime()) / minute);
  }
  t.same(attempts.slice(0, 8), [0, 1, 6, 21, 51, 111, 231, 471]);
  figure('P3', `${attempts.length} attempts without randomness, the last after ${(attempts.at(-1) ?? 0) / 60} h`);
  t.equal(attempts.at(-1), 72 * 60, 'the last attempt is at the very end');
  t.same(
    attempts.slice(8, -1).map((at, index) => at - (attempts[7 + index] ?? 0)),
    Array.from({ length: attempts.length - 9 }, () => 360),
  );
});

t.test('whatever the schedule and the spread, times only increase, stay in bounds and come to an end', async () => {
  const delays = fc.array(fc.integer({ min: minute, max: 10 * hour }), { minLength: 1, maxLength: 10 });
  const spreads = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(delays, fc.integer({ min: 1_000, max: 100 * hour }), spreads, (scheduleMs, forMs, spread) => {
      let now = dueAt;
      for (let attempts = 1; attempts < 10_000; attempts += 1) {
        const random = () => spread[attempts % spread.length] ?? 0;
        const next = nextAttempt({ scheduleMs, forMs }, { attempts, dueAt }, now, random);
        if (next === null) return now.getTime() - dueAt.getTime() >= forMs;
        const delay = scheduleMs[Math.min(attempts, scheduleMs.length) - 1] ?? 0;
        if (next <= now || next.getTime() > dueAt.getTime() + forMs) return false;
        if (next.getTime() - now.getTime() > delay * 1.1 + 1) return false;
        now = next;
      }
      return false;
    }),
    { numRuns: 200 },
  );
});

t.test('mail that was held back for all of its time does not end with its first attempt', async (t) => {
  const late = new Date(dueAt.getTime() + 100 * hour);
  const begunAt = new Date(dueAt.getTime() + 72 * hour);
  const second = (random: number, askedMs: number | null = null) =>
    (nextAttempt(policy, { attempts: 1, dueAt, begunAt, askedMs }, late, () => random)?.getTime() ?? 0) -
    late.getTime();
  t.equal(second(0.5), minute);
  t.equal(second(1) - second(0), 0.2 * minute, 'mail that was held back together does not come back together');
  t.equal(second(0, 20 * minute), 20 * minute, 'not before the time that the server named');
  t.equal(nextAttempt(policy, { attempts: 2, dueAt, begunAt }, late), null);
  t.equal(nextAttempt(policy, { attempts: 1, dueAt, begunAt: dueAt }, late), null, 'it was only slow');
  t.equal(nextAttempt(policy, { attempts: 1, dueAt, begunAt: null }, late), null, 'no server was asked');
});

t.test(
  "a server that names a time is not asked earlier, but cannot prevent the schedule's attempts forever",
  async (t) => {
    const later = (text: string, attempts: number, random = 0) => {
      const reply = { code: 451, enhanced: '4.7.1', text };
      const result = {
        recipient: 'a@b.test',
        outcome: 'deferred',
        phase: 'rcpt',
        reply,
        reason: '',
        enhanced: null,
      } as const;
      const { nextAttemptAt } = decide(
        { ...result, class: 'policy', uncertain: false },
        { attempts, dueAt },
        policy,
        dueAt,
        () => random,
      );
      return ((nextAttemptAt?.getTime() ?? 0) - dueAt.getTime()) / minute;
    };
    t.equal(later('Greylisted, try again in 300 seconds', 1), 5);
    t.equal(later('Greylisted, try again in 300 seconds', 1, 1), 5.5, 'spread to later times only');
    t.equal(later('Greylisted, try again in 2 minutes', 3), 2, 'sooner than the schedule, at first');
    t.equal(later('Greylisted, try again in 2 minutes', 4, 0.5), 30, 'and then no longer');
    t.equal(later('try again in 40 minutes', 4), 40);
    t.equal(later('try again in 400 hours', 1), 60, 'at most an hour');
    t.equal(later('try again later', 2, 0.5), 5, 'no time named: as scheduled');
  },
);

t.test('the verdict decides, not the text that came with it', async (t) => {
  const result = (outcome: RecipientResult['outcome'], code: number, text: string): RecipientResult => ({
    recipient: 'a@b.test',
    outcome,
    phase: 'dot',
    reply: { code, enhanced: null, text },
    reason: 'a reason',
    enhanced: null,
    class: null,
    uncertain: false,
  });
  const history = { attempts: 1, dueAt };
  t.match(decide(result('delivered', 250, '550 rejected'), history, policy, dueAt), {
    status: 'delivered',
    nextAttemptAt: null,
  });
  t.match(decide(result('bounced', 550, '250 ok delivered'), history, policy, dueAt), {
    status: 'failed',
    nextAttemptAt: null,
  });
  t.match(decide(result('deferred', 450, 'permanent'), history, policy, dueAt), {
    status: 'deferred',
    lastResponse: '450 permanent',
  });
  t.match(decide(result('deferred', 250, 'ok'), history, policy, dueAt), {
    status: 'deferred',
    lastResponse: 'a reason',
  });
  const late = new Date(dueAt.getTime() + 72 * hour);
  t.match(decide(result('deferred', 450, 'later'), { attempts: 20, dueAt }, policy, late), {
    status: 'failed',
    lastResponse: 'given up after 72 hours; the last answer was: 450 later',
  });
});

t.test('recipients that waited briefly go on soon after it, the oldest first, and not beyond their time', async (t) => {
  const now = new Date('2027-01-01T12:00:00Z');
  const midnight = new Date('2027-01-02T00:00:00Z');
  const after = (due: Date, random = 0.5, opensAt = midnight) =>
    (afterOpening(policy, opensAt, due, now, () => random).getTime() - opensAt.getTime()) / minute;
  const ages = [48, 30, 2, 0].map((hours) => after(new Date(now.getTime() - hours * hour)));
  t.same(
    ages,
    ages.toSorted((a, b) => a - b),
  );
  t.ok(ages.every((minutes) => minutes >= 1 && minutes <= 10));
  t.not(after(now, 0), after(now, 1), 'spread');
  t.ok(after(now, 1, new Date(now.getTime() + 20_000)) < 0.1, 'a short wait is spread by little');
  const old = new Date(now.getTime() - 70 * hour);
  t.same(afterOpening(policy, midnight, old, now), new Date(old.getTime() + policy.forMs));
});
