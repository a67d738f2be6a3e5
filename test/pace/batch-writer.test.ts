import { mock } from 'node:test';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { hasEnded, isAway } from '../../src/db/errors.ts';
import { type Logger, silentLog } from '../../src/log.ts';
import { BatchWriter } from '../../src/pace/batch-writer.ts';
import { openDatabase } from '../support/db.ts';

/** JSON with half a character, which PostgreSQL does not store as jsonb. */
const refused = JSON.stringify('\ud83d');

/** A log that keeps what is said in it. */
function keepLog(): { log: Logger; said: string[] } {
  const said: string[] = [];
  const keep = ({ error, what, items }: Record<string, unknown>, sentence: string) =>
    void said.push(`${sentence}: ${error}, ${what}, ${items}`);
  return { log: { ...silentLog, warn: keep, error: keep } as unknown as Logger, said };
}

t.test('an item that the database refuses for its content does not hold up others', async (t) => {
  const db = await openDatabase(t);
  await db.query({ text: 'CREATE TABLE notes (note jsonb)' });
  const rows = async () =>
    (await db.query<{ note: string }>({ text: 'SELECT note FROM notes ORDER BY note' })).map(({ note }) => note);
  const writes: number[] = [];
  const { log, said } = keepLog();
  const writer = new BatchWriter<string, string>(log, {
    what: 'notes',
    write: async (notes) => {
      writes.push(notes.length);
      await db.query({ text: 'INSERT INTO notes SELECT * FROM unnest($1::jsonb[])', values: [notes] });
      return (note) => `wrote ${note}`;
    },
    isItsFault: (error) => !isAway(error),
  });
  const notes = ['"a"', '"b"', refused, '"c"', '"d"', '"e"'];
  const results = notes.map((note) => writer.add(note));
  const good = notes.filter((note) => note !== refused);
  t.strictSame(
    await Promise.all(results.filter((_, index) => notes[index] !== refused)),
    good.map((note) => `wrote ${note}`),
  );
  t.strictSame(await rows(), ['a', 'b', 'c', 'd', 'e']);
  t.strictSame(
    writes.filter((many) => many > 1),
    [6, 3, 2, 3],
    'it is found by halving',
  );
  const why = 'a batch could not be written; trying again: invalid input syntax for type json, notes';
  t.strictSame(said.slice(0, 3), [`${why}, 6`, `${why}, 3`, `${why}, 2`]);
  const alone = writer.add(refused);
  for (const before = writes.length; writes.length === before; ) await sleep(1);
  t.equal(await writer.add('"f"'), 'wrote "f"', 'and later items go on, even after one that fails as the only one');
  const before = writes.length;
  for (const end = Date.now() + 60_000; writes.length === before && Date.now() < end; ) await sleep(20);
  t.ok(writes.length > before, 'it is retried');
  writer.giveUpAfter(0);
  t.equal(await results[2], undefined, 'until the time is up');
  t.equal(await alone, undefined);
  t.strictSame(await rows(), ['a', 'b', 'c', 'd', 'e', 'f']);
});

t.test('patience lasts as long as configured, whatever the clock is set to meanwhile', async (t) => {
  let tries = 0;
  const write = async () => {
    tries += 1;
    if (tries < 3) throw new Error('away');
    return (note: string) => `wrote ${note}`;
  };
  const writer = new BatchWriter<string, string>(silentLog, { what: 'notes', write, isItsFault: () => false });
  writer.giveUpAfter(60_000);
  const { now } = Date;
  t.teardown(() => {
    Date.now = now;
  });
  Date.now = () => now() + 3_600_000;
  t.equal(await writer.add('a'), 'wrote a', 'it is not given up at the first failure');
});

t.test('what fails for good is waited for until the end begins, and no longer', async (t) => {
  let tries = 0;
  const write = async () => {
    tries += 1;
    if (tries !== 2) throw new Error('connect ECONNREFUSED /data/.s.PGSQL.5432');
    return (note: string) => `wrote ${note}`;
  };
  const writing = { what: 'notes', write, isItsFault: () => false };
  const { log, said } = keepLog();
  const writer = new BatchWriter<string, string>(log, { ...writing, isForGood: hasEnded });
  t.equal(await writer.add('a'), 'wrote a');
  writer.giveUpAfter(60_000);
  t.equal(await writer.add('b'), undefined);
  t.equal(tries, 3);
  const why = 'connect ECONNREFUSED /data/.s.PGSQL.5432, notes, 1';
  t.strictSame(said, [
    `a batch could not be written; trying again: ${why}`,
    `a batch could not be written; giving up: ${why}`,
  ]);
});

t.test(
  'items that take too long, or are too many, are split up, and a slow item alone holds up nothing else',
  async (t) => {
    const db = await openDatabase(t);
    await db.query({ text: 'CREATE TABLE notes (note text CHECK (note <> $$no$$), seconds float)' });
    const seconds: Record<string, number> = { slow: 0.4, endless: 1.5 };
    const writer = new BatchWriter<string, true>(silentLog, {
      what: 'notes',
      write: async (notes) => {
        if (notes.includes('long')) 'x'.repeat(2 ** 30);
        await db.transaction(async (tx) => {
          await tx.query({ text: 'SET LOCAL statement_timeout = 1000' });
          const values = [notes, notes.map((note) => seconds[note] ?? 0)];
          const text = 'INSERT INTO notes SELECT note, s FROM unnest($1::text[], $2::float[]) n (note, s), pg_sleep(s)';
          await tx.query({ text, values });
        });
        return () => true;
      },
      isItsFault: (error) => !isAway(error),
    });
    const alone = ['endless', 'no', 'long'];
    const failing = alone.map((note) => writer.add(note));
    const others = ['a', 'slow', 'slow', 'slow', 'b', 'c'];
    t.strictSame(
      await Promise.all(others.map((note) => writer.add(note))),
      others.map(() => true),
    );
    t.equal(await writer.add('d'), true, 'and later items go on');
    seconds.endless = 0;
    t.equal(await failing[0], true, 'an item that took too long for a while is not lost');
    await db.query({ text: 'ALTER TABLE notes DROP CONSTRAINT notes_note_check' });
    t.equal(await failing[1], true, 'and one that keeps failing does not hold up another');
    writer.giveUpAfter(0);
    t.equal(await failing[2], undefined);
    const rows = await db.query<{ note: string }>({ text: 'SELECT note FROM notes' });
    t.strictSame(rows.map(({ note }) => note).sort(), [...others, 'd', 'endless', 'no'].sort());
  },
);

t.test('items that failed alone are tried again, once each, even if the database is away then', async (t) => {
  const writes: string[] = [];
  const errors = ['refused', 'refused', 'refused', 'away'];
  const write = async (notes: string[]) => {
    writes.push(notes.join());
    const error = errors.shift();
    if (error) throw new Error(error);
    return (note: string) => `wrote ${note}`;
  };
  const isItsFault = (error: unknown) => (error as Error).message === 'refused';
  const writer = new BatchWriter<string, string>(silentLog, { what: 'notes', write, isItsFault });
  t.strictSame(await Promise.all(['a', 'b'].map((note) => writer.add(note))), ['wrote a', 'wrote b']);
  t.strictSame(writes.splice(0), ['a,b', 'a', 'b', 'a', 'b', 'a']);
  errors.push('refused');
  t.equal(await writer.add('c'), 'wrote c', 'and so are those that come later');
  t.strictSame(writes.splice(0), ['c', 'c']);
  errors.push(...Array(6).fill('refused'));
  const last = ['d', 'e', 'f'].map((note) => writer.add(note));
  while (writes.at(-1) !== 'f') await nextTurn();
  writer.giveUpAfter(0);
  t.strictSame(await Promise.all(last), [undefined, undefined, undefined]);
  t.strictSame(writes, ['d,e,f', 'd', 'e,f', 'e', 'f', 'd'], 'at the end they are not tried one by one');
});

t.test('while the database is down everything waits, and is tried now and then', async (t) => {
  const writes: number[] = [];
  const times: number[] = [];
  const write = async (notes: string[]) => {
    writes.push(notes.length);
    times.push(performance.now());
    if (writes.length < 4) throw new Error('Connection terminated unexpectedly');
    return () => true;
  };
  const writer = new BatchWriter<string, boolean>(silentLog, {
    what: 'notes',
    write,
    isItsFault: (error) => !isAway(error),
  });
  await Promise.all(Array.from({ length: 150 }, (_, index) => writer.add(`${index}`)));
  t.strictSame(writes, [150, 150, 150, 150]);
  // A timer may be early by a part of a millisecond.
  for (const [index, least] of [99, 199, 399].entries())
    t.ok((times[index + 1] ?? 0) - (times[index] ?? 0) >= least, `the pauses grow: ${least}`);
});

t.test('items that keep coming are gathered after each write, unless there are enough of them', async (t) => {
  const writes: number[] = [];
  const written: (() => void)[] = [];
  const write = (items: number[]) => {
    writes.push(items.length);
    return new Promise<() => boolean>((done) => written.push(() => done(() => true)));
  };
  const writer = new BatchWriter<number, boolean>(silentLog, { what: 'notes', write, isItsFault: () => false });
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const pause = async () => {
    for (let turn = 0; turn < 3; turn++) await nextTurn();
  };
  const added: Promise<boolean | undefined>[] = [];
  const add = async (count: number) => {
    for (let index = 0; index < count; index++) added.push(writer.add(index));
    await pause();
  };
  const endWrite = async () => {
    written.shift()?.();
    await pause();
  };

  await add(1);
  t.strictSame(writes, [1], 'the first is written at once');
  await add(10);
  await endWrite();
  mock.timers.tick(39);
  await add(5);
  t.strictSame(writes, [1], 'those that came meanwhile wait for others');
  mock.timers.tick(1);
  await pause();
  t.strictSame(writes, [1, 15]);

  await add(130);
  await endWrite();
  t.strictSame(writes, [1, 15, 130], 'enough are written without waiting for more');
  await add(1);
  await endWrite();
  await add(119);
  t.strictSame(writes, [1, 15, 130, 120], 'and so are those that become enough');
  await add(201);
  await endWrite();
  await add(1);
  await endWrite();
  t.strictSame(writes, [1, 15, 130, 120, 200, 2], 'what was left over by a full write does not wait');
  await endWrite();
  await add(1);
  t.equal(writes.at(-1), 1, 'one that comes when nothing waits is written at once again');
  await endWrite();
  t.ok((await Promise.all(added)).every(Boolean));
});

t.test('no more is written at once than the limit, except a single heavier item', async (t) => {
  const writes: number[][] = [];
  const write = async (weights: number[]) => {
    writes.push(weights);
    return () => true;
  };
  const bound = { most: 10, weigh: (weight: number) => weight, ownerOf: () => '' };
  const writer = new BatchWriter<number, boolean>(silentLog, { what: 'notes', write, isItsFault: () => false, bound });
  await Promise.all([4, 6, 1, 12, 3, 3, 3, 3].map((weight) => writer.add(weight)));
  t.strictSame(writes.splice(0), [[4, 6], [1], [12], [3, 3, 3], [3]]);
  await Promise.all(Array.from({ length: 201 }, () => writer.add(0.01)));
  t.strictSame(
    writes.map(({ length }) => length),
    [200, 1],
    'nor very many, however light they are',
  );
});

t.test("owners take turns: the waiting items of one do not come before another's new items", async (t) => {
  const writes: string[][] = [];
  const begun = Promise.withResolvers<void>();
  const going = Promise.withResolvers<void>();
  const write = async (notes: string[]) => {
    writes.push(notes);
    begun.resolve();
    if (writes.length === 1) await going.promise;
    return () => true;
  };
  const bound = { most: 3, weigh: () => 1, ownerOf: (note: string) => note[0] ?? '' };
  const writer = new BatchWriter<string, boolean>(silentLog, { what: 'notes', write, isItsFault: () => false, bound });
  const add = (notes: string[]) => notes.map((note) => writer.add(note));
  const many = add(['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8']);
  await begun.promise;
  const others = add(['b1', 'b2', 'c1']);
  going.resolve();
  await Promise.all([...many, ...others]);
  t.strictSame(writes, [
    ['a1', 'a2', 'a3'],
    ['a4', 'b1', 'c1'],
    ['a5', 'b2', 'a6'],
    ['a7', 'a8'],
  ]);
});

t.test('a database is down if it cannot be reached, not if it was slow or refused', async (t) => {
  const db = await openDatabase(t);
  const errorOf = (text: string) => db.query({ text }).catch((error: unknown) => error);
  t.ok(isAway(await errorOf('SELECT pg_terminate_backend(pg_backend_pid())')));
  t.ok(isAway(new Error('timeout exceeded when trying to connect')));
  t.notOk(isAway(await errorOf('SELECT pg_cancel_backend(pg_backend_pid())')));
  t.notOk(isAway(await errorOf('DO $$ BEGIN RAISE unique_violation; END $$')));
  t.notOk(isAway(await errorOf(`SELECT '${refused}'::jsonb`)));
  t.notOk(isAway(new Error('Query read timeout')));
  t.notOk(isAway(new RangeError('Invalid string length')));
});
