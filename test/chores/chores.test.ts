import { mock } from 'node:test';
import t from 'tap';
import { addChores } from '../../src/chores/chores.ts';
import * as orders from '../../src/core/destinations/destination-orders.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';
import { Rounds } from '../../src/pace/rounds.ts';
import { add, prepare } from '../core/retention-scene.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { openDatabase, openQueue } from '../support/db.ts';
import { testKey } from '../support/keys.ts';

const dayMs = 24 * 3_600_000;

class Gathered extends Rounds {
  readonly works = new Map<string, (stop: AbortSignal) => Promise<void>>();

  override every(_ms: number, name: string, work: (stop: AbortSignal) => Promise<void>): void {
    this.works.set(name, work);
  }
}

/** What the clock asks for. */
function gather(db: Database) {
  const rounds = new Gathered(silentLog);
  const resolve = () => Promise.reject(new Error('no lookup is expected'));
  const surroundings = {
    resolve,
    mailHostname: 'mx.test',
    ehloNames: new Map(),
    sendingIps: [],
    keyring: new Keyring(testKey(5)),
  };
  addChores(rounds, db, surroundings, { isSandbox: true, log: silentLog });
  return [...rounds.works.values()];
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
  const works = gather(db);
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 100 * dayMs });
  try {
    for (const work of works) await work(new AbortController().signal);
  } finally {
    mock.timers.reset();
  }
  t.strictSame(await kept(), before);
});

t.test('what got its job while the clock was ahead waits as rows again once that is corrected', async (t) => {
  const { db, queue } = await openQueue(t);
  const { account, from } = await buildSender(db, testKey(5));
  await accept(db, queue, holderOf(account), [requestOf(from, ['ann@x.test'])]);
  await db.query({ text: `UPDATE pgboss.job SET start_after = start_after + interval '3 days'` });
  await db.query({ text: `UPDATE time_seen SET seen_at = now() + interval '3 days'` });
  for (const work of gather(db)) await work(new AbortController().signal);
  t.strictSame(await db.query({ text: 'SELECT job_id, next_attempt_at <= now() AS due FROM recipients' }), [
    { job_id: null, due: true },
  ]);
});

t.test('what is no longer kept is deleted, whatever it is, and nothing else', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  const { domain } = await buildSender(db, testKey(5));
  await add(db, accountId, 0);
  const waits = await add(db, accountId, 1, { waiting: { jobId: null } });
  await add(db, accountId, 1);
  const endedLate = await add(db, accountId, 1);
  const young = await add(db, accountId, 10);
  await db.query({
    text: `UPDATE recipients SET settled_at = now() - interval '1 day' WHERE email_id = $1`,
    values: [endedLate],
  });
  const ages: [table: string, row: string, young: string, old: string][] = [
    ['login_failures', `(subject, at) VALUES ($1, now() - $2::interval)`, '10 min', '16 min'],
    ['ended_sessions', `VALUES ($1::uuid, now() - $2::interval)`, '20 hours', '25 hours'],
    ['idempotency_keys', `VALUES ($1::uuid, 'k', '', '{}', now() - $2::interval)`, '-1 hour', '1 hour'],
    ['tls_policies', `VALUES ($1, '1', 'enforce', '{}', 1, now(), now() - $2::interval)`, '-1 hour', '1 hour'],
    [
      'tls_results',
      `SELECT current_date - $2::interval, $1, 'sts', '{}', '{}', 'r', 'h', 'a', 'l', '', 1, 'kind'`,
      '13 days',
      '16 days',
    ],
    ['tls_reports', `(day, domain, uri) VALUES (current_date - $2::interval, $1, '')`, '13 days', '16 days'],
    ['warm_up_days', `VALUES ($1, current_date - $2::interval, 50, 1, 1)`, '29 days', '32 days'],
    ['destination_deliveries', `VALUES ($1, now() - $2::interval)`, '29 days', '31 days'],
    [
      'dkim_keys',
      `(id, account_id, domain_id, selector, algorithm, public_key, status, retired_at)
       SELECT $1::uuid, account_id, id, $1, 'rsa', '', 'retired', now() - $2::interval FROM domains WHERE domain = '${domain}'`,
      '6 days',
      '8 days',
    ],
  ];
  const rows = async (table: string) =>
    (await db.query<{ row: string }>({ text: `SELECT t::text AS row FROM ${table} t` })).map(({ row }) => row);
  const [keptId, goneId] = [(await buildSender(db, testKey(5))).account.id, accountId];
  for (const [table, row, ...both] of ages)
    for (const [index, age] of both.entries())
      await db.query({ text: `INSERT INTO ${table} ${row}`, values: [index === 0 ? keptId : goneId, age] });
  await db.query({
    text: `INSERT INTO email_counts SELECT '', id, date_trunc('hour', now()), 'sent', 'marketing', emails
             FROM (VALUES ($1::uuid, 1), ($2::uuid, 0)) AS c (id, emails)`,
    values: [keptId, goneId],
  });

  for (const work of gather(db)) await work(new AbortController().signal);

  for (const [table] of ages) {
    const left = await rows(table);
    t.ok(left.length === 1 && left[0]?.includes(keptId), `${table}: ${left}`);
  }
  const ids = async (table: string, id: string) =>
    (await db.query<{ id: string }>({ text: `SELECT ${id} AS id FROM ${table} ORDER BY 1` })).map((row) => row.id);
  t.strictSame(await ids('emails', 'id'), [waits, endedLate, young].sort());
  t.strictSame(await ids('email_contents', 'email_id'), [waits, young].sort());
  t.strictSame(await ids(`email_counts WHERE type = 'marketing'`, 'account_id'), [keptId]);
});

t.test('orders for destinations are forgotten a day after they are over, and those in force stay', async (t) => {
  const db = await openDatabase(t);
  for (const name of ['resumed.test', 'paused.test', 'paused-and-flushed.test']) await orders.pause(db, name);
  for (const name of ['flushed.test', 'just-flushed.test', 'paused-and-flushed.test'])
    await orders.flush(db, name, [name]);
  await orders.resume(db, 'resumed.test');
  await db.query({
    text: `UPDATE destination_orders SET paused_at = paused_at - interval '25 hours', flushed_at = flushed_at - interval '25 hours'
            WHERE name <> 'just-flushed.test'`,
  });
  const names = async () => (await orders.list(db)).map(({ name }) => name).sort();
  t.equal((await names()).length, 5);
  for (const work of gather(db)) await work(new AbortController().signal);
  t.strictSame(await names(), ['just-flushed.test', 'paused-and-flushed.test', 'paused.test']);

  t.comment('what was forgotten can be paused and flushed again');
  await orders.pause(db, 'resumed.test');
  await orders.flush(db, 'flushed.test', ['flushed.test']);
  const given = new Map((await orders.list(db)).map((order) => [order.name, order]));
  t.ok(given.get('resumed.test')?.pausedAt);
  t.ok(given.get('flushed.test')?.flushedAt);
});
