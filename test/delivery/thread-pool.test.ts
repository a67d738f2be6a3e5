import { stat } from 'node:fs/promises';
import t from 'tap';
import { letPoolGiveWay } from '../../src/delivery/thread-pool.ts';
import { silentLog } from '../../src/log.ts';
import { nicenessOf } from '../support/threads.ts';

t.test(
  'the thread pool gives way to the main thread, and no further however often it is told to',
  { skip: process.platform !== 'linux' },
  async (t) => {
    await stat('.');
    const before = nicenessOf(process.pid);
    t.equal(before.get('libuv-worker')?.length, 4);
    const [own = 0] = before.get('MainThread') ?? before.get('node') ?? [];
    t.strictSame([...new Set(before.get('libuv-worker'))], [own]);
    for (let round = 1; round <= 2; round += 1) {
      await letPoolGiveWay(silentLog);
      const after = nicenessOf(process.pid);
      t.strictSame(after.get('libuv-worker'), Array(4).fill(Math.min(own + 5, 19)));
      for (const [name, values] of after) if (name !== 'libuv-worker') t.strictSame(values, before.get(name), name);
    }
  },
);
