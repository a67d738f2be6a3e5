import t from 'tap';
import * as idempotency from '../../src/core/accounts/idempotency.ts';
import { flush } from '../../src/core/destinations/destination-orders.ts';
import * as destinations from '../../src/core/destinations/destinations.ts';
import { wakeDue } from '../../src/core/emails/mail-lines.ts';
import { conditions, type Filter } from '../../src/core/log/email-filter.ts';
import * as log from '../../src/core/log/email-log.ts';
import { search } from '../../src/core/log/email-search.ts';
import { Statistics } from '../../src/core/log/stats.ts';
import { Unanswered } from '../../src/core/nodes/unanswered.ts';
import * as hold from '../../src/core/operations/hold.ts';
import { type Claim, claim, sweep } from '../../src/core/recipients/recipients.ts';
import { crashedNote, heldNote, pausedUntil } from '../../src/core/recipients/waiting-for.ts';
import * as calls from '../../src/core/webhooks/webhook-calls.ts';
import type { Database, Sql, Statement } from '../../src/db/client.ts';
import { analyzeFresh } from '../../src/db/partitions.ts';
import { floorId, newId } from '../../src/ids.ts';
import type { DeliverJob, Placed } from '../../src/queue.ts';
import { buildAccount, buildSender } from '../support/build.ts';
import { openDatabase, openQueue } from '../support/db.ts';
import { scheduleMany } from '../support/scheduled.ts';
import { newTurns } from '../support/turns.ts';
import { anyTime } from './retention-scene.ts';

/** How many rows of recipients, or of another table, this transaction has read. */
async function read(tx: Sql, tables = 'recipients_%'): Promise<number> {
  const [row] = await tx.query<{ rows: number }>({
    text: 'SELECT sum(coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0))::int AS rows FROM pg_stat_xact_user_tables WHERE relname LIKE $1',
    values: [tables],
  });
  return row?.rows ?? 0;
}

t.test(
  'claiming reads only what it claims, however many others have a job and whatever the statistics say',
  async (t) => {
    const db = await openDatabase(t);
    const sender = await buildSender(db, Buffer.alloc(32));
    await scheduleMany(db, sender, { emails: 5_000, to: 'receiver.test', at: new Date() });
    // The usual statistics: nearly all have been delivered.
    await db.query({ text: 'ANALYZE recipients' });
    await db.query({ text: 'UPDATE recipients SET job_id = gen_random_uuid()' });
    const jobs = await db.query<Placed<DeliverJob>>({
      text: 'SELECT job_id AS id, ARRAY[email_id] AS "emailIds", destination, 0 AS priority FROM recipients LIMIT 10',
    });
    await db.transaction(async (tx) => {
      const before = await read(tx);
      t.equal((await claim(tx, newId(), jobs)).length, 10);
      const rows = (await read(tx)) - before;
      t.ok(rows >= 10 && rows < 100, `${rows} rows`);
    });
  },
);

t.test('noting what may be sent reads no other mail that is being sent, whatever the statistics say', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await scheduleMany(db, sender, { emails: 5_000, to: 'receiver.test', at: new Date() });
  await db.query({ text: 'ANALYZE recipients' });
  const nodeId = newId();
  await db.query({ text: 'UPDATE recipients SET job_id = gen_random_uuid(), claimed_by = $1', values: [nodeId] });
  const claims = await db.query<Omit<Claim, 'recipients'> & { address: string }>({
    text: `SELECT claimed_by AS "nodeId", job_id AS "jobId", email_id AS "emailId", destination, address FROM recipients LIMIT 10`,
  });
  await db.transaction(async (tx) => {
    const before = await read(tx);
    const unanswered = new Unanswered({ ...db, transaction: (work) => work(tx) });
    const noted = claims.map(({ address, ...claim }) =>
      unanswered.note({ ...claim, recipients: [{ position: 0, address, attempts: 0 }] }, [address]),
    );
    t.strictSame(new Set(await Promise.all(noted)), new Set([true]));
    const rows = (await read(tx)) - before;
    t.ok(rows >= 10 && rows < 100, `${rows} rows`);
  });
});

t.test('waking reads only what it wakes, however many emails wait and whatever the statistics say', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await scheduleMany(db, sender, { emails: 5_000, to: 'receiver.test', at: new Date(Date.now() - 1_000) });
  // Each week on its own, as autovacuum does it.
  await analyzeFresh(db, new Date());
  const wake = () =>
    db.transaction(async (tx) => {
      const before = await read(tx, 'emails_%');
      const { woken } = await wakeDue({ ...db, transaction: (work) => work(tx) }, queue);
      return { woken, rows: (await read(tx, 'emails_%')) - before };
    });
  const first = await wake();
  t.ok(first.woken > 500 && first.rows === first.woken, `${first.rows} emails for ${first.woken}`);
  await db.query({
    text: `UPDATE recipients SET job_id = NULL, next_attempt_at = now() - make_interval(secs => 1)
            WHERE (email_id, position) IN (SELECT email_id, position FROM recipients WHERE job_id IS NOT NULL LIMIT 10)`,
  });
  t.strictSame(await wake(), { woken: 10, rows: 10 }, 'as soon as there is room');
});

for (const when of ['of an empty week', 'of a week with only transactional mail waiting'])
  t.test(`waking reads nothing of a full line, planned with statistics ${when}`, async (t) => {
    const { db, queue } = await openQueue(t);
    const sender = await buildSender(db, Buffer.alloc(32));
    const to = 'receiver.test';
    if (when !== 'of an empty week')
      await scheduleMany(db, sender, { emails: 3_000, to, at: new Date(Date.now() + 3_600_000) });
    await db.query({ text: 'VACUUM ANALYZE recipients' });
    // From here on the plan exists, and nothing makes the server plan again.
    for (let time = 0; time < 10; time += 1) await wakeDue(db, queue);
    await scheduleMany(db, sender, { emails: 8_000, to, at: new Date(Date.now() - 60_000), type: 'marketing' });
    t.match(await wakeDue(db, queue), { woken: 2_000 });
    await scheduleMany(db, sender, { emails: 10, to, at: new Date() });
    const [{ woken, rows }, plans] = await db.transaction(async (tx) => {
      const before = await read(tx);
      const { woken } = await wakeDue({ ...db, transaction: (work) => work(tx) }, queue);
      const rows = (await read(tx)) - before;
      return [
        { woken, rows },
        await tx.query<{ generic: number }>({
          text: `SELECT generic_plans::int AS generic FROM pg_prepared_statements WHERE name LIKE 'mail-lines-due%'`,
        }),
      ];
    });
    t.equal(woken, 10);
    // Those with a job are counted for each line.
    t.ok(rows < 2 * 2_000 + 100, `${rows} rows`);
    t.ok(plans.length === 1 && plans[0] && plans[0].generic > 10, 'the plan was kept');
  });

/** A database that records how many rows of recipients each session and each transaction reads. */
function reading(db: Database): { db: Database; sessions: number[]; transactions: number[] } {
  const sessions: number[] = [];
  const transactions: number[] = [];
  const noting =
    <T>(noted: number[], work: (sql: Sql) => Promise<T>) =>
    async (sql: Sql) => {
      // Earlier reads of a connection are counted until the server has been told of them.
      await sql.query({ text: 'SELECT pg_stat_force_next_flush()' });
      const before = await read(sql);
      const result = await work(sql);
      noted.push((await read(sql)) - before);
      return result;
    };
  return {
    db: {
      ...db,
      session: (work) => db.session(noting(sessions, work)),
      transaction: (work) => db.transaction(noting(transactions, work)),
    },
    sessions,
    transactions,
  };
}

t.test('what an order makes due is read once, however many others are due at the same moment', async (t) => {
  const { db: real, queue } = await openQueue(t);
  const sender = await buildSender(real, Buffer.alloc(32));
  await analyzeFresh(real, new Date());
  const at = new Date(Date.now() + 3_600_000);
  for (const to of ['slow.test', 'other.test']) await scheduleMany(real, sender, { emails: 5_000, to, at });
  await real.query({ text: 'UPDATE recipients SET attempts = 1' });
  const { db, sessions, transactions } = reading(real);
  t.match(await flush(db, 'slow.test', ['slow.test'], { size: 250, ms: 60_000 }), { recipients: 5_000 });
  t.equal(transactions.length, 21);
  t.ok((sessions[0] ?? 0) >= 10_000 && (sessions[0] ?? 0) < 11_000, `${sessions} rows to find them`);
  t.ok(Math.max(...transactions) <= 500, `${transactions} rows for 250`);

  await real.query({ text: `UPDATE recipients SET job_id = gen_random_uuid() WHERE address LIKE 'r1%'` });
  await hold.begin(real);
  const ending = reading(real);
  t.same(await hold.end(ending.db, queue, 'fail'), { failed: 5_000 });
  t.equal(ending.sessions.length, 2, 'until none is left');
  t.ok(Math.max(...ending.sessions) < 11_000, `${ending.sessions} rows to find those that fail`);
});

t.test('the states of 20,000 destinations, each a site of its own, can be listed', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await scheduleMany(db, sender, { emails: 20_000, to: 'receiver.test', at: new Date(Date.now() - 60_000) });
  await db.query({
    text: `UPDATE recipients SET destination = 'd' || substring(address FROM 2 FOR strpos(address, '@') - 2) || '.test', waiting_for = 'a limit'`,
  });
  // Comparing each with each would take longer than a statement may.
  t.match(await destinations.list(db, { limit: 2 }), {
    count: 20_000,
    destinations: [
      { site: 'd1.test', queued: 1, waitingFor: 'a limit' },
      { site: 'd10.test', queued: 1, waitingFor: 'a limit' },
    ],
  });
});

t.test('the search for lost jobs reads only what it asks for, however many the queue holds', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await scheduleMany(db, sender, { emails: 5_000, to: 'receiver.test', at: new Date() });
  await wakeDue(db, queue);
  await db.transaction(async (tx) => {
    const before = await read(tx, 'job_common');
    const { freed } = await sweep({ ...db, query: tx.query }, null, 10);
    t.equal(freed, 0);
    const rows = (await read(tx, 'job_common')) - before;
    t.ok(rows >= 10 && rows < 50, `${rows} jobs`);
  });
});

t.test('a week that was analyzed while empty is planned again once mail is in it', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await db.query({ text: 'ANALYZE' });
  await db.session(async (session) => {
    await session.query({ text: 'SET plan_cache_mode = force_generic_plan' });
    await session.query({ text: 'PREPARE found AS SELECT FROM recipients WHERE email_id = $1' });
    const plan = async () => {
      const rows = await session.query<{ 'QUERY PLAN': string }>({
        text: `EXPLAIN (ANALYZE) EXECUTE found('${newId()}')`,
      });
      return rows.map((row) => row['QUERY PLAN']).filter((line) => /Scan/.test(line) && !/never executed/.test(line));
    };
    t.match((await plan()).join(), /Index (Only )?Scan/, 'with the setting of nodes, even for an empty table');
    await session.query({ text: 'SET enable_seqscan = on' });
    await session.query({ text: 'DISCARD PLANS' });
    t.match((await plan()).join(), /Seq Scan/, 'without that setting');
    await scheduleMany(db, sender, { emails: 2_000, to: 'receiver.test', at: new Date() });
    t.match((await plan()).join(), /Seq Scan/, 'even when the table is no longer empty');
    await analyzeFresh(db, new Date());
    t.match((await plan()).join(), /Index (Only )?Scan/);
  });
});

t.test(
  'taking from a queue reads only what it takes, however empty it was when the statement was prepared',
  async (t) => {
    const { db, queue } = await openQueue(t);
    const within = async <T>(session: Sql, work: () => Promise<T>) => {
      await session.query({ text: 'BEGIN' });
      const result = await work();
      await session.query({ text: 'COMMIT' });
      return result;
    };
    await db.session(async (session) => {
      const job = (): Placed<DeliverJob> => ({
        ...{ id: newId(), emailIds: [newId()], destination: 'receiver.test', priority: 0 },
      });
      for (let time = 0; time < 10; time += 1) {
        await within(session, () => queue.enqueue(session, [job()]));
        await within(session, () => queue.take(session, 10, []));
      }
      const jobs = Array.from({ length: 5_000 }, job);
      await within(session, () => queue.enqueue(session, jobs));
      const [prepared] = await session.query<{ generic: number }>({
        text: `SELECT generic_plans::int AS generic FROM pg_prepared_statements WHERE name = 'remove-deliver'`,
      });
      t.ok((prepared?.generic ?? 0) > 0, 'the removal is prepared, and its plan kept');
      const rows = await within(session, async () => {
        t.equal((await queue.take(session, 10, [])).length, 10);
        return read(session, 'job_common');
      });
      t.ok(rows >= 10 && rows < 200, `${rows} rows`);
    });
  },
);

t.test(
  'loading calls reads only those calls, however many endpoints there are and whatever the statistics say',
  async (t) => {
    const db = await openDatabase(t);
    const account = await buildAccount(db);
    await db.query({
      text: `INSERT INTO webhooks (id, account_id, url, events, secret, status)
           SELECT gen_random_uuid(), $1, 'https://example.test/', '{email.sent}', '\\x00', 'enabled' FROM generate_series(1, 500)`,
      values: [account.id],
    });
    await db.query({
      text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, event, payload)
           SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7000' || '8' || substr(md5(id::text), 1, 15))::uuid,
                  account_id, id, 'email.sent', '{}' FROM webhooks`,
    });
    const ids = await db.query<{ id: string }>({ text: 'SELECT id FROM webhook_deliveries LIMIT 3' });
    await db.session(async (session) => {
      const load = () =>
        calls.load(
          session as unknown as Database,
          ids.map(({ id }) => id),
        );
      for (let time = 0; time < 10; time += 1) await load();
      await session.query({ text: 'BEGIN' });
      const before = await read(session, 'webhook%');
      t.equal((await load()).size, 3);
      const rows = (await read(session, 'webhook%')) - before;
      t.ok(rows >= 6 && rows < 20, `${rows} rows`);
      await session.query({ text: 'COMMIT' });
    });
  },
);

t.test(
  'keeping the answers of calls reads only those, however many keys the account has used since it was planned',
  async (t) => {
    const db = await openDatabase(t);
    const account = await buildAccount(db);
    await db.session(async (session) => {
      const call = async (key: string) => {
        await session.query({ text: 'BEGIN' });
        t.strictSame(await idempotency.take(session, account.id, [{ key, fingerprint: Buffer.alloc(32) }]), ['first']);
        const before = await read(session, 'idempotency_keys');
        await idempotency.keep(session, account.id, [{ key, response: { of: key } }], []);
        const rows = (await read(session, 'idempotency_keys')) - before;
        await session.query({ text: 'COMMIT' });
        return rows;
      };
      for (let time = 0; time < 10; time += 1) await call(`early-${time}`);
      await db.query({
        text: `INSERT INTO idempotency_keys (account_id, key, fingerprint, expires_at)
             SELECT $1, 'other-' || n, '', now() + interval '1 hour' FROM generate_series(1, 5000) n`,
        values: [account.id],
      });
      const rows = await call('late');
      t.ok(rows < 10, `${rows} rows`);
      const kept = await idempotency.answerTo(session, account.id, { key: 'late', fingerprint: Buffer.alloc(32) });
      t.strictSame(kept, { response: { of: 'late' } });
    });
  },
);

t.test('held mail is found among paused mail, however much that is and whatever the statistics say', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const found = async (accountId: string | null) => {
    const { where, values } = conditions({ ...anyTime, accountId, held: true });
    return db.transaction(async (tx) => {
      const before = await read(tx);
      const emails = await tx.query({ text: `SELECT id FROM emails WHERE ${where}`, values });
      return { emails: emails.length, rows: (await read(tx)) - before };
    });
  };
  const pause = (emails: number) => scheduleMany(db, sender, { emails, to: 'paused.test', at: pausedUntil });
  await pause(3_000);
  let held = 0;
  for (const [statistics, note] of [
    ['no', heldNote],
    ['new', crashedNote],
    ['old', heldNote],
  ]) {
    if (statistics === 'new') await db.query({ text: 'ANALYZE recipients' });
    if (statistics === 'old') await pause(3_000);
    await db.query({
      text: `UPDATE recipients SET waiting_for = $1
              WHERE email_id = (SELECT email_id FROM recipients WHERE waiting_for IS NULL LIMIT 1)`,
      values: [note],
    });
    held += 1;
    for (const accountId of [sender.account.id, null]) {
      const { emails, rows } = await found(accountId);
      t.equal(emails, held);
      t.ok(rows < 10, `${rows} rows, with ${statistics} statistics`);
    }
  }
});

t.test('scheduled mail is found among all that was ever scheduled, whatever the statistics say', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const hourMs = 3_600_000;
  const ago = (hours: number) => new Date(Date.now() - hours * hourMs);
  await scheduleMany(db, sender, { emails: 1, to: 'later.test', at: ago(-1) });
  // As if they had been accepted hours ago, and nearly all sent since.
  await db.query({
    text: `INSERT INTO emails (id, account_id, domain_id, type, "from", "to", cc, bcc, reply_to, subject, tags, from_address, from_domain,
                               recipient_addresses, message_id, status, pending, created_at, scheduled_at)
           SELECT ($1 || substr(uuidv7()::text, 14))::uuid, account_id, domain_id, type, "from", "to", cc, bcc, reply_to, subject, tags,
                  from_address, from_domain, recipient_addresses, n || '@x',
                  CASE WHEN n <= 3 THEN 'queued' ELSE 'sent' END::email_status, CASE WHEN n <= 3 THEN 1 ELSE 0 END, $2, $3 FROM emails, generate_series(1, 3000) n`,
    values: [floorId(ago(5)).slice(0, 13), ago(5), ago(4)],
  });
  // A few wait to be tried again.
  await db.query({
    text: `INSERT INTO recipients (account_id, email_id, position, kind, address, destination, status, attempts, next_attempt_at)
           SELECT account_id, id, 0, 'to', 'a@b.test', 'b.test', 'queued', 1, now() + interval '1 hour' FROM emails
            WHERE message_id IN ('1@x', '2@x', '3@x')`,
  });
  const filter = { ...anyTime, accountId: sender.account.id, scheduled: true };
  for (const statistics of ['no', 'new']) {
    if (statistics === 'new') await db.query({ text: 'ANALYZE emails' });
    await db.transaction(async (tx) => {
      const before = await read(tx, 'emails_%');
      const within = { ...db, ...tx, transaction: (work: (one: Sql) => unknown) => work(tx) } as Database;
      t.match(await log.list(within, filter, { limit: 50, offset: 0, cursor: null }), { count: 1, countExact: true });
      const rows = (await read(tx, 'emails_%')) - before;
      t.ok(rows < 10, `${rows} rows, with ${statistics} statistics`);
    });
  }
});

t.test('what is rare in the log is found without reading the rest, however many emails it seems to have', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await scheduleMany(db, sender, { emails: 3_000, to: 'receiver.test', at: new Date() });
  await db.query({
    text: `UPDATE emails SET tags = '{few}', subject = 'few' WHERE recipient_addresses[1] ~ '^r[1-9]?[0-9]@'`,
  });
  /** Searches in one transaction: how many emails it counted and read. */
  const search = (filter: Partial<Filter>) =>
    db.transaction(async (real) => {
      // Too late for that: what was read before is asked for first.
      const isTooLate = ({ text }: Statement) => text.startsWith('SET TRANSACTION ISOLATION LEVEL');
      const tx: Sql = { query: async (statement) => (isTooLate(statement) ? [] : real.query(statement)) };
      const before = await read(tx, 'emails_%');
      const within = { ...db, ...tx, transaction: (work: (one: Sql) => unknown) => work(tx) } as Database;
      const asked = { ...anyTime, ...filter, accountId: sender.account.id };
      const { count } = await log.list(within, asked, { limit: 50, offset: 0, cursor: null });
      return { count, rows: (await read(tx, 'emails_%')) - before };
    });
  const common = await search({ to: '@receiver.test', type: 'transactional' });
  t.ok(common.count === 1_000 && common.rows < 1_200, `${common.rows} rows for what is common, without statistics`);
  const rare = [
    [{ to: 'r77@receiver.test' }, 1, 10],
    [{ to: 'nobody@receiver.test' }, 0, 10],
    [{ tag: 'none', domain: sender.domain }, 0, 10],
    [{ tag: 'few', to: '@nowhere.test' }, 0, 300],
    [{ q: 'few', to: '@receiver.test' }, 99, 400],
    [{ q: 'scheduled', type: 'marketing' }, 0, 3_500],
  ] as const;
  await db.query({ text: 'ANALYZE emails' });
  for (const emails of ['3,000', 'a million']) {
    if (emails === 'a million')
      await db.query({
        text: `UPDATE pg_class SET reltuples = 1000000 WHERE relname ~ '^emails_[0-9]+$' AND reltuples > 0`,
      });
    for (const [filter, matching, most] of rare) {
      const { count, rows } = await search(filter);
      t.equal(count, matching);
      t.ok(rows < most, `${rows} rows for ${JSON.stringify(filter)}, as if there were ${emails} emails`);
    }
  }
});

t.test(
  'what the kept counts know of the log is read where it is, and nothing before, between or after it',
  async (t) => {
    const db = await openDatabase(t);
    const sender = await buildSender(db, Buffer.alloc(32));
    const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000);
    /** Emails that the account had accepted then. */
    const addThen = (then: Date, emails: number, type: string, status: string) =>
      db.query({
        text: `INSERT INTO emails (id, account_id, domain_id, type, status, "from", "to", cc, bcc, reply_to, subject, tags, from_address, from_domain,
                                 recipient_addresses, message_id, pending, created_at)
             SELECT id, $1, $2, $3::email_type, $4::email_status, $5, '{}', '{}', '{}', '{}', 's', '{}', $5, $6, '{}', id, 0, $7
               FROM unnest($8::uuid[]) id`,
        values: [
          ...[sender.account.id, sender.domainId, type, status, sender.from, sender.domain, then],
          Array.from({ length: emails }, () => newId(then)),
        ],
      });
    await addThen(hoursAgo(1), 1_000, 'transactional', 'sent');
    await addThen(hoursAgo(48), 3, 'marketing', 'queued');
    await addThen(hoursAgo(72), 1_000, 'transactional', 'sent');
    await addThen(hoursAgo(96), 2, 'marketing', 'queued');
    await addThen(hoursAgo(120), 1_000, 'transactional', 'sent');
    for (const statistics of ['no', 'fresh']) {
      if (statistics === 'fresh') await db.query({ text: 'ANALYZE emails' });
      for (const filter of [
        { type: 'marketing' },
        { status: 'queued' },
        { domain: sender.domain, type: 'marketing' },
      ] satisfies Partial<Filter>[])
        for (const page of [
          { limit: 50, offset: 0, cursor: null },
          { limit: 2, offset: 0, cursor: null },
          { limit: 50, offset: 4, cursor: null },
          { limit: 50, offset: 0, cursor: newId(hoursAgo(48)) },
        ]) {
          const { ids, rows } = await db.transaction(async (tx) => {
            const before = await read(tx, 'emails_%');
            const within = { ...db, ...tx, transaction: (work: (one: Sql) => unknown) => work(tx) } as Database;
            const { ids } = await search(within, { ...anyTime, ...filter, accountId: sender.account.id }, page);
            return { ids, rows: (await read(tx, 'emails_%')) - before };
          });
          const asked = `${JSON.stringify({ ...filter, ...page })}, ${statistics} statistics`;
          t.equal(ids.length, Math.min(page.limit, 5 - page.offset), asked);
          t.ok(rows <= 10, `${rows} rows for ${asked}`);
        }
    }
  },
);

t.test('statistics read only what was accepted in their time, whatever the planner knows of the rest', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await scheduleMany(db, sender, { emails: 10, to: 'receiver.test', at: new Date() });
  const ago = (hours: number) => new Date(Date.now() - hours * 3_600_000);
  await db.query({
    text: `INSERT INTO recipients (account_id, email_id, position, kind, address, destination, status)
           SELECT $1, ($2 || substr(uuidv7()::text, 14))::uuid, 0, 'to', 'a@b.test', 'b.test', 'failed' FROM generate_series(1, 3000)`,
    values: [sender.account.id, floorId(ago(5)).slice(0, 13)],
  });
  await db.query({
    text: `INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, mx_host, phase, outcome, reason)
           SELECT email_id, gen_random_uuid(), address, 1, now(), 1, 'mx.b.test', 'dot', 'deferred', 'later' FROM recipients`,
  });
  for (const statistics of ['no', 'new']) {
    if (statistics === 'new') await db.query({ text: 'ANALYZE' });
    for (const groupBy of [null, 'provider'] as const)
      await db.transaction(async (tx) => {
        const before = [await read(tx), await read(tx, 'attempts_%')];
        const query = { from: ago(1), to: ago(-1), until: ago(-1), interval: 'hour', groupBy } as const;
        const { buckets } = await new Statistics({ ...db, ...tx }, newTurns(), (_, host) => host).collect(
          sender.account.id,
          query,
          '',
        );
        t.equal(
          buckets.reduce((sum, { pending }) => sum + pending, 0),
          10,
        );
        const rows = [(await read(tx)) - (before[0] ?? 0), (await read(tx, 'attempts_%')) - (before[1] ?? 0)];
        // In a week that has just begun, each of the few is looked for among all of them.
        t.ok(Math.max(...rows) < 1_000, `${rows} recipients and attempts by ${groupBy}, with ${statistics} statistics`);
      });
  }
});
