import { mock } from 'node:test';
import { pino } from 'pino';
import t from 'tap';
import { FullDisk } from '../../src/db/full-disk.ts';
import { newId } from '../../src/ids.ts';
import { openDatabase } from '../support/db.ts';

t.test('the log says in plain words that the disk is full, once a minute, and when that is over', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const lines: Record<string, unknown>[] = [];
  let now = 0;
  const pass = (ms: number) => {
    now += ms;
    mock.timers.tick(ms);
  };
  const disk = new FullDisk(pino({}, { write: (line: string) => lines.push(JSON.parse(line)) }), () => now);
  const fail = (code: string) => disk.note({ code, message: 'could not extend file' });
  fail('53200');
  t.notOk(disk.isFull);
  t.same(lines, []);

  fail('53100');
  t.ok(disk.isFull);
  pass(9_999);
  t.ok(disk.isFull);
  fail('53100');
  pass(10_000);
  t.notOk(disk.isFull);
  t.match(lines, [
    {
      level: 50,
      error: 'could not extend file',
      msg: 'the disk of the database is full: mail is refused until there is space again',
    },
    {
      level: 30,
      seconds: 10,
      msg: 'no write has failed because of a full disk for ten seconds: there is space again, or nothing was written',
    },
  ]);
  t.equal(lines.length, 2);
  fail('53100');
  t.equal(lines.length, 3, 'the next time is not part of the last one');
  for (let second = 0; second < 60; second += 1) {
    pass(1_000);
    fail('53100');
  }
  t.equal(lines.length, 4);
});

const ways: Record<string, (db: Awaited<ReturnType<typeof openDatabase>>) => Promise<unknown>> = {
  'a statement': (db) => db.query({ text: `INSERT INTO accounts (id, name, plan) VALUES ('${newId()}', 'a', 'free')` }),
  'one whose failure does not end its transaction': (db) =>
    db.transaction(async (tx) => {
      await tx.query({ text: 'SAVEPOINT here' });
      await tx
        .query({ text: `INSERT INTO accounts (id, name, plan) VALUES ('${newId()}', 'a', 'free')` })
        .catch(() => tx.query({ text: 'ROLLBACK TO here' }));
      throw new Error('for another reason');
    }),
  "one of Prisma's": (db) => db.prisma.account.create({ data: { id: newId(), name: 'a', plan: 'free' } }),
};
for (const [way, write] of Object.entries(ways)) {
  t.test(`a full disk is noticed by ${way}`, async (t) => {
    const db = await openDatabase(t);
    await db.query({
      text: `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
             CREATE TRIGGER full_disk BEFORE INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION full_disk()`,
    });
    t.notOk(db.isDiskFull());
    await t.rejects(write(db));
    t.ok(db.isDiskFull());
  });
}
