import t from 'tap';
import type { Call, Claim } from '../../src/core/webhooks/webhook-calls.ts';
import { newId } from '../../src/ids.ts';
import { type CallAnswer, decide, defaultSchedule, waitOf } from '../../src/webhooks/outcome.ts';
import { unanswered } from '../../src/webhooks/post.ts';

const claim: Claim = {
  nodeId: newId(),
  jobId: newId(),
  deliveryId: newId(),
  webhookId: newId(),
  accountId: newId(),
  failing: false,
};
const now = new Date('2026-11-21T12:00:00Z');
const call = (attemptCount = 0, event = 'email.sent'): Call => ({
  event,
  payload: '{}',
  attemptCount,
  url: 'https://example.com/',
  timesEnabled: 0,
  sealedSecret: Buffer.alloc(0),
  sealedPreviousSecret: null,
});
const answer = (status: number | null, retryAfter: string | null = null): CallAnswer => ({
  ...(status === null ? unanswered('the connection was refused') : { status, body: null, retryAfter, error: null }),
  startedAt: now,
  durationMs: 1,
});
const middle = () => 0.5;
const waits = (status: number | null, retryAfter: string | null, attempts = 0) => {
  const { nextAttemptAt } = decide(claim, call(attempts), answer(status, retryAfter), now, { random: middle });
  return nextAttemptAt && (nextAttemptAt.getTime() - now.getTime()) / 1000;
};

t.test('nine attempts over about 45 hours: WH-04', async (t) => {
  const delays = defaultSchedule.map((_, attempts) => waits(500, null, attempts));
  t.strictSame(delays, [5, 60, 300, 1_800, 7_200, 21_600, 43_200, 86_400]);
  const last = decide(claim, call(8), answer(500), now);
  t.match(last, {
    status: 'failed',
    nextAttemptAt: null,
    made: { attemptCount: 9 },
    error: 'given up after 9 attempts',
  });
});

t.test('each delay varies by up to a tenth', async (t) => {
  const at = (random: number) =>
    (decide(claim, call(1), answer(null), now, { random: () => random }).nextAttemptAt?.getTime() ?? 0) - now.getTime();
  t.strictSame([at(0), at(0.5), at(1)], [54_000, 60_000, 66_000]);
});

t.test('what each status means: WH-04', async (t) => {
  for (const status of [200, 201, 202, 204, 299]) {
    t.match(decide(claim, call(), answer(status), now), {
      status: 'succeeded',
      nextAttemptAt: null,
      made: { endpoint: 'works' },
    });
  }
  for (const status of [null, 199, 300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 429, 500, 503, 999]) {
    t.match(
      decide(claim, call(), answer(status), now),
      { status: 'pending', made: { endpoint: 'fails', attemptCount: 1 } },
      `${status}`,
    );
  }
  t.match(decide(claim, call(), answer(410), now), { status: 'failed', made: { endpoint: 'gone' }, error: /410/ });
  t.match(decide(claim, call(0, 'webhook.test'), answer(500), now), {
    status: 'failed',
    made: { endpoint: 'unknown' },
  });
});

t.test('what this server could not even try counts as an attempt, and not against the endpoint', async (t) => {
  const untried = { ...unanswered('no free file descriptors', true), startedAt: now, durationMs: 1 };
  t.match(decide(claim, call(), untried, now), { status: 'pending', made: { attemptCount: 1, endpoint: 'unknown' } });
  const last = decide(claim, call(8), untried, now);
  t.match(last, { status: 'failed', error: 'given up after 9 attempts', made: { endpoint: 'unknown' } });
});

t.test('Retry-After: WH-04', async (t) => {
  const day = 86_400;
  for (const [header, seconds] of [
    ['120', 120],
    ['0', 5],
    ['1', 5],
    [' 30 ', 30],
    ['86400', day],
    ['86401', day],
    ['1000000000', day],
    ['9'.repeat(400), day],
    ['-5', 5],
    ['-1000000000', 5],
    ['1.5', 5],
    ['1e9', 5],
    ['0x10', 5],
    ['NaN', 5],
    ['', 5],
    ['soon', 5],
    ['Sat, 21 Nov 2026 12:10:00 GMT', 600],
    ['Sat, 21 Nov 2026 11:00:00 GMT', 5],
    ['Fri, 01 Jan 1999 00:00:00 GMT', 5],
    ['Fri, 31 Dec 9999 23:59:59 GMT', day],
    ['Sat, 99 Nov 2026 99:99:99 GMT', 5],
    ['2026-11-21T12:10:00Z', 5],
    ['120, 600', 5],
  ] as const) {
    for (const status of [429, 503]) t.equal(waits(status, header), seconds, `${status} ${header.slice(0, 40)}`);
    t.equal(waits(500, header), 5, `500 ${header.slice(0, 40)}`);
  }
  t.equal(waits(429, '10', 2), 300, 'the schedule is the minimum');
  t.equal(waitOf(null, now), 0);
  t.equal(waits(503, '3600', 8), null, 'and it adds no attempt');
});
