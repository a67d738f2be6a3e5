import t from 'tap';
import { type News, type Siblings, shareBuckets, shareWork } from '../../src/node/siblings.ts';
import { TokenBuckets } from '../../src/pace/rate-limit.ts';

/** This many processes that hear each other, like those of `workers.ts`, and everything they said. */
function family(count: number): { members: Siblings[]; said: News[] } {
  const said: News[] = [];
  const listeners = Array.from({ length: count }, (): ((news: News) => void)[] => []);
  const members = listeners.map((own) => ({
    tellName: () => undefined,
    tell(news: News) {
      said.push(news);
      for (const other of listeners) if (other !== own) for (const listener of other) listener(news);
    },
    onNews: (listener: (news: News) => void) => void own.push(listener),
  }));
  return { members, said };
}

const until = async (done: () => boolean) => {
  for (const end = Date.now() + 60_000; !done() && Date.now() < end; ) await new Promise((go) => setTimeout(go, 5));
};

t.test('a key has one budget in all processes: what they overspent is paid back', async (t) => {
  let now = 0;
  const { members, said } = family(3);
  const all = members.map((member) => {
    const buckets = new TokenBuckets({ perSecond: 10, burst: 20 }, () => now);
    shareBuckets(buckets, member);
    return buckets;
  });
  const takeAll = () =>
    all.map((buckets) => {
      let got = 0;
      while (buckets.take('key').waitSeconds === 0) got += 1;
      return got;
    });
  t.same(takeAll(), [20, 20, 20], 'before they have heard of each other, each gives out what it has');
  await until(() => said.length === 3);
  now += 3_900;
  t.same(takeAll(), [0, 0, 0], '40 too many take four seconds');
  t.equal(all[0]?.take('key').waitSeconds, 1);
  t.equal(all[0]?.take('another').left, 19, 'nobody else pays for it');
  now += 2_100;
  t.same(takeAll().slice(0, 1), [20], 'and then it is full again');
});

t.test('tokens taken in one process are missing in the others', async (t) => {
  const { members, said } = family(2);
  const [one, other] = members.map((member) => {
    const buckets = new TokenBuckets({ perSecond: 1, burst: 10 }, () => 0);
    shareBuckets(buckets, member);
    return buckets;
  });
  for (let index = 0; index < 7; index += 1) one?.take('key');
  await until(() => said.length > 0);
  t.same(said, [{ kind: 'spent', tokens: [['key', 7]] }], 'told once for many');
  t.equal(other?.take('key').left, 2);
});

t.test('work is announced to the others once for many jobs, and not passed back', async (t) => {
  const { members, said } = family(3);
  const woken: number[] = [];
  const counts = () => [0, 1, 2].map((index) => woken.filter((each) => each === index).length);
  const lines = members.map((member, index) => {
    const listeners: (() => void)[] = [() => void woken.push(index)];
    const line = {
      wake: () => {
        for (const listener of listeners) listener();
      },
      onWake: (listener: () => void) => void listeners.push(listener),
    };
    shareWork('mail', line, member);
    return line;
  });
  for (let index = 0; index < 50; index += 1) lines[0]?.wake();
  await until(() => said.length > 0);
  await new Promise((go) => setTimeout(go, 150));
  t.same(said, [{ kind: 'work', line: 'mail' }]);
  t.same(counts(), [50, 1, 1]);
  members[1]?.tell({ kind: 'work', line: 'webhooks' });
  t.same(counts(), [50, 1, 1], 'work of another line is not theirs');
  said.length = 0;
  for (const line of lines.slice(0, 2)) line.wake();
  await until(() => said.length === 2);
  t.same(said, Array(2).fill({ kind: 'work', line: 'mail' }), 'later work is announced too, also by one that was told');
});
