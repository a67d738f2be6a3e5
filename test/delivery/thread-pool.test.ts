import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import t from 'tap';

const program = `
  import { stat } from 'node:fs/promises';
  import { letPoolGiveWay } from '${new URL('../../src/delivery/message/thread-pool.ts', import.meta.url)}';
  import { silentLog } from '${new URL('../../src/log.ts', import.meta.url)}';
  import { nicenessOf } from '${new URL('../support/threads.ts', import.meta.url)}';

  // The pool starts with the first work that it is given.
  await stat('.');
  const seen = [[...nicenessOf(process.pid)]];
  for (let round = 1; round <= 2; round += 1) {
    await letPoolGiveWay(silentLog);
    seen.push([...nicenessOf(process.pid)]);
  }
  console.log(JSON.stringify(seen));
`;

// In a process of its own: in this one, a node that another test started may have lowered the pool already.
t.test(
  'the thread pool gives way to the main thread, and calling it again changes nothing',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [before = new Map(), ...after] = (JSON.parse(await text(child.stdout)) as [string, number[]][][]).map(
      (threads) => new Map(threads),
    );
    t.equal(before.get('libuv-worker')?.length, 4);
    const [own = 0] = before.get('MainThread') ?? before.get('node') ?? [];
    t.strictSame([...new Set(before.get('libuv-worker'))], [own]);
    t.equal(after.length, 2);
    for (const threads of after) {
      t.strictSame(threads.get('libuv-worker'), Array(4).fill(Math.min(own + 5, 19)));
      for (const [name, values] of threads) if (name !== 'libuv-worker') t.strictSame(values, before.get(name), name);
    }
  },
);
