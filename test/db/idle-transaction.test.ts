import t from 'tap';
import { isUnavailable } from '../../src/db/client.ts';
import { openDatabase } from '../support/db.ts';

t.test('QUE-07: a transaction that its node leaves open ends by itself, before the node counts as dead', async (t) => {
  const db = await openDatabase(t);
  const idle = {
    text: `SELECT setting::int AS ms FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'`,
  };
  const [row] = await db.query<{ ms: number }>(idle);
  t.ok(row && row.ms > 0 && row.ms < 20_000);
  // What happens then, in a tenth of a second.
  const ended = db.transaction(async (tx) => {
    await tx.query({ text: `SET LOCAL idle_in_transaction_session_timeout = '100ms'` });
    await new Promise((resume) => setTimeout(resume, 400));
    await tx.query({ text: 'SELECT 1' });
  });
  const error = await ended.catch((reason: Error) => reason);
  t.ok(isUnavailable(error), String(error));
  t.equal((await db.query({ text: 'SELECT 1' })).length, 1, 'and the pool goes on');
});
