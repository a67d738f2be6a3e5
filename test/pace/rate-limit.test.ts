import t from 'tap';
import { TokenBuckets } from '../../src/pace/rate-limit.ts';

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
