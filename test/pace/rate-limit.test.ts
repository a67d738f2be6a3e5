import t from 'tap';
import { TokenBuckets } from '../../src/pace/rate-limit.ts';

t.test('a refused call costs nothing, and after the wait that it is told there is a token', async (t) => {
  let now = 0;
  const buckets = new TokenBuckets({ perSecond: 0.4, burst: 2 }, () => now);
  const taken: string[] = [];
  buckets.onTake((id) => taken.push(id));
  t.strictSame(buckets.take('a'), { left: 1, waitSeconds: 0 });
  t.strictSame(buckets.take('a'), { left: 0, waitSeconds: 0 });
  for (const [ms, waitSeconds] of [
    [0, 3],
    [1_000, 2],
    [2_000, 1],
    [2_499, 1],
    [2_500, 0],
    [2_500, 3],
  ] as const) {
    now = ms;
    t.strictSame(buckets.take('a'), { left: 0, waitSeconds }, `after ${ms} ms`);
  }
  t.strictSame(taken, ['a', 'a', 'a'], 'others are told of those that were given out');

  t.equal(buckets.take('b').left, 1, 'each id has its own');
  buckets.charge('b', 3);
  t.strictSame(buckets.take('b'), { left: 0, waitSeconds: 8 }, 'what was given out elsewhere is owed');
  now += 3_600_000;
  t.equal(buckets.take('b').left, 1, 'no more than the burst, however long it was left alone');
  t.strictSame(taken, ['a', 'a', 'a', 'b', 'b']);
});

t.test('DOS: with very many ids, a new one does not make it search all buckets', async (t) => {
  let looks = 0;
  const buckets = new TokenBuckets({ perSecond: 1, burst: 5 }, () => {
    looks += 1;
    return 0;
  });
  for (let id = 0; id < 50_000; id += 1) buckets.take(`${id}`);
  t.ok(looks < 500_000, `${looks} looks`);
});

t.test('full buckets take no memory once there are very many', async (t) => {
  let now = 0;
  let looks = 0;
  const buckets = new TokenBuckets({ perSecond: 1, burst: 1 }, () => {
    looks += 1;
    return now;
  });
  const add = (from: number, to: number) => {
    for (let id = from; id < to; id += 1) buckets.take(`${id}`);
  };
  const looksOf = (id: string) => {
    looks = 0;
    buckets.take(id);
    return looks;
  };
  add(0, 10_000);
  now = 1_000;
  t.ok(looksOf('10000') > 10_000, 'it looks at all that it has');
  t.ok(looksOf('10001') < 10);
  add(10_002, 20_000);
  now = 2_000;
  const again = looksOf('20000');
  t.ok(again > 10_000 && again < 11_000, `only at those from after the first look: ${again}`);
});

t.test('full buckets are forgotten, others are kept', async (t) => {
  let now = 0;
  const buckets = new TokenBuckets({ perSecond: 0.01, burst: 2 }, () => now);
  buckets.take('early');
  now = 90_000;
  for (let id = 0; id < 25_000; id += 1) buckets.take(`${id}`);
  now = 150_000;
  for (let id = 25_000; id < 45_000; id += 1) buckets.take(`${id}`);
  t.equal(buckets.take('0').left.toFixed(1), '0.6', 'a minute gave it six tenths of a token');
  t.equal(buckets.take('early').left, 1, 'it is full after more than 100 s');
  t.equal(buckets.take('44999').left, 0);
  t.equal(buckets.take('44999').waitSeconds, 100);
});
