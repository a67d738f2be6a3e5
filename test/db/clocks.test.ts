import t from 'tap';
import { pausedUntil } from '../../src/core/destinations.ts';
import { onDatabaseClock } from '../../src/db/clocks.ts';
import { openDatabase } from '../support/db.ts';

const minute = 60_000;
const day = 24 * 60 * minute;

t.test('QUE-15: what a node names by a wrong clock comes when it would by the right one', async (t) => {
  const db = await openDatabase(t);
  const named = async (moment: Date | null, now: Date) => {
    const [row] = await db.query<{ at: Date | null }>({
      text: `SELECT ${onDatabaseClock('$1::timestamptz', '$2')} AS at`,
      values: [moment, now],
    });
    return row?.at ?? null;
  };
  for (const off of [day, -day, 15_000]) {
    const now = new Date(Date.now() + off);
    const at = await named(new Date(now.getTime() + minute), now);
    const wait = (at?.getTime() ?? 0) - Date.now();
    t.ok(Math.abs(wait - minute) < 5_000, `a clock that is ${off} ms off: ${wait} ms`);
  }
  const now = new Date();
  const soon = new Date(now.getTime() + minute);
  t.same(await named(soon, now), soon, 'with a right clock it is that very moment');
  t.same(await named(pausedUntil, new Date(now.getTime() + day)), pausedUntil, 'never is never');
  t.equal(await named(null, new Date(now.getTime() + day)), null);
});
