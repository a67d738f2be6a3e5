import pg from 'pg';
import t from 'tap';
import { embeddedFailureOf, embeddedStartFailureOf, startErrorOf } from '../../src/db/failure.ts';
import { StartError, TakenPorts } from '../../src/process/start-error.ts';

/** An error of PostgreSQL, wrapped as Prisma does it. */
const refusal = (code: string, message = 'it failed') =>
  new Error('the query failed', {
    cause: Object.assign(new pg.DatabaseError(message, message.length, 'error'), { code }),
  });
const lost = Object.assign(new Error('connect ECONNREFUSED\n127.0.0.1:1'), { code: 'ECONNREFUSED' });
const silent = Object.assign(new Error(''), { code: 'ECONNRESET' });
const defect = new TypeError('not a function');

t.test('what an operator can do about a refusal of the database is said, and no other error is taken for one', (t) => {
  const remedies = {
    28000: 'set a user in DATABASE_URL that may log in, and check pg_hba.conf of the server',
    '28P01': 'set the right user and password in DATABASE_URL',
    '3D000': 'create it, or name another in DATABASE_URL',
    53100: 'make room on the disk of the database',
    53300: "raise the limit, or stop the database's other clients",
  };
  for (const [code, remedy] of Object.entries(remedies))
    for (const unreached of [true, false])
      t.equal(startErrorOf(refusal(code), unreached)?.message, `the database refuses (it failed): ${remedy}`, code);
  const check = 'check DATABASE_URL and its server';
  for (const [error, words] of [
    [refusal('57P03'), 'it failed'],
    [refusal('XX000', 'two\nlines'), 'two lines'],
    [lost, 'connect ECONNREFUSED 127.0.0.1:1'],
    [silent, 'no answer'],
  ] as const) {
    t.equal(startErrorOf(error)?.message, `the database failed (${words}): ${check}`);
    t.equal(startErrorOf(error, true)?.message, `the database cannot be reached (${words}): ${check}`);
  }
  t.equal(startErrorOf(defect), null, 'a defect of ours keeps its stack');
  t.match(startErrorOf(defect, true), { message: /^the database cannot be reached \(not a function\)/ });
  const known = new StartError('known');
  t.equal(startErrorOf(known, true), known);
  t.end();
});

t.test('a failure of the embedded PostgreSQL says nothing of DATABASE_URL, which nobody has set', (t) => {
  const running = (error: unknown) => embeddedFailureOf(error, '/data', 7)?.message ?? null;
  const silence = (words: string) =>
    `the embedded PostgreSQL in /data does not answer (${words}): if that goes on, end its process with kill -9 7, which loses no mail, and start Sendwright again`;
  t.equal(running(lost), silence('connect ECONNREFUSED 127.0.0.1:1'));
  t.equal(running(silent), silence('no answer'));
  t.equal(
    running(refusal('57P03')),
    'the embedded PostgreSQL in /data refuses (it failed): try again, and see its postgres.log if that goes on',
    'one that answers is not to be killed',
  );
  for (const error of [defect, refusal('53100'), refusal('22012'), new StartError('known')])
    t.equal(running(error), null);

  const starting = (error: unknown, isGone = false) => embeddedStartFailureOf(error, '/data', isGone)?.message ?? null;
  const end = 'start Sendwright again, and see the end of /data/postgres.log for the reason';
  const sentence = (what: string, words: string) =>
    `the embedded PostgreSQL ${what} during the start (${words}): ${end}`;
  for (const [error, words] of [
    [refusal('57P03'), 'it failed'],
    [lost, 'connect ECONNREFUSED 127.0.0.1:1'],
    [startErrorOf(lost, true), 'connect ECONNREFUSED 127.0.0.1:1'],
    [silent, 'no answer'],
  ] as const) {
    t.equal(starting(error), sentence('failed', words));
    t.equal(starting(error, true), sentence('has stopped', words));
  }
  for (const error of [defect, refusal('53100'), refusal('22012'), new StartError('known')])
    t.equal(starting(error), null);
  t.equal(starting(defect, true), sentence('has stopped', 'not a function'), 'whatever a lost server leads to');
  t.equal(
    starting(new TakenPorts([{ name: 'HTTP_PORT', port: 80 }]), true),
    null,
    'but that has nothing to do with it',
  );
  t.end();
});
