import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { BatchLoop } from '../../src/pace/batch-loop.ts';

/** A loop whose batches end when they are told to, with whether there may be more. */
function start() {
  const batches: { end: (more: boolean) => void; fail: (error: Error) => void }[] = [];
  const errors: string[] = [];
  let prepared = 0;
  let running = 0;
  let together = 0;
  const loop = new BatchLoop({
    async prepare() {
      prepared += 1;
    },
    async takeBatch() {
      running += 1;
      together = Math.max(together, running);
      const { promise, resolve, reject } = Promise.withResolvers<boolean>();
      batches.push({ end: resolve, fail: reject });
      return promise.finally(() => {
        running -= 1;
      });
    },
    onError: ({ message }) => errors.push(message),
  });
  return { loop, batches, errors, prepared: () => prepared, together: () => together };
}

t.test('it takes batches for as long as there may be more, and looks once more if woken meanwhile', async (t) => {
  const { loop, batches, prepared, together } = start();
  loop.wake();
  await nextTurn();
  batches[0]?.end(true);
  await nextTurn();
  t.equal(batches.length, 2);
  for (let times = 3; times > 0; times--) loop.wake();
  batches[1]?.end(false);
  await nextTurn();
  t.equal(batches.length, 3, 'once, however often it was woken');
  batches[2]?.end(false);
  await nextTurn();
  t.equal(batches.length, 3);
  t.equal(prepared(), 1, 'all of that was one run');
  loop.wake();
  await nextTurn();
  t.strictSame([batches.length, prepared(), together()], [4, 2, 1]);
});

t.test('a wake is heard at whichever moment of the end of a run it comes', async (t) => {
  for (let steps = 0; steps < 12; steps++) {
    const { loop, batches } = start();
    loop.wake();
    await nextTurn();
    batches[0]?.end(false);
    for (let step = 0; step < steps; step++) await null;
    loop.wake();
    await nextTurn();
    t.equal(batches.length, 2, `${steps} steps after the batch`);
  }
});

t.test('a failure ends the run, and the next wake begins another', async (t) => {
  const { loop, batches, errors, prepared } = start();
  loop.wake();
  await nextTurn();
  batches[0]?.fail(new Error('away'));
  await nextTurn();
  t.strictSame([errors, batches.length], [['away'], 1]);
  loop.wake();
  await nextTurn();
  t.strictSame([batches.length, prepared()], [2, 2]);
});

t.test('no batch is taken before the preparation is over, and none if that fails', async (t) => {
  const seen: string[] = [];
  let failing = true;
  const loop = new BatchLoop({
    async prepare() {
      await nextTurn();
      if (failing) throw new Error('away');
      seen.push('prepared');
    },
    async takeBatch() {
      seen.push('batch');
      return false;
    },
    onError: ({ message }) => seen.push(message),
  });
  for (let run = 0; run < 2; run++) {
    loop.wake();
    for (let turns = 0; turns < 3; turns++) await nextTurn();
    failing = false;
  }
  t.strictSame(seen, ['away', 'prepared', 'batch']);
});

t.test('a stop waits for the batch under way, and none begins afterwards', async (t) => {
  const { loop, batches, prepared } = start();
  loop.wake();
  await nextTurn();
  let stopped = false;
  const stopping = loop.stop().then(() => {
    stopped = true;
  });
  await nextTurn();
  t.notOk(stopped);
  batches[0]?.end(true);
  await stopping;
  loop.wake();
  await nextTurn();
  t.strictSame([batches.length, prepared()], [1, 1]);
});
