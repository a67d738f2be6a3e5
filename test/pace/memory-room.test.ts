import { execFileSync } from 'node:child_process';
import t from 'tap';
import { MemoryRoom, roomIn } from '../../src/pace/memory-room.ts';

const program = `
  import { MemoryRoom } from '${new URL('../../src/pace/memory-room.ts', import.meta.url).href}';
  const room = new MemoryRoom();
  let taken = 0;
  for (; room.isEnoughFor(null); taken += 1) room.take(null, 1024 * 1024);
  console.log(taken - 1);`;

/** The megabytes that there is room for in a process with such a heap. */
const roomWith = (heap: number) => {
  const args = ['--no-warnings', '--max-semi-space-size=32', `--max-old-space-size=${heap}`];
  return Number(
    execFileSync(process.execPath, [...args, '--input-type=module', '-e', program], { env: {} }).toString(),
  );
};

t.test(
  'a process with a small heap takes less that is being sent at once, but the largest body of an account',
  async (t) => {
    t.equal(roomWith(100), 128);
    t.equal(roomWith(192), 144);
    t.equal(roomWith(1_000), 256);
    const roomOf = (memory: number) => roomIn(memory * 1024 ** 2, 4_096 * 1024 ** 2) / 1024 ** 2;
    t.strictSame(
      [512, 1_024, 1_536, 2_048, 24_576].map(roomOf),
      [128, 128, 192, 256, 256],
      'whatever heap it is given',
    );
  },
);

t.test('an account may have no more than it leaves to the others', async (t) => {
  const room = new MemoryRoom();
  const fill = (accountId: string | null) => {
    let taken = 0;
    for (; room.isEnoughFor(accountId); taken += 1) room.take(accountId, 1024 * 1024);
    return taken;
  };
  const half = fill('one');
  t.ok(half > 64);
  t.ok(room.isEnoughFor('another') && room.isEnoughFor(null));
  const quarter = fill('another');
  t.ok(Math.abs(quarter - half / 2) <= 1, `${quarter} of the ${half} that are left`);
  const rest = fill(null);
  t.ok(Math.abs(rest - quarter) <= 2, `${rest}: all of it where nobody knows yet whose it is`);
  room.take('one', -half * 1024 * 1024);
  t.equal(room.isEnoughFor('one'), true, 'what was given back is free again');
  t.ok(Math.abs(fill('one') - half / 2) <= 1);
});
