import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { DatabaseClock, shortlyAfterNow } from '../../src/clock.ts';
import { connect } from '../../src/db/client.ts';
import { dueFromNow, tellTime } from '../../src/db/clocks.ts';
import { whenSetBack } from '../../src/db/set-back.ts';
import { silentLog } from '../../src/log.ts';
import { createDatabase, openDatabase } from '../support/db.ts';

const hour = 3_600_000;
const truth = Date.now;

/** Sets the clock of this machine, as far as this process can see it. */
const setClock = (offMs: number) => {
  Date.now = () => truth() + offMs;
};
t.afterEach(() => setClock(0));

t.test('QUE-15: whether the clock is wrong or set meanwhile, the time of the database counts', async (t) => {
  const db = await openDatabase(t);
  setClock(-24 * hour);
  const clock = new DatabaseClock();
  const off = () => clock.now().getTime() - truth();
  t.ok(off() < -23 * hour, 'before the first answer it is the time of this machine');
  // An answer that took long says little, or nothing.
  const tell = async () => {
    for (let round = 0; round < 5; round += 1) {
      await tellTime(db, clock);
      if (Math.abs(off()) < 1_000) return;
    }
  };
  await tell();
  t.ok(Math.abs(off()) < 1_000, `a day behind: ${off()} ms off`);
  setClock(24 * hour);
  t.ok(Math.abs(off()) < 1_000, `set since: ${off()} ms off`);
  await tell();
  t.ok(Math.abs(off()) < 1_000, `and heard again: ${off()} ms off`);
});

t.test('it is never ahead of the database, and it advances', async (t) => {
  const db = await openDatabase(t);
  const clock = new DatabaseClock();
  for (let round = 0; round < 20; round += 1) {
    await tellTime(db, clock);
    const here = clock.now().getTime();
    const [row] = await db.query<{ time: Date }>({ text: 'SELECT clock_timestamp() AS time', values: [] });
    t.ok(row && here <= row.time.getTime());
  }
  const before = clock.now().getTime();
  await sleep(20);
  t.ok(clock.now().getTime() - before >= 19);
});

t.test('slow answers and failures are ignored', async (t) => {
  const clock = new DatabaseClock();
  const past = { time: new Date(truth() - hour) };
  await clock.hear(async () => {
    await sleep(1_050);
    return past;
  });
  await clock.hear(async () => null);
  await t.rejects(clock.hear(() => Promise.reject(new Error('away'))));
  t.ok(Math.abs(clock.now().getTime() - truth()) < 1_000);
  await clock.hear(async () => past);
  t.ok(clock.now().getTime() < truth() - hour / 2);
});

t.test('what is made due now is already due once it is stored', async (t) => {
  const db = await openDatabase(t);
  const late = async () =>
    db.query<{ ms: number }>({
      // Rounded like `timestamptz(3)`, if it is not cut before.
      text: `SELECT extract(epoch FROM now() - at)::float8 * 1000 AS ms FROM (SELECT (${dueFromNow})::timestamptz(3) AS at) stored`,
    });
  for (let time = 0; time < 40; time += 1) {
    const [stored] = await late();
    t.ok(stored && stored.ms >= 0 && stored.ms < 1, `${stored?.ms} ms ago`);
  }
});

t.test('what the clock of the database was ahead for is mended when it is set back, and not before', async (t) => {
  const url = await createDatabase();
  const admin = connect(url, silentLog, 1);
  t.teardown(() => admin.close());
  const setDatabaseClock = (hours: number) =>
    admin.query({
      text: `CREATE OR REPLACE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql VOLATILE AS
               $$ SELECT pg_catalog.now() + make_interval(secs => ${hours * 3_600}) $$`,
    });
  await setDatabaseClock(0);
  await admin.query({
    text: `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`,
  });
  const db = connect(url, silentLog, 2);
  t.teardown(() => db.close());
  const { signal } = new AbortController();
  const times: Date[] = [];
  let isBroken = false;
  const node = () =>
    whenSetBack(db, async (time) => {
      if (isBroken) throw new Error('broken');
      times.push(time);
    });
  let look = node();
  const timesBy = async (calls: number) => {
    times.length = 0;
    for (let call = 0; call < calls; call += 1) await look(signal);
    return times.length;
  };
  /** As if the clock had been set back before what was under way was recorded. */
  const record = () => admin.query({ text: `UPDATE time_seen SET set_back_at = set_back_at - interval '30 s'` });
  t.equal(await timesBy(3), 3, 'at first nobody knows');
  await record();
  t.equal(await timesBy(3), 1, 'once more when what was under way is recorded');
  await setDatabaseClock(24);
  t.equal(await timesBy(3), 0, 'ahead');
  await setDatabaseClock(0);
  isBroken = true;
  await t.rejects(look(signal), { message: 'broken' });
  await record();
  await t.rejects(look(signal), { message: 'broken' });
  isBroken = false;
  t.equal(await timesBy(5), 1, 'set back');
  t.ok(Math.abs(truth() - (times[0]?.getTime() ?? 0)) < 60_000);
  look = node();
  t.equal(await timesBy(3), 0, 'a start after which nothing was set back reads nothing');
  await setDatabaseClock(24);
  await look(signal);
  await setDatabaseClock(0);
  look = node();
  t.equal(await timesBy(1), 1, 'set back while no node ran');
  await record();
  t.equal(await timesBy(2), 1);
  await setDatabaseClock(-1 / 120);
  t.equal(await timesBy(2), 0, 'half a minute is what servers may differ by');
});

t.test('only one node at a time does what is to be done after the clock was set back', async (t) => {
  const db = await openDatabase(t);
  const { signal } = new AbortController();
  let running = 0;
  let most = 0;
  const looks = Array.from({ length: 4 }, () =>
    whenSetBack(db, async () => {
      running += 1;
      most = Math.max(most, running);
      await sleep(200);
      running -= 1;
    }),
  );
  await Promise.all(looks.map((look) => look(signal)));
  t.equal(most, 1);
});

t.test('what was stored by the time of the database until now is before what comes shortly after now', async (t) => {
  const clock = new DatabaseClock();
  await clock.hear(async () => {
    const time = new Date();
    await sleep(300);
    return { time };
  });
  const stored = new Date();
  t.ok(clock.now() < stored, 'the clock is behind by the time of that answer');
  t.ok(stored < shortlyAfterNow(clock));
});
