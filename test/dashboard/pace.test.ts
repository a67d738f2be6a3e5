import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Pace } from '../../src/dashboard/data/pace.ts';

t.test('what takes the server long is asked more rarely, until it is quick again', async (t) => {
  const pace = new Pace(1_000);
  t.equal(pace.everyMs, 1_000);
  t.equal(await pace.ask(() => sleep(200, 'slow')), 'slow');
  t.ok(pace.everyMs > 1_900, `${pace.everyMs} ms`);
  await t.rejects(
    pace.ask(() => Promise.reject(new Error('no'))),
    { message: 'no' },
  );
  t.equal(pace.everyMs, 1_000, 'a refusal at once is no reason to wait');
});
