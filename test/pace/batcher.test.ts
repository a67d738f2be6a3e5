import t from 'tap';
import { Batcher } from '../../src/pace/batcher.ts';

/** A batcher whose runs end when they are told to. */
function start(limits: { most: number; heaviest?: number }) {
  const runs: { items: number[]; end: (error?: Error) => void }[] = [];
  const run = (items: number[]) =>
    new Promise<string[]>((resolve, reject) => {
      runs.push({ items, end: (error) => (error ? reject(error) : resolve(items.map((item) => `done ${item}`))) });
    });
  const batcher = new Batcher(run, { ...limits, weigh: (item) => item });
  const turn = () => new Promise((resume) => setImmediate(resume));
  /** Waits until this many runs have begun, and a little longer: there should be no others. */
  const begun = async (count: number) => {
    while (runs.length < count) await turn();
    for (let more = 0; more < 5; more += 1) await turn();
  };
  return { batcher, runs, begun };
}

t.test('items that come during a run go together in the next', async (t) => {
  const { batcher, runs, begun } = start({ most: 3, heaviest: 1_000 });
  const first = batcher.add(1);
  await begun(1);
  const rest = Promise.allSettled([2, 3, 4, 5].map((item) => batcher.add(item)));
  await begun(1);
  t.same(
    runs.map(({ items }) => items),
    [[1]],
    'one run at a time',
  );
  t.notOk(batcher.idle);
  runs[0]?.end();
  t.equal(await first, 'done 1');
  await begun(2);
  t.same(runs[1]?.items, [2, 3, 4], 'at most three');
  runs[1]?.end(new Error('no'));
  await begun(3);
  t.notOk(batcher.idle, 'nor when nothing waits and the last run is under way');
  runs[2]?.end();
  t.match(await rest, [
    { reason: { message: 'no' } },
    { reason: { message: 'no' } },
    { reason: { message: 'no' } },
    { value: 'done 5' },
  ]);
  t.ok(batcher.idle);
});

t.test('heavy items are grouped with few others', async (t) => {
  const { batcher, runs, begun } = start({ most: 10, heaviest: 100 });
  const all = [50, 50, 1, 300].map((item) => batcher.add(item));
  for (const round of [0, 1, 2]) {
    await begun(round + 1);
    runs[round]?.end();
  }
  await Promise.all(all);
  t.same(
    runs.map(({ items }) => items),
    [[50, 50], [1], [300]],
    'from the first on, as they came in one turn of the event loop',
  );
});
