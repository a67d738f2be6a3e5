import { mock } from 'node:test';
import t from 'tap';
import { addChores } from '../../src/chores/chores.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import { silentLog } from '../../src/log.ts';
import { Rounds } from '../../src/pace/rounds.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { testKey } from '../support/keys.ts';

const dayMs = 24 * 3_600_000;

class Gathered extends Rounds {
  readonly works = new Map<string, (stop: AbortSignal) => Promise<void>>();

  override every(_ms: number, name: string, work: (stop: AbortSignal) => Promise<void>): void {
    this.works.set(name, work);
  }
}

t.test('a node whose clock is months ahead deletes nothing that is kept', async (t) => {
  const { db, queue } = await openQueue(t);
  const { account, from } = await buildSender(db, testKey(5));
  const [email] = await accept(db, queue, holderOf(account), [requestOf(from, ['ann@x.test'])]);
  t.ok(email && 'email' in email);
  await db.query({ text: `UPDATE recipients SET status = 'delivered', next_attempt_at = NULL, job_id = NULL` });
  await db.query({ text: `UPDATE emails SET status = 'sent', pending = 0` });
  await db.query({
    text: `INSERT INTO tls_results SELECT current_date, 'x.test', 'sts', '{}', '{}', 'r', 'h', 'a', 'l', '', 1, 'kind'`,
  });
  await db.query({ text: `INSERT INTO tls_reports (day, domain, uri) VALUES (current_date, 'x.test', '')` });
  await db.query({ text: `INSERT INTO warm_up_days VALUES ('192.0.2.1', current_date, 50, 1, 1)` });
  await db.query({ text: `INSERT INTO login_failures (subject) VALUES ('email:ann@x.test')` });
  await db.query({
    text: `INSERT INTO idempotency_keys VALUES ($1, 'key', '', '{}', now() + interval '1 day')`,
    values: [account.id],
  });
  const kept = async () => {
    const tables = ['emails', 'email_contents', 'recipients', 'tls_results', 'tls_reports', 'warm_up_days'];
    const counted = [...tables, 'login_failures', 'idempotency_keys'].map(
      (one) => `(SELECT count(*) FROM ${one}) AS ${one}`,
    );
    return (await db.query({ text: `SELECT ${counted.join(', ')}` }))[0];
  };
  const before = await kept();
  const rounds = new Gathered(silentLog);
  const resolve = () => Promise.reject(new Error('no lookup is expected'));
  const surroundings = {
    resolve,
    mailHostname: 'mx.test',
    ehloNames: new Map(),
    sendingIps: [],
    keyring: new Keyring(testKey(5)),
  };
  addChores(rounds, db, surroundings, { sandbox: true, log: silentLog });
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 100 * dayMs });
  try {
    for (const work of rounds.works.values()) await work(new AbortController().signal);
  } finally {
    mock.timers.reset();
  }
  t.strictSame(await kept(), before);
});
