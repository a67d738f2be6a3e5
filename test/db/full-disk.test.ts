import pg from 'pg';
import { pino } from 'pino';
import t from 'tap';
import { FullDisk } from '../../src/db/full-disk.ts';

t.test('the log says in plain words that the disk is full, once a minute', async (t) => {
  const lines: Record<string, unknown>[] = [];
  let now = 0;
  const disk = new FullDisk(pino({}, { write: (line: string) => lines.push(JSON.parse(line)) }), () => now);
  const fail = (code: string) => {
    const error = new pg.DatabaseError('could not extend file', 0, 'error');
    error.code = code;
    // Prisma wraps it.
    return t.rejects(disk.watch(Promise.reject(new Error('failed', { cause: error }))), { message: 'failed' });
  };
  t.equal(await disk.watch(Promise.resolve(7)), 7);
  await fail('53200');
  t.notOk(disk.isFull);
  t.same(lines, []);

  await fail('53100');
  t.ok(disk.isFull);
  now += 9_999;
  t.ok(disk.isFull);
  await fail('53100');
  now += 10_000;
  t.notOk(disk.isFull);
  t.match(lines, [
    {
      level: 50,
      error: 'could not extend file',
      msg: 'the disk of the database is full: mail is refused until there is space again',
    },
  ]);
  t.equal(lines.length, 1);
  now += 60_000;
  await fail('53100');
  t.equal(lines.length, 2);
});
