import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { BatchWriter } from '../src/batch-writer.ts';
import { isValueRefused } from '../src/db/client.ts';
import { silentLog } from '../src/log.ts';
import { openDatabase } from './support/db.ts';

/** JSON with half of a character, which PostgreSQL does not store as jsonb. */
const refused = JSON.stringify('\ud83d');

t.test('what the database refuses for what it holds holds up nothing else', async (t) => {
  const db = await openDatabase(t);
  await db.query({ text: 'CREATE TABLE notes (note jsonb)' });
  const rows = async () =>
    (await db.query<{ note: string }>({ text: 'SELECT note FROM notes ORDER BY note' })).map(({ note }) => note);
  const writes: number[] = [];
  const writer = new BatchWriter<string, string>(
    silentLog,
    'notes',
    async (notes) => {
      writes.push(notes.length);
      await db.query({ text: 'INSERT INTO notes SELECT * FROM unnest($1::jsonb[])', values: [notes] });
      return (note) => `wrote ${note}`;
    },
    isValueRefused,
  );
  const notes = ['"a"', '"b"', refused, '"c"', '"d"', '"e"'];
  const results = notes.map((note) => writer.add(note));
  const good = notes.filter((note) => note !== refused);
  t.strictSame(
    await Promise.all(results.filter((_, index) => notes[index] !== refused)),
    good.map((note) => `wrote ${note}`),
  );
  t.strictSame(await rows(), ['a', 'b', 'c', 'd', 'e']);
  t.equal(await writer.add('"f"'), 'wrote "f"', 'and what comes later goes on');
  const before = writes.length;
  for (const end = Date.now() + 60_000; writes.length === before && Date.now() < end; ) await sleep(20);
  t.ok(writes.length > before, 'it is tried again');
  writer.giveUpAfter(0);
  t.equal(await results[2], undefined, 'until there is no more time');
  t.strictSame(await rows(), ['a', 'b', 'c', 'd', 'e', 'f']);
});

t.test('patience is as long as was said, whatever the clock is set to meanwhile', async (t) => {
  let tries = 0;
  const write = async () => {
    tries += 1;
    if (tries < 3) throw new Error('away');
    return (note: string) => `wrote ${note}`;
  };
  const writer = new BatchWriter<string, string>(silentLog, 'notes', write, () => false);
  writer.giveUpAfter(60_000);
  const { now } = Date;
  t.teardown(() => {
    Date.now = now;
  });
  Date.now = () => now() + 3_600_000;
  t.equal(await writer.add('a'), 'wrote a', 'it is not given up at the first failure');
});

t.test('only a value that is refused is one', async (t) => {
  const db = await openDatabase(t);
  const errorOf = (text: string, values: unknown[] = []) => db.query({ text, values }).catch((error: unknown) => error);
  t.ok(isValueRefused(await errorOf('SELECT $1::jsonb', [refused])));
  t.ok(isValueRefused(await errorOf('SELECT $1::smallint', ['99999'])));
  t.notOk(isValueRefused(await errorOf('SELECT * FROM nothing')));
  t.notOk(isValueRefused(await errorOf('SELECT pg_terminate_backend(pg_backend_pid())')));
});
