import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type Logger, silentLog } from '../../src/log.ts';
import { Rounds } from '../../src/pace/rounds.ts';

const hourMs = 3_600_000;

t.test('the first rounds start one after the other', async (t) => {
  const rounds = new Rounds(silentLog);
  let running = 0;
  const together: number[] = [];
  const begun: string[] = [];
  for (const name of ['one', 'two', 'three', 'four']) {
    rounds.every(hourMs, name, async () => {
      begun.push(name);
      running += 1;
      together.push(running);
      await sleep(5);
      running -= 1;
      if (name === 'two') throw new Error('it fails');
    });
  }
  while (begun.length < 4) await sleep(1);
  await rounds.stop();
  t.same(begun, ['one', 'two', 'three', 'four']);
  t.same(together, [1, 1, 1, 1]);
});

t.test('a long round delays the next only briefly, and the stop waits for it', async (t) => {
  const rounds = new Rounds(silentLog);
  let ended = false;
  rounds.every(hourMs, 'long', async (stop) => {
    await new Promise<void>((resolve) => stop.addEventListener('abort', () => resolve()));
    await sleep(20);
    ended = true;
  });
  await new Promise<void>((resolve) => rounds.every(hourMs, 'next', async () => resolve()));
  t.notOk(ended, 'the next had its turn while the first went on');
  await rounds.stop();
  t.ok(ended);
});

t.test('nothing starts after the stop', async (t) => {
  const rounds = new Rounds(silentLog);
  const begun: string[] = [];
  let ended = false;
  rounds.every(hourMs, 'under way', async () => {
    begun.push('under way');
    await sleep(20);
    ended = true;
  });
  rounds.every(hourMs, 'in line', async () => void begun.push('in line'));
  while (begun.length === 0) await sleep(1);
  await rounds.stop();
  t.ok(ended, 'what is under way ends before the database is closed');
  await sleep(30);
  t.same(begun, ['under way']);
});

t.test('a round that is due before its first turn still starts, and never runs twice at a time', async (t) => {
  const rounds = new Rounds(silentLog);
  let running = 0;
  let most = 0;
  let times = 0;
  rounds.every(hourMs, 'slow', () => sleep(60));
  rounds.every(5, 'often', async () => {
    running += 1;
    times += 1;
    most = Math.max(most, running);
    await sleep(12);
    running -= 1;
  });
  while (times < 4) await sleep(1);
  await rounds.stop();
  t.equal(most, 1);
});

t.test(
  'a failure that goes on is logged once a minute, and at once when it is another one or comes back',
  async (t) => {
    const said: string[] = [];
    const log = { warn: ({ error }: { error: string }) => said.push(error) } as unknown as Logger;
    let now = 0;
    const rounds = new Rounds(log, () => now);
    let failure: string | null = 'down';
    let times = 0;
    rounds.every(1, 'task', async () => {
      times += 1;
      if (failure !== null) throw new Error(failure);
    });
    const threeMore = async () => {
      for (const until = times + 3; times < until; ) await sleep(1);
      return said.splice(0);
    };
    t.same(await threeMore(), ['down']);
    now = 59_999;
    t.same(await threeMore(), []);
    now = 60_000;
    t.same(await threeMore(), ['down']);
    failure = 'full';
    t.same(await threeMore(), ['full']);
    failure = 'down';
    t.same(await threeMore(), [], 'nor if another one came between');
    failure = null;
    now += 5_000;
    t.same(await threeMore(), []);
    failure = 'full';
    t.same(await threeMore(), ['full']);
    await rounds.stop();
  },
);
