import { execFileSync } from 'node:child_process';
import t from 'tap';

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
  },
);
