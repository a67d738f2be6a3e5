import fc from 'fast-check';
import { decide } from '../../src/delivery/outcome/outcome.ts';
import { afterOpening, type RetryPolicy } from '../../src/delivery/outcome/schedule.ts';
import type { RecipientResult } from '../../src/smtp/deliver.ts';
import type { Target } from './target.ts';
import { hold } from './texts.ts';

const minute = 60_000;
const hour = 60 * minute;
const dueAt = new Date('2027-01-01T00:00:00Z');

const policy: fc.Arbitrary<RetryPolicy> = fc.record({
  scheduleMs: fc.array(fc.integer({ min: 1_000, max: 10 * hour }), { minLength: 1, maxLength: 10 }),
  forMs: fc.integer({ min: 1_000, max: 100 * hour }),
});

/** A time that a server names, and its meaning in ms, which is at least a minute; null: it names none. */
const asked = fc.oneof(
  fc.constant({ text: 'try again later', ms: null }),
  fc.integer({ min: 1, max: 50 }).map((n) => ({ text: `Greylisted, try again in ${n} minutes`, ms: n * minute })),
  fc
    .integer({ min: 1, max: 3_000 })
    .map((n) => ({ text: `Greylisted, try again in ${n} seconds`, ms: Math.max(minute, n * 1_000) })),
);

/** One attempt: what the server said, how long it took until then, and the random spread. */
const attempt = fc.record({
  asked,
  tookMs: fc.integer({ min: 0, max: 10 * minute }),
  random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
});

const deferred = (text: string): RecipientResult => ({
  recipient: 'a@b.test',
  outcome: 'deferred',
  phase: 'rcpt',
  reply: { code: 451, enhanced: '4.7.1', text },
  reason: '',
  enhanced: '4.7.1',
  class: 'policy',
  uncertain: false,
});

export const schedule: Target = {
  name: 'schedule',
  open: () => ({
    'retries get later and later, as far apart as promised, and end in time': fc.property(
      policy,
      fc.array(attempt, { minLength: 1, maxLength: 12 }),
      (policy, says) => {
        const end = dueAt.getTime() + policy.forMs;
        const shortest = Math.min(...policy.scheduleMs, 1_000);
        let now = dueAt;
        for (let attempts = 1; ; attempts += 1) {
          const { asked, tookMs, random } = says[(attempts - 1) % says.length] ?? (says[0] as (typeof says)[number]);
          now = new Date(now.getTime() + tookMs);
          const outcome = decide(deferred(asked.text), { attempts, dueAt }, policy, now, () => random);
          if (outcome.status === 'failed') {
            hold(now.getTime() >= end, 'was given up before its time');
            return true;
          }
          if (outcome.status !== 'deferred') throw new Error(`is ${outcome.status}`);
          const wait = outcome.nextAttemptAt.getTime() - now.getTime();
          const planned = policy.scheduleMs[Math.min(attempts, policy.scheduleMs.length) - 1] ?? 0;
          const atEnd = outcome.nextAttemptAt.getTime() === end;
          hold(
            wait > 0 && outcome.nextAttemptAt.getTime() <= end,
            `waits ${wait} ms, either beyond its time limit or not at all`,
          );
          hold(
            atEnd || wait >= (asked.ms ?? planned * 0.9 - 1) - 1,
            `comes ${wait} ms later, before the requested time`,
          );
          hold(wait <= Math.max(asked.ms ?? 0, planned) * 1.1 + 1, `comes ${wait} ms later, after the planned time`);
          hold(attempts <= 3 || atEnd || wait >= planned * 0.9 - 1, 'comes sooner than planned forever');
          hold(attempts <= 4 + policy.forMs / (shortest * 0.9), 'is tried endlessly');
          now = outcome.nextAttemptAt;
        }
      },
    ),
    'mail that waits for room goes on soon after it, in order of age': fc.property(
      policy,
      fc.integer({ min: 0, max: 48 * hour }),
      fc.array(fc.integer({ min: 0, max: 100 * hour }), { minLength: 2, maxLength: 5 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (policy, waitMs, ages, random) => {
        const now = new Date(dueAt.getTime() + 100 * hour);
        const opensAt = new Date(now.getTime() + waitMs);
        const times = ages
          .toSorted((a, b) => b - a)
          .map((age) => {
            const due = new Date(now.getTime() - age);
            const at = afterOpening(policy, opensAt, due, now, () => random).getTime();
            const end = due.getTime() + policy.forMs;
            hold(at <= end, 'is beyond its time limit');
            hold(
              at === end ||
                (at >= opensAt.getTime() && at <= opensAt.getTime() + Math.min(10 * minute, waitMs / 10) + 1_000),
              'is not soon after it',
            );
            return at === end ? null : at;
          })
          .filter((at) => at !== null);
        hold(
          times.every((at, index) => index === 0 || at >= (times[index - 1] ?? 0)),
          'a newer one comes first',
        );
        return true;
      },
    ),
  }),
};
