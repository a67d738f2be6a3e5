import { mock } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { prioritiesOfFirst } from '../../src/core/emails/mail-lines.ts';
import type { Claim } from '../../src/core/recipients/recipients.ts';
import type { Database, Sql, Statement } from '../../src/db/client.ts';
import type { ClaimsInHand } from '../../src/delivery/claims/claims-in-hand.ts';
import { Intake } from '../../src/delivery/claims/intake.ts';
import type { Lease } from '../../src/delivery/claims/lease.ts';
import { newId } from '../../src/ids.ts';
import { type Logger, silentLog } from '../../src/log.ts';
import type { DeliverJob, Placed, Queue } from '../../src/queue.ts';

/** An intake whose next batch holds as many claims as `accept` says, and which has as many in hand as `held` says. */
function startIntake({ supplied = [] as string[], log = silentLog } = {}) {
  const taken: number[] = [];
  /** The priority that each batch was limited to, if any. */
  const priorities: (number | undefined)[] = [];
  let accepted = 0;
  let wake = (_priority?: number) => {};
  let isAnswered = true;
  const asked: Statement[] = [];
  const freed: object[] = [];
  const inHand = { size: 0, all: [{ jobId: 'job in hand' }], add: () => undefined };
  const db = {
    query: async (statement: Statement) => {
      asked.push(statement);
      return freed;
    },
    transaction: async (work: (tx: Sql) => Promise<unknown>) => {
      if (!isAnswered) throw new Error('the connection was lost');
      await work({} as Sql);
      const claims = Array.from({ length: accepted }, () => ({}) as Claim);
      accepted = 0;
      taken.push(claims.length);
      return { taken: claims.length, claims };
    },
  };
  const queue = {
    onWake: (act: (priority?: number) => void) => {
      wake = act;
    },
    take: async (_tx: Sql, _limit: number, _without: string[], priority?: number) => {
      priorities.push(priority);
      return [];
    },
  };
  const lease = { nodeId: 'n', onHold: false, isValid: true, valid: () => lease.isValid };
  const slots = { free: true };
  const intake = new Intake(
    db as unknown as Database,
    queue as unknown as Queue,
    { lease: lease as unknown as Lease, log },
    {
      ...{ inHand: inHand as unknown as ClaimsInHand, mostHeld: 10_000 },
      ...{ canBegin: () => slots.free, supplied: () => supplied, suppliedWith: () => [], place: async () => undefined },
    },
  );
  intake.start();
  const settle = async () => {
    for (let turn = 0; turn < 5; turn++) await nextTurn();
  };
  const accept = async (count: number, held: number, priority?: number) => {
    accepted += count;
    inHand.size = held;
    wake(priority);
    await settle();
  };
  const lose = async (isLost: boolean) => {
    isAnswered = !isLost;
    wake();
    await settle();
  };
  const drain = async (held: number) => {
    inHand.size = held;
    intake.takeIfDrained();
    await settle();
  };
  return { intake, taken, priorities, asked, freed, accept, settle, lose, drain, lease, slots };
}

t.test('what was claimed without an answer is freed, and nothing that is in hand', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  let now = 10_000;
  mock.method(performance, 'now', () => now);
  t.teardown(() => mock.restoreAll());
  t.teardown(() => mock.timers.reset());
  const said: unknown[] = [];
  const say = (...all: unknown[]) => void said.push(all);
  const { intake, asked, freed, settle, lose } = startIntake({ log: { warn: say, info: say } as unknown as Logger });
  await lose(false);
  t.strictSame(asked, [], 'nothing is in doubt');
  await lose(true);
  t.match(said.splice(0), [[{ error: 'the connection was lost' }, 'no jobs could be taken; trying again']]);
  await lose(false);
  mock.timers.tick(60_000);
  await settle();
  t.match(asked, [{ text: /^UPDATE recipients SET job_id = NULL/, values: ['n', ['job in hand']] }]);
  t.equal(asked.length, 1);
  t.strictSame(said, [], 'there was none');
  freed.push({}, {});
  now += 5_000;
  await lose(false);
  t.strictSame(said, [
    [{ recipients: 2 }, 'a claim was committed without an answer; it is free again'],
    [{ seconds: 0 }, 'jobs can be taken again'],
  ]);
  await intake.stop();
});

t.test('what is accepted is taken at once, and under load gathered for a moment', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const { intake, taken, accept, settle } = startIntake();
  await accept(1, 0);
  await accept(7, 1);
  await accept(30, 8);
  t.strictSame(taken, [1, 7, 30], 'after batches of few it does not wait');
  await accept(5, 30);
  mock.timers.tick(14);
  await accept(6, 30);
  t.strictSame(taken, [1, 7, 30], 'after one of many it does');
  mock.timers.tick(1);
  await settle();
  t.strictSame(taken, [1, 7, 30, 11]);
  await accept(1, 7);
  t.strictSame(taken, [1, 7, 30, 11, 1], 'once most of those are done, no longer');
  await accept(20, 20);
  await accept(2, 20);
  await intake.stop();
  mock.timers.tick(15);
  await settle();
  t.strictSame(taken, [1, 7, 30, 11, 1, 20], 'a stop ends the wait: what was not taken stays in the queue');
});

t.test('behind a line that is long enough, mail of accounts with little under way is taken at once', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  let now = 10_000;
  mock.method(performance, 'now', () => now);
  t.teardown(() => mock.restoreAll());
  t.teardown(() => mock.timers.reset());
  const [transactional, marketing] = prioritiesOfFirst;
  const { intake, priorities, accept } = startIntake({ supplied: ['slow.test'] });
  const lookedFor = async (priority?: number) => {
    priorities.length = 0;
    await accept(0, 0, priority);
    return [...priorities];
  };
  t.strictSame(await lookedFor(), [undefined], 'nothing was supplied yet');
  t.strictSame(await lookedFor(), [transactional, marketing, undefined], 'each second both are looked for');
  t.strictSame(await lookedFor(), [undefined], 'which costs too much for each batch');
  t.strictSame(await lookedFor(transactional), [transactional, undefined]);
  t.strictSame(await lookedFor(marketing), [marketing, undefined]);
  t.strictSame(await lookedFor(5), [undefined], 'mail of an account with much under way waits for the line');
  now += 1_000;
  t.strictSame(await lookedFor(), [transactional, marketing, undefined]);
  await intake.stop();
});

t.test('nothing is taken without room, and more once half of it is free', async (t) => {
  const { intake, taken, accept, drain } = startIntake();
  await accept(3, 10_000);
  await drain(5_000);
  t.strictSame(taken, []);
  await drain(4_999);
  t.strictSame(taken, [3]);
  await drain(0);
  t.strictSame(taken, [3], 'without a reason nothing is looked for');
  await intake.stop();
});

t.test('nothing is taken during a hold, without a lease, or while no attempt could begin', async (t) => {
  const { intake, taken, accept, drain, lease, slots } = startIntake();
  lease.onHold = true;
  await accept(1, 0);
  lease.onHold = false;
  lease.isValid = false;
  await accept(1, 0);
  lease.isValid = true;
  slots.free = false;
  await accept(1, 0);
  t.strictSame(taken, []);
  slots.free = true;
  await drain(0);
  t.strictSame(taken, [3]);
  await intake.stop();
});

/** An intake over a queue of jobs, and everything it asked of that queue. */
function startTaking({ mostHeld = 10_000 } = {}) {
  const waiting: Placed<DeliverJob>[] = [];
  const asked: { limit: number; without: string[]; priority: number | undefined }[] = [];
  const held: Claim[] = [];
  const canceled = new Set<string>();
  let supplied: string[] = [];
  let answered: Promise<void> = Promise.resolve();
  const query = async ({ values: [, emailIds, jobIds] }: { values: [string, string[], string[]] }) =>
    emailIds
      .map((emailId, at) => ({ jobId: jobIds[at] ?? '', emailId, destination: 'a.test', position: 0, attempts: 0 }))
      .filter(({ jobId }) => !canceled.has(jobId));
  const db = { transaction: (work: (tx: object) => unknown) => answered.then(() => work({ query })) };
  const queue = {
    onWake: () => undefined,
    take: async (_tx: object, limit: number, without: string[], priority?: number) => {
      asked.push({ limit, without, priority });
      return waiting.splice(0, limit);
    },
  };
  const inHand = {
    ...{ all: [], add: (claims: Claim[]) => held.push(...claims) },
    get size() {
      return held.length;
    },
  };
  const lease = { nodeId: 'n', onHold: false, valid: () => true } as unknown as Lease;
  const intake = new Intake(
    db as unknown as Database,
    queue as unknown as Queue,
    { lease, log: silentLog },
    {
      ...{ inHand: inHand as unknown as ClaimsInHand, mostHeld, canBegin: () => true },
      ...{ supplied: () => supplied, suppliedWith: (priority) => [`enough of ${priority}`], place: async () => {} },
    },
  );
  return {
    intake,
    held,
    /** What is asked when it takes while this many jobs wait. */
    async take(jobs: number, { emails = 1, areCanceled = false } = {}) {
      for (let n = 0; n < jobs; n += 1) {
        const id = newId();
        const others = Array.from({ length: emails - 1 }, () => newId());
        waiting.push({ id, emailIds: [newId(), ...others], destination: 'a.test', priority: 0 });
        if (areCanceled) canceled.add(id);
      }
      intake.take();
      for (let turn = 0; turn < 50; turn += 1) await nextTurn();
      return asked.splice(0);
    },
    supply: (...destinations: string[]) => (supplied = destinations),
    answerAfter: (until: Promise<void>) => (answered = until),
  };
}

t.test(
  'as many jobs are taken as make a batch of claims, going by the last one, and as there is room for',
  async (t) => {
    const limits = (asked: { limit: number }[]) => asked.map(({ limit }) => limit);
    const { intake, take, held } = startTaking({ mostHeld: 350 });
    t.strictSame(limits(await take(300)), [20, 200, 130], 'a job may have ten emails; these have one');
    t.equal(held.length, 300);
    t.strictSame(limits(await take(0)), [50]);
    t.strictSame(limits(await take(100)), [50], 'no more than this node may hold');
    t.equal(held.length, 350);
    const many = startTaking({ mostHeld: 350 });
    t.strictSame(limits(await many.take(30, { emails: 10 })), [20, 15], 'fewer of those with ten');
    t.strictSame(limits(await many.take(1, { areCanceled: true })), [5]);
    t.strictSame(limits(await many.take(0)), [50], 'even if a job became no claim at all');
    await many.intake.stop();
    await intake.stop();
  },
);

t.test('jobs stay in the queue for destinations that have enough here, and enough of what goes first', async (t) => {
  const { intake, take, supply } = startTaking();
  const first = prioritiesOfFirst.map((priority) => ({ without: [`enough of ${priority}`], priority }));
  t.match(await take(0), [{ without: [], priority: undefined }], 'nothing waits here');
  supply('slow.test');
  const all = { without: ['slow.test'], priority: undefined };
  t.match(await take(0), [all]);
  t.match(await take(0), [...first, all]);
  await intake.stop();
});

t.test('what goes first leaves less room for the rest of a batch', async (t) => {
  let now = 10_000;
  mock.method(performance, 'now', () => now);
  t.teardown(() => mock.restoreAll());
  const { intake, take, held, supply } = startTaking({ mostHeld: 350 });
  const limits = (asked: { limit: number }[]) => asked.map(({ limit }) => limit);
  await take(300);
  supply('slow.test');
  t.strictSame(limits(await take(0)), [50]);
  t.strictSame(limits(await take(20)), [50, 30, 30], 'of each priority, and then of any');
  now += 1_000;
  t.strictSame(limits(await take(60)), [30], 'nothing more once it is full');
  t.equal(held.length, 350);
  now += 1_000;
  held.length = 100;
  intake.takeIfDrained();
  for (let turn = 0; turn < 50; turn += 1) await nextTurn();
  t.equal(held.length, 130, 'what is left is taken when half of it is free');
  await intake.stop();
});

t.test('of what goes first all is taken, also if it is more than one batch', async (t) => {
  const { intake, take, held, supply } = startTaking();
  const [transactional, marketing] = prioritiesOfFirst;
  supply('slow.test');
  await take(0);
  const asked = await take(50);
  t.strictSame(
    asked.map(({ priority }) => priority),
    [transactional, transactional, transactional, marketing, undefined],
  );
  t.equal(held.length, 50);
  await intake.stop();
});

t.test('a stop waits for what is just being claimed', async (t) => {
  const { intake, take, held, answerAfter } = startTaking();
  const { promise, resolve } = Promise.withResolvers<void>();
  answerAfter(promise);
  await take(3);
  let isStopped = false;
  const stopped = intake.stop().then(() => (isStopped = true));
  await nextTurn();
  t.notOk(isStopped);
  resolve();
  await stopped;
  t.equal(held.length, 3, 'so that it can be released');
});
