import t, { type Test } from 'tap';
import type { Claim } from '../../src/core/recipients/recipients.ts';
import * as suppressions from '../../src/core/returns/suppressions.ts';
import { LastTries } from '../../src/delivery/attempt/last-tries.ts';
import type { AttemptRecord } from '../../src/delivery/outcome/attempt-record.ts';
import type { Judgment } from '../../src/delivery/outcome/outcome.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { buildClaim } from '../support/claim.ts';
import { openQueue } from '../support/db.ts';
import { testKey } from '../support/keys.ts';

const hour = 3_600_000;

/** Emails that were accepted now, seen by a clock that is as late as the test says. */
async function scene(t: Test, firstDelayMs = 60_000) {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, testKey(1));
  let passed = 0;
  const clock = { now: () => new Date(Date.now() + passed) };
  const tries = new LastTries(db, { policy: { scheduleMs: [firstDelayMs], forMs: hour }, clock }, () => passed);
  const claimOf = async (destination: string, attempts = 1, request = {}): Promise<Claim> => {
    const address = `a@${destination}`;
    const [result] = await accept(db, queue, holderOf(sender.account), [
      { ...requestOf(sender.from, [address]), ...request },
    ]);
    if (!result || !('email' in result)) throw new Error('not accepted');
    return buildClaim({ emailId: result.email.id, to: [address], attempts });
  };
  const unreached = (): Judgment & Pick<AttemptRecord, 'attempts'> => ({
    host: null,
    verdict: 'unreachable',
    reply: 'mx.test did not accept the connection in time.',
    attempts: [{ at: clock.now() } as AttemptRecord['attempts'][number]],
  });
  return {
    ...{ db, accountId: sender.account.id, tries, claimOf, unreached, clock },
    later(ms: number) {
      passed += ms;
    },
  };
}

t.test(
  'mail past its time is tried as there is room, the rest of it soon after, and other mail does not wait',
  async (t) => {
    const { tries, claimOf, clock, later } = await scene(t);
    const old = await Promise.all(Array.from({ length: 9 }, () => claimOf('a.test')));
    const due = await claimOf('a.test', 0, { scheduledAt: new Date(Date.now() + 1.5 * hour) });
    later(2 * hour);
    t.ok(clock.now().getTime() > Date.now() + hour);
    const sorted = await tries.sort([...old, due], 600_000, () => 2);
    t.strictSame(sorted.now, old.slice(0, 2));
    t.strictSame(sorted.known, []);
    t.strictSame(
      sorted.later.map(({ ms, claims }) => [ms, claims]),
      [
        [30_000, old.slice(2, 4)],
        [45_000, old.slice(4, 6)],
        [60_000, old.slice(6, 8)],
        [75_000, old.slice(8)],
        [600_000, [due]],
      ],
    );
    const sooner = await tries.sort(old, 40_000, () => 0);
    t.strictSame(sooner.now, []);
    t.same(
      sooner.later.map(({ ms }) => ms),
      [30_000, 40_000, 40_000],
    );
  },
);

t.test('a failure to reach a destination decides for its other mail, for a while', async (t) => {
  const { tries, claimOf, unreached, later } = await scene(t);
  const early = await claimOf('a.test');
  const [tried, first, other] = [await claimOf('a.test'), await claimOf('a.test', 0), await claimOf('b.test')];
  const sort = () => tries.sort([tried, first, other], 600_000, () => 10);
  later(hour - 20_000);
  tries.heard('a.test', unreached(), null);
  later(40_000);
  t.strictSame((await sort()).known, [], 'a failure before their time was over does not count');
  tries.heard('a.test', unreached(), null);
  later(40_000);
  const { now, known } = await sort();
  t.strictSame(now, [other]);
  t.strictSame(
    known.map(({ claim }) => claim),
    [tried, first],
  );
  const words =
    /^given up after 60 minutes; the last answer was: Not tried by itself, as its time was over when mail to a\.test was tried at 20.*Z: mx\.test did not accept the connection in time\.$/;
  t.match(known[0]?.outcome, {
    settlements: [{ emailId: tried.emailId, status: 'failed', attempts: 2, lastResponse: words, suppress: null }],
    attempts: [{ number: 2, recipient: 'a@a.test', mxHost: null, outcome: 'deferred', classification: 'network' }],
  });
  t.match(
    known[1]?.outcome.settlements,
    [{ status: 'deferred', attempts: 1, nextAttemptAt: Date }],
    'mail that was held back for all of its time gets a second attempt',
  );
  later(10_000);
  t.strictSame((await sort()).now, [tried, first, other]);
  tries.heard('a.test', unreached(), null);
  tries.heard('a.test', { ...unreached(), verdict: 'fine', reply: '250 ok' }, null);
  t.strictSame((await tries.sort([early], 600_000, () => 10)).now, [early], 'the server is back');
});

t.test('a second attempt is really made, however soon after the first', async (t) => {
  const firstDelayMs = 10_000;
  const { tries, claimOf, unreached, later } = await scene(t, firstDelayMs);
  const claim = await claimOf('a.test', 0);
  later(2 * hour);
  tries.heard('a.test', unreached(), null);
  const { known } = await tries.sort([claim], 600_000, () => 10);
  t.match(known[0]?.outcome.settlements, [{ status: 'deferred', attempts: 1, nextAttemptAt: Date }]);
  later(firstDelayMs);
  const again = { ...claim, recipients: claim.recipients.map((one) => ({ ...one, attempts: 1 })) };
  t.strictSame((await tries.sort([again], 600_000, () => 10)).now, [again]);
});

t.test('an attempt from some of the addresses decides nothing for mail that may use all of them', async (t) => {
  const { tries, claimOf, unreached, clock, later } = await scene(t);
  const claim = await claimOf('a.test');
  later(2 * hour);
  tries.heard('a.test', unreached(), { closed: { opensAt: clock.now(), reason: 'its IPv4 address has sent enough' } });
  t.strictSame((await tries.sort([claim], 600_000, () => 10)).now, [claim]);
});

t.test('a recipient that was put on the suppression list meanwhile is no failure of the destination', async (t) => {
  const { db, accountId, tries, claimOf, unreached, later } = await scene(t);
  const claims = [await claimOf('a.test'), await claimOf('a.test')];
  later(2 * hour);
  tries.heard('a.test', unreached(), null);
  await suppressions.add(db, accountId, { address: 'a@a.test', reason: 'unsubscribe' });
  t.equal((await tries.sort(claims, 600_000, () => 10)).known.length, 2, 'from marketing mail only');
  await suppressions.add(db, accountId, { address: 'a@a.test', reason: 'manual' });
  const { now, known } = await tries.sort(claims, 600_000, () => 10);
  t.strictSame([now, known], [claims, []]);
});

t.test('if the due time cannot be read, no mail is given up', async (t) => {
  const { tries, claimOf, later } = await scene(t);
  const claim = { ...(await claimOf('a.test')), emailId: newId() };
  later(2 * hour);
  t.strictSame(await tries.sort([claim], 1_000, () => 10), {
    now: [],
    known: [],
    later: [{ ms: 1_000, claims: [claim] }],
  });
});
