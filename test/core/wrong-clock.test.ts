import { mock } from 'node:test';
import t from 'tap';
import * as keys from '../../src/core/accounts/keys.ts';
import * as loginAttempts from '../../src/core/accounts/login-attempts.ts';
import * as dkimKeys from '../../src/core/domains/dkim-keys.ts';
import * as domains from '../../src/core/domains/domains.ts';
import * as hold from '../../src/core/operations/hold.ts';
import { takeBackAhead, wakeAhead, wakeTriedAhead } from '../../src/core/recipients/ahead.ts';
import { claim } from '../../src/core/recipients/recipients.ts';
import { settle } from '../../src/core/recipients/settlement.ts';
import * as returns from '../../src/core/returns/returns.ts';
import { takeBackCallsAhead, wakeCallsAhead } from '../../src/core/webhooks/calls-ahead.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import { connect, type Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildNode, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { dayLasting } from '../support/midnight.ts';
import { testServerUrl } from '../support/postgres.ts';

const hourMs = 3_600_000;

async function buildSender(db: Database) {
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  return { account, domain };
}

/** A sender whose webhook is called about everything. */
async function openWithWebhook(t: Parameters<typeof openQueue>[0]) {
  const { db, queue } = await openQueue(t);
  const { account, domain } = await buildSender(db);
  const input = { url: 'https://a.test/', events: [...webhooks.eventTypes] };
  await webhooks.create(db, account.id, input, new Keyring(Buffer.alloc(32)));
  return { db, queue, account, domain };
}

t.test('mail is due by the clock of the database, whatever the clock of the accepting machine says', async (t) => {
  const { db, queue } = await openQueue(t);
  const { account, domain } = await buildSender(db);
  const request = (scheduledAt: Date | null) => requestOf(`s@${domain}`, ['a@receiver.test'], { scheduledAt });
  for (const offMs of [2 * hourMs, -2 * hourMs]) {
    const began = Date.now();
    mock.timers.enable({ apis: ['Date'], now: began + offMs });
    const accepted = await accept(db, queue, holderOf(account), [
      request(null),
      request(new Date(began + hourMs)),
    ]).finally(() => mock.timers.reset());
    const [atOnce, scheduled] = accepted.map((one) => ('email' in one ? one.email : null));
    if (!atOnce || !scheduled) throw new Error('they were not accepted');
    t.ok(Math.abs(atOnce.createdAt.getTime() - began) < 60_000, `${offMs / hourMs} hours off`);
    const rows = await db.query<{ id: string; due: Date; taken: boolean }>({
      text: 'SELECT email_id AS id, next_attempt_at AS due, job_id IS NOT NULL AS taken FROM recipients WHERE email_id = ANY($1)',
      values: [[atOnce.id, scheduled.id]],
    });
    const [first, second] = [atOnce, scheduled].map((email) => rows.find(({ id }) => id === email.id));
    t.match(first, { taken: true });
    t.ok(Math.abs((first?.due.getTime() ?? 0) - began) < 60_000);
    t.match(second, { taken: false, due: new Date(began + hourMs).toISOString() });
  }
});

t.test('mail accepted while the clock of the database was ahead is due once that is corrected', async (t) => {
  const { db, queue } = await openQueue(t);
  const { account, domain } = await buildSender(db);
  const later = new Date(Date.now() + 40 * 24 * hourMs);
  const request = (scheduledAt: Date | null) => requestOf(`s@${domain}`, ['a@receiver.test'], { scheduledAt });
  await accept(db, queue, holderOf(account), [request(null), request(new Date(Date.now() + hourMs))]);
  await db.query({ text: 'UPDATE recipients SET next_attempt_at = $1', values: [later] });
  const due = async () =>
    (await db.query({ text: 'SELECT FROM recipients WHERE next_attempt_at <= now() AND job_id IS NULL' })).length;
  await wakeAhead(db, new Date());
  t.equal(await due(), 0, 'it was accepted by a right clock');
  // As if the clock had been two hours ahead when they were accepted.
  await wakeAhead(db, new Date(Date.now() - 2 * hourMs));
  t.equal(await due(), 1, 'but for the scheduled one');
});

t.test('mail tried while the clock of the database was ahead is due once that is corrected', async (t) => {
  const { db, queue } = await openQueue(t);
  const { account, domain } = await buildSender(db);
  const cases = [
    { name: 'tried just now by a right clock', tried: 0, next: 30, note: null, scheduled: null, due: false },
    { name: 'tried a day ahead', tried: 24, next: 25, note: null, scheduled: null, due: true },
    {
      name: 'a limit until midnight',
      tried: null,
      next: 24,
      note: 'warm-up of pool default',
      scheduled: null,
      due: false,
    },
    {
      name: 'until midnight a day ahead',
      tried: null,
      next: 40,
      note: 'warm-up of pool default',
      scheduled: null,
      due: true,
    },
    { name: 'a back-off', tried: null, next: 1, note: 'receiver.test: it is away', scheduled: null, due: false },
    { name: 'hours ahead', tried: null, next: 3, note: 'receiver.test: it is away', scheduled: null, due: true },
    { name: 'held', tried: 24, next: null, note: 'held: it may have been delivered', scheduled: null, due: false },
    { name: 'tried too early', tried: 24, next: 25, note: null, scheduled: 20, due: false },
    {
      name: 'tried too early, and a limit',
      tried: null,
      next: 50,
      note: 'warm-up of pool default',
      scheduled: 20,
      due: false,
    },
    { name: 'scheduled', tried: null, next: 50, note: null, scheduled: 50, due: false },
  ];
  const ids = new Map<string, string>();
  for (const { name, tried, next, note, scheduled } of cases) {
    const scheduledAt = scheduled === null ? null : new Date(Date.now() + scheduled * hourMs);
    const request = requestOf(`s@${domain}`, ['a@receiver.test'], { scheduledAt });
    const [accepted] = await accept(db, queue, holderOf(account), [request]);
    if (!accepted || !('email' in accepted)) throw new Error('it was not accepted');
    const { id } = accepted.email;
    ids.set(name, id);
    await db.query({
      text: `UPDATE recipients SET status = $2, attempts = $3, job_id = NULL, waiting_for = $4,
                    next_attempt_at = coalesce(now() + make_interval(hours => $5), '9999-01-01T00:00:00Z') WHERE email_id = $1`,
      values: [id, tried === null ? 'queued' : 'deferred', tried === null ? 0 : 1, note, next],
    });
    if (tried !== null)
      await db.query({
        text: `INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, phase, outcome, reason)
               VALUES ($1, $2, 'a@receiver.test', 1, now() + make_interval(hours => $3), 1, 'rcpt', 'deferred', 'later')`,
        values: [id, newId(), tried],
      });
  }
  const due = async () =>
    (
      await db.query<{ id: string }>({ text: 'SELECT email_id AS id FROM recipients WHERE next_attempt_at <= now()' })
    ).map(({ id }) => id);
  await wakeTriedAhead(db, new Date(), () => false);
  const woken = await due();
  for (const { name, due: isDue } of cases) t.equal(woken.includes(ids.get(name) ?? ''), isDue, name);
  const [{ early } = { early: 0 }] = await db.query<{ early: number }>({
    text: `SELECT count(*)::int AS early FROM recipients r JOIN emails e ON e.id = r.email_id
            WHERE r.next_attempt_at = e.scheduled_at AND r.waiting_for IS NULL`,
  });
  t.equal(early, 2, 'scheduled mail is due at its time, whenever it was tried');
});

t.test('a webhook call of the time when the clock was ahead is due once that is corrected', async (t) => {
  const { db, queue, account, domain } = await openWithWebhook(t);
  const requests = Array.from({ length: 3 }, () => requestOf(`s@${domain}`, ['a@receiver.test']));
  await accept(db, queue, holderOf(account), requests);
  const calls = await db.query<{ id: string }>({ text: 'SELECT id FROM webhook_deliveries ORDER BY id' });
  const [right, tried, made] = calls.map(({ id }) => id);
  const set = (id: string | undefined, createdIn: number, triedIn: number | null, nextIn: number) =>
    db.query({
      text: `UPDATE webhook_deliveries
                SET job_id = NULL, created_at = now() + make_interval(hours => $2), next_attempt_at = now() + make_interval(hours => $4),
                    attempts = CASE WHEN $3::int IS NULL THEN '[]' ELSE jsonb_build_array(jsonb_build_object('at', $5::text)) END
              WHERE id = $1`,
      values: [id, createdIn, triedIn, nextIn, new Date(Date.now() + (triedIn ?? 0) * hourMs).toISOString()],
    });
  // Just now, by a clock that is right: its next try is due when the schedule says.
  await set(right, -2, 0, 30);
  await set(tried, -2, 24, 25);
  await set(made, 24, null, 24);
  await wakeCallsAhead(db, new Date(), () => false);
  const due = await db.query<{ id: string }>({
    text: 'SELECT id FROM webhook_deliveries WHERE next_attempt_at <= now() ORDER BY id',
  });
  t.same(due, [{ id: tried }, { id: made }]);

  // One of them is locked by somebody who takes it, and another gets a job after it was found.
  const dueCalls = async () =>
    (await db.query<{ id: string }>({ text: 'SELECT id FROM webhook_deliveries WHERE next_attempt_at <= now()' })).map(
      ({ id }) => id,
    );
  await set(right, 24, null, 24);
  await set(tried, 24, null, 24);
  await set(made, 24, null, 24);
  const withJob: Database = {
    ...db,
    async query(statement) {
      await db.query({ text: 'UPDATE webhook_deliveries SET job_id = $2 WHERE id = $1', values: [made, newId()] });
      return db.query(statement);
    },
  };
  await db.transaction(async (tx) => {
    await tx.query({ text: 'SELECT FROM webhook_deliveries WHERE id = $1 FOR UPDATE', values: [tried] });
    await wakeCallsAhead(withJob, new Date(), () => false);
  });
  t.same(await dueCalls(), [right], 'it waits for no lock, and leaves alone what has a job');
});

t.test(
  'mail and webhook calls that got their jobs while the clock was ahead leave the queue once that is corrected',
  async (t) => {
    const { db, queue, account, domain } = await openWithWebhook(t);
    const request = (to: string) => requestOf(`s@${domain}`, [to]);
    const never = () => false;
    const jobs = async () =>
      (
        await db.query<{ name: string; jobs: number }>({
          text: 'SELECT name, count(*)::int AS jobs FROM pgboss.job WHERE start_after <= now() GROUP BY 1 ORDER BY 1',
        })
      ).map(({ name, jobs: many }) => `${name} ${many}`);
    // Two emails share a job, and the third has one of its own.
    await accept(db, queue, holderOf(account), [request('a@one.test'), request('b@one.test'), request('a@two.test')]);
    await db.query({ text: `UPDATE pgboss.job SET start_after = start_after + interval '1 day'` });
    await accept(db, queue, holderOf(account), [request('a@three.test')]);
    t.same(await jobs(), ['deliver 1', 'webhook 1'], 'the others are not handed out for a day');
    /** Where the emails go whose rows wait in this table for a job. */
    const waiting = async (table: string) =>
      (
        await db.query<{ destination: string }>({
          text: `SELECT r.destination FROM ${table} w JOIN recipients r ON r.email_id = w.email_id
                  WHERE w.job_id IS NULL AND w.next_attempt_at <= now() ORDER BY 1`,
        })
      ).map(({ destination }) => destination);
    t.same(await waiting('recipients'), []);

    await takeBackAhead(db, new Date(), never);
    await takeBackCallsAhead(db, new Date(), never);
    for (const table of ['recipients', 'webhook_deliveries'])
      t.same(await waiting(table), ['one.test', 'one.test', 'two.test'], table);
    const [left] = await db.query<{ jobs: number }>({ text: 'SELECT count(*)::int AS jobs FROM pgboss.job' });
    t.equal(left?.jobs, 2, 'what was accepted since keeps its jobs');
  },
);

t.test(
  'of an email whose job is taken back, recipients with a job of their own or at a node stay as they are',
  async (t) => {
    const { db, queue } = await openQueue(t);
    const { account, domain } = await buildSender(db);
    await accept(db, queue, holderOf(account), [
      requestOf(`s@${domain}`, ['a@one.test', 'a@two.test', 'a@three.test']),
    ]);
    const nodeId = newId();
    await buildNode(db, nodeId);
    await db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 1, ['one.test', 'three.test'])));
    await db.query({
      text: `UPDATE pgboss.job SET start_after = start_after + interval '1 day' WHERE group_id = 'one.test'`,
    });
    await takeBackAhead(db, new Date(), () => false);
    const rows = await db.query({
      text: `SELECT destination, job_id IS NULL AS waiting, claimed_by IS NOT NULL AS held FROM recipients ORDER BY destination`,
    });
    t.same(rows, [
      { destination: 'one.test', waiting: true, held: false },
      { destination: 'three.test', waiting: false, held: false },
      { destination: 'two.test', waiting: false, held: true },
    ]);
  },
);

t.test(
  'of webhook calls whose jobs are taken back, those with another job or at a node stay as they are',
  async (t) => {
    const { db, queue, account, domain } = await openWithWebhook(t);
    const requests = Array.from({ length: 3 }, () => requestOf(`s@${domain}`, ['a@receiver.test']));
    await accept(db, queue, holderOf(account), requests);
    const calls = await db.query<{ id: string }>({
      text: 'SELECT id FROM webhook_deliveries WHERE job_id IS NOT NULL ORDER BY id',
    });
    const [, held, other] = calls.map(({ id }) => id);
    const set = (id: string | undefined, column: string) =>
      db.query({ text: `UPDATE webhook_deliveries SET ${column} = $2 WHERE id = $1`, values: [id, newId()] });
    await set(held, 'claimed_by');
    await set(other, 'job_id');
    await db.query({
      text: `UPDATE pgboss.job SET start_after = start_after + interval '1 day' WHERE name = 'webhook'`,
    });
    await takeBackCallsAhead(db, new Date(), () => false);
    const rows = await db.query({
      text: 'SELECT job_id IS NULL AS waiting, claimed_by IS NOT NULL AS held FROM webhook_deliveries ORDER BY id',
    });
    t.same(rows, [
      { waiting: true, held: false },
      { waiting: false, held: true },
      { waiting: false, held: false },
    ]);
  },
);

t.test('jobs are taken back without a wait for a job or a row that is locked', async (t) => {
  const { db, queue, account, domain } = await openWithWebhook(t);
  const to = ['locked.test', 'taken.test', 'free.test'];
  await accept(
    db,
    queue,
    holderOf(account),
    to.map((name) => requestOf(`s@${domain}`, [`a@${name}`])),
  );
  await db.query({ text: `UPDATE pgboss.job SET start_after = start_after + interval '1 day'` });
  const waiting = async () => {
    const rows = await db.query<{ name: string }>({
      text: `SELECT r.destination || CASE WHEN w.n = 1 THEN '' ELSE ', call' END AS name
               FROM (SELECT email_id, job_id, 1 AS n FROM recipients
                     UNION ALL SELECT email_id, job_id, 2 FROM webhook_deliveries) w JOIN recipients r USING (email_id)
              WHERE w.job_id IS NULL ORDER BY 1`,
    });
    return rows.map(({ name }) => name);
  };
  const idOf = (name: string) => `(SELECT email_id FROM recipients WHERE destination = '${name}')`;
  await db.transaction(async (tx) => {
    // As by an order for an email, and by somebody who takes a job.
    for (const table of ['recipients', 'webhook_deliveries']) {
      await tx.query({ text: `SELECT FROM ${table} WHERE email_id = ${idOf('locked.test')} FOR UPDATE` });
      await tx.query({
        text: `SELECT FROM pgboss.job WHERE id = (SELECT job_id FROM ${table} WHERE email_id = ${idOf('taken.test')}) FOR UPDATE`,
      });
    }
    await takeBackAhead(db, new Date(), () => false);
    await takeBackCallsAhead(db, new Date(), () => false);
    t.same(await waiting(), ['free.test', 'free.test, call']);
  });
  const jobs = await db.query<{ name: string }>({ text: 'SELECT name FROM pgboss.job ORDER BY 1' });
  t.same(
    jobs.map(({ name }) => name),
    ['deliver', 'webhook'],
    'those that are just being taken',
  );
});

t.test(
  'a clock that was ahead for long leaves more behind than one statement takes, and none of it waits',
  async (t) => {
    const { db, queue } = await openQueue(t);
    const { account, domain } = await buildSender(db);
    const never = () => false;
    // Each with a job of its own.
    const requests = Array.from({ length: 1_001 }, (_, n) => requestOf(`s@${domain}`, [`a@receiver${n}.test`]));
    await accept(db, queue, holderOf(account), requests);
    await db.query({ text: `UPDATE pgboss.job SET start_after = start_after + interval '1 day'` });
    await takeBackAhead(db, new Date(), never);
    const input = { url: 'https://a.test/', events: [...webhooks.eventTypes] };
    const { webhook } = await webhooks.create(db, account.id, input, new Keyring(Buffer.alloc(32)));
    await db.query({
      text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, event, payload, created_at, next_attempt_at)
           SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7000' || '8' || substr(md5(n::text), 1, 15))::uuid,
                  $1, $2, 'email.sent', '{}', now() + interval '1 day', now() + interval '1 day' FROM generate_series(1, 5001) n`,
      values: [account.id, webhook.id],
    });
    await wakeCallsAhead(db, new Date(), never);
    const [left] = await db.query({
      text: `SELECT (SELECT count(*)::int FROM pgboss.job WHERE name = 'deliver') AS jobs,
                  (SELECT count(*)::int FROM recipients WHERE job_id IS NOT NULL) AS mail,
                  (SELECT count(*)::int FROM webhook_deliveries WHERE next_attempt_at > now()) AS calls`,
    });
    t.same(left, { jobs: 0, mail: 0, calls: 0 });
  },
);

t.test('failed logins of the time when the clock of the database was ahead lock nobody out afterwards', async (t) => {
  const { db } = await openQueue(t);
  const fail = async () => void (await loginAttempts.begin(db, ['pair:me@a.test 192.0.2.1']));
  for (let time = 0; time < 10; time += 1) await fail();
  await t.rejects(fail(), { message: 'rate limited' });
  await db.query({ text: `UPDATE login_failures SET at = at + interval '1 day'` });
  await t.resolves(fail());
});

t.test('such mail is in doubt in a backup of that time, like what was due', async (t) => {
  const { db, queue } = await openQueue(t);
  const { account, domain } = await buildSender(db);
  await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['a@receiver.test'])]);
  await db.query({ text: `UPDATE recipients SET next_attempt_at = now() + interval '2 hours'` });
  await hold.begin(db);
  t.equal(await hold.countWaiting(db), 0);
  await wakeAhead(db, new Date(Date.now() - 2 * hourMs));
  t.equal(await hold.countWaiting(db), 1, 'the original has woken it, too, and may have sent it');
});

t.test('what a node does takes effect now, even if its clock is a day ahead', async (t) => {
  const { db } = await openQueue(t);
  const account = await buildAccount(db);
  const input = { name: 'leaked', scopes: ['send' as const], domains: [], expiresAt: null };
  const { apiKey } = await keys.create(db, account.id, input);
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 24 * hourMs });
  const changes = Promise.all([
    keys.revoke(db, account.id, apiKey.id),
    domains.add(db, account.id, { domain: 'new.test' }, new Keyring(Buffer.alloc(32))),
  ]);
  await changes.finally(() => mock.timers.reset());
  const [row] = await db.query({
    text: `SELECT (SELECT revoked_at <= now() FROM api_keys WHERE id = $1) AS revoked,
                  (SELECT next_check_at < now() + interval '1 hour' FROM domains WHERE domain = 'new.test') AS checked`,
    values: [apiKey.id],
  });
  t.same(row, { revoked: true, checked: true });
});

t.test(
  'no event says that it happened before the one it follows, whatever the clock of the node that recorded it',
  async (t) => {
    const { db, queue } = await openQueue(t);
    const account = await buildAccount(db);
    const keyring = new Keyring(Buffer.alloc(32));
    const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
    await webhooks.create(db, account.id, { url: 'https://a.test/', events: [...webhooks.eventTypes] }, keyring);
    const [accepted] = await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['a@receiver.test'])]);
    if (!accepted || !('email' in accepted)) throw new Error('it was not accepted');
    const { id: emailId } = accepted.email;
    const nodeId = newId();
    await buildNode(db, nodeId);
    const [held] = await db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 1, [])));
    const outcome = { status: 'delivered', attempts: 1, nextAttemptAt: null, waitingFor: null } as const;
    const known = { uncertain: false, lastResponse: '250 ok', suppress: null };
    mock.timers.enable({ apis: ['Date'], now: Date.now() - hourMs });
    const recording = db
      .transaction((tx) =>
        settle(tx, queue, [{ nodeId, jobId: held?.jobId ?? '', emailId, position: 0, ...outcome, ...known }], []),
      )
      .then(() =>
        returns.recordFor(db, queue, { emailId, withinDays: null }, () => [
          {
            address: 'a@receiver.test',
            kind: 'complaint',
            classification: null,
            ...{ enhancedCode: null, diagnostic: null, suppress: null },
          },
        ]),
      );
    await recording.finally(() => mock.timers.reset());
    const told = await db.query<{ event: string; at: string }>({
      text: `SELECT event, payload::json ->> 'created_at' AS at FROM webhook_deliveries ORDER BY payload::json ->> 'created_at'`,
    });
    const order = ['email.queued', 'email.sent', 'email.delivered', 'email.complained'];
    t.same(told.map(({ event }) => event).toSorted(), order.toSorted());
    const timeOf = (event: string) => new Date(told.find((one) => one.event === event)?.at ?? 0).getTime();
    const times = order.map(timeOf);
    t.same(
      times,
      times.toSorted((a, b) => a - b),
    );
    t.ok(Date.now() - (times[0] ?? 0) < 60_000);
  },
);

t.test('when a plan allows mail again is said by the clock of the database', async (t) => {
  await dayLasting(10_000);
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  await db.query({
    text: `UPDATE accounts SET plan = 'free', usage_day = (now() AT TIME ZONE 'UTC')::date, usage_day_count = 100 WHERE id = $1`,
    values: [account.id],
  });
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  const request = requestOf(`s@${domain}`, ['a@receiver.test']);
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 30 * 24 * hourMs });
  const [refused] = await accept(db, queue, { ...holderOf(account), plan: 'free' }, [request]).finally(() =>
    mock.timers.reset(),
  );
  if (!refused || !('refusal' in refused)) throw new Error('it was accepted');
  const { message, detail = '', headers } = refused.refusal;
  t.equal(message, 'quota exceeded');
  t.ok(Number(headers['Retry-After']) <= 24 * 3_600);
  const at = new Date(/resumes at (\S+)$/.exec(detail)?.[1] ?? 0);
  t.ok(at.getTime() - Date.now() <= 24 * hourMs, detail);
});

t.test('a retired DKIM key stays on the list for its week, even if the clock of a node is ahead', async (t) => {
  const { db } = await openQueue(t);
  const keyring = new Keyring(Buffer.alloc(32));
  const { id: accountId } = await buildAccount(db);
  const { id } = await buildVerifiedDomain(db, accountId, Buffer.alloc(32));
  await dkimKeys.rotate(db, accountId, id, {}, keyring);
  const [next] = await dkimKeys.list(db, accountId, id);
  if (!next) throw new Error('no key waits');
  await dkimKeys.activate(db, next);
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 8 * 24 * hourMs });
  await dkimKeys.forgetRetired(db).finally(() => mock.timers.reset());
  t.match(await dkimKeys.list(db, accountId, id), [{ status: 'retired' }]);
});

t.test('mail is accepted at once after the clock of the database was set to another month', async (t) => {
  const { db, queue, account, domain } = await openWithWebhook(t);
  for (const [index, weeks] of [9, -9].entries()) {
    for (const clock of ['now', 'clock_timestamp']) {
      await db.query({
        text: `CREATE OR REPLACE FUNCTION public.${clock}() RETURNS timestamptz LANGUAGE sql VOLATILE AS
                 $$ SELECT pg_catalog.${clock}() + make_interval(weeks => ${weeks}) $$`,
      });
    }
    await db.query({
      text: `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`,
    });
    const [there] = await db.query<{ name: string }>({ text: 'SELECT current_database() AS name' });
    const opened = connect(new URL(`/${there?.name}`, await testServerUrl()).href, silentLog, 4);
    t.teardown(() => opened.close());
    const request = requestOf(`s@${domain}`, ['a@receiver.test']);
    // More at once than the pool has connections: none of them may wait for one that another holds.
    const calls = Array.from({ length: 12 }, () => accept(opened, queue, holderOf(account), [request]));
    for (const [accepted] of await Promise.all(calls)) {
      if (!accepted || !('email' in accepted)) throw new Error('it was not accepted');
      const off = accepted.email.createdAt.getTime() - Date.now() - weeks * 7 * 24 * hourMs;
      t.ok(Math.abs(off) < 60_000, `${weeks} weeks`);
    }
    t.equal(await opened.prisma.email.count(), (index + 1) * 12);
  }
});
