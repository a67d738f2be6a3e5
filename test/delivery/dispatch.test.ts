import t from 'tap';
import type { Database } from '../../src/db/client.ts';
import type { AttemptTools } from '../../src/delivery/attempt.ts';
import { Dispatcher } from '../../src/delivery/dispatch.ts';
import type { Recorder } from '../../src/delivery/record.ts';
import type { SourceAddresses } from '../../src/delivery/source-addresses.ts';
import type { Standing } from '../../src/delivery/standing.ts';
import { silentLog } from '../../src/log.ts';
import type { Queue } from '../../src/queue.ts';

t.test(
  'a stop counts the time for what is under way from its beginning, also while the database is silent',
  async (t) => {
    const asked = Promise.withResolvers<void>();
    const silence = Promise.withResolvers<never>();
    const transaction = () => {
      asked.resolve();
      return silence.promise;
    };
    const patience: number[] = [];
    const nothing = async () => undefined;
    const lease = { nodeId: 'n', onHold: false, valid: () => true };
    const dispatcher = new Dispatcher(
      { transaction, query: async () => [] } as unknown as Database,
      { onWake: () => () => undefined } as unknown as Queue,
      {
        log: silentLog,
        clock: { now: () => new Date() },
        policy: { scheduleMs: [], forMs: 0 },
        lease,
      } as unknown as AttemptTools,
      { exchange: nothing } as unknown as Standing,
      { exchange: nothing, giveBack: nothing } as unknown as SourceAddresses,
      { giveUpAfter: (ms: number) => patience.push(ms) } as unknown as Recorder,
    );
    dispatcher.start();
    await asked.promise;
    const stopped = dispatcher.stop();
    t.same(patience, [20_000]);
    silence.reject(new Error('no answer'));
    await stopped;
    t.same(patience, [20_000]);
  },
);
