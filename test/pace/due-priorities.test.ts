import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { DuePriorities } from '../../src/pace/due-priorities.ts';

t.test('what came is due at once and once, everything is due every so often', async (t) => {
  const first = new DuePriorities([5, 3], 200);
  t.strictSame(first.take(), [5, 3], 'all of them at the beginning');
  t.strictSame(first.take(), []);
  first.came(3);
  first.came(3);
  first.came(4);
  first.came(undefined);
  t.strictSame(first.take(), [3], 'only those that are looked for');
  t.strictSame(first.take(), []);
  first.came(3);
  await sleep(210);
  t.strictSame(first.take(), [5, 3]);
  t.strictSame(first.take(), [], 'what came before that is looked for with it');
});
