import t from 'tap';
import { Statistics, type Stats, type StatsQuery } from '../../src/core/log/stats.ts';
import { Buckets } from '../../src/core/log/stats-buckets.ts';
import { type Counted, mostGroups } from '../../src/core/log/stats-statement.ts';
import type { Database, Sql, Statement } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { AccountTurns } from '../../src/pace/account-turns.ts';
import { buildSender } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { eventually } from '../support/node.ts';
import { scheduleMany } from '../support/scheduled.ts';
import { newTurns } from '../support/turns.ts';

const hourMs = 3_600_000;

/** Emails that were accepted at this time, each with an attempt that was deferred, and then delivered. */
async function addEmails(
  db: Database,
  sender: { account: { id: string }; domainId: string },
  { at, count, label, everyMs = 1 }: { at: Date; count: number; label: number; everyMs?: number },
): Promise<void> {
  await db.query({
    text: `WITH ids AS (SELECT id, n::int FROM unnest($1::uuid[]) WITH ORDINALITY AS one (id, n)),
                added AS (
           INSERT INTO emails (id, account_id, domain_id, status, "from", "to", cc, bcc, reply_to, subject, tags, from_address, from_domain,
                               recipient_addresses, message_id, pending, created_at)
           SELECT id, $2, $3, 'sent', 'a@b.test', '{}', '{}', '{}', '{}', 's', ARRAY['t' || n % 3, 'day' || $4], 'a@b.test', 'b.test', '{}', id, 0,
                  $5::timestamptz FROM ids),
                attempted AS (
           INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, mx_host, phase, outcome, reason)
           SELECT id, id, n || '@d' || n % 2 || '.test', 1, $5::timestamptz, 1, 'mx' || $4 || '.test', 'dot', 'deferred', 'later' FROM ids)
           INSERT INTO recipients (account_id, email_id, position, kind, address, destination, status, settled_at)
           SELECT $2, id, 0, 'to', n || '@d' || n % 2 || '.test', 'd' || n % 2 || '.test', 'delivered',
                  $5::timestamptz + n * $6 * interval '1 ms' FROM ids`,
    values: [
      Array.from({ length: count }, () => newId(at)),
      ...[sender.account.id, sender.domainId, `${label}`, at.toISOString(), everyMs],
    ],
  });
}

const statisticsOf = (db: Database, atOnce?: number, turns = newTurns()) =>
  new Statistics(db, turns, (_, host) => host, atOnce);

/** The same database, which does this before each statement that counts. */
const whenCounting = (db: Database, before: () => unknown): Database => ({
  ...db,
  query: async (statement) => {
    if (statement.text.includes('chosen AS')) await before();
    return db.query(statement);
  },
});

/** An account with ten emails in each of two hours, and a query for them. */
async function openTwoHours(t: Parameters<typeof openDatabase>[0]) {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const hour = Math.floor(Date.now() / hourMs) * hourMs - 3 * hourMs;
  for (const n of [0, 1]) await addEmails(db, sender, { at: new Date(hour + n * hourMs), count: 10, label: n });
  const until = new Date(hour + 2 * hourMs);
  const query: StatsQuery = { from: new Date(hour), to: until, until, interval: 'hour', groupBy: null };
  return { db, sender, hour, query };
}

t.test('the statistics of an account with much mail are counted some days at a time, and are the same', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const noon = Math.floor(Date.now() / 86_400_000) * 86_400_000 - 43_200_000;
  const days = [4, 3, 2, 1, 0].map((ago) => new Date(noon - ago * 86_400_000));
  for (const [index, day] of days.entries()) await addEmails(db, sender, { at: day, count: 20, label: index });
  const [from, to] = [new Date(noon - 6 * 86_400_000 + 1), new Date(noon + 3_600_000)];
  for (const groupBy of [null, 'tag', 'type', 'destination', 'provider'] as const) {
    const counted: number[] = [];
    const noting = {
      ...db,
      query: async <Row>(statement: Statement) => {
        const rows = await db.query<Row & { accepted?: number }>(statement);
        const emails = rows.reduce((sum, { accepted = 0 }) => sum + accepted, 0);
        if (/accepted AS/.test(statement.text)) counted.push(emails / (groupBy === 'tag' ? 2 : 1));
        return rows;
      },
    };
    const asked = { from, to, until: to, interval: 'day', groupBy } as const;
    const whole = await statisticsOf(noting).collect(sender.account.id, asked, '');
    t.strictSame(counted.splice(0), [100], 'few are counted at once');
    t.strictSame(await statisticsOf(noting, 30).collect(sender.account.id, asked, ''), whole, `by ${groupBy}`);
    t.strictSame(counted, [40, 40, 20], `emails of each statement, by ${groupBy}`);
  }
  // More groups than are listed: the largest of all are not the largest of each day.
  await db.query({
    text: `UPDATE emails SET tags = ARRAY(SELECT id || '-' || n FROM generate_series(1, 25) n) || '{all}'`,
  });
  await db.query({
    text: `INSERT INTO recipients (account_id, email_id, position, kind, address, destination, status, settled_at)
           SELECT account_id, email_id, n, 'to', 'a@' || email_id || '-' || n || '.test', email_id || '-' || n || '.test', 'delivered', settled_at
             FROM recipients, generate_series(1, 25) n`,
  });
  for (const groupBy of ['tag', 'destination', 'provider'] as const) {
    const ranges = new Set<string>();
    const noting = (sql: Sql): Sql => ({
      query: (statement) => {
        if (/FROM emails/.test(statement.text)) ranges.add(String(statement.values?.slice(1, 3)));
        return sql.query(statement);
      },
    });
    const noted: Database = { ...db, ...noting(db), session: (work) => db.session((session) => work(noting(session))) };
    const asked = { from, to, until: to, interval: 'day', groupBy } as const;
    const whole = await statisticsOf(noted).collect(sender.account.id, asked, '');
    t.strictSame([(whole.groupCount ?? 0) > mostGroups, ranges.size], [true, 1]);
    ranges.clear();
    t.strictSame(await statisticsOf(noted, 30).collect(sender.account.id, asked, ''), whole, `by ${groupBy}`);
    t.equal(ranges.size, 3, `no statement reads more than a part, by ${groupBy}`);
    await db.query({
      text: `DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()); END $$`,
    });
    const restricted: Database = {
      ...db,
      session: (work) =>
        db.session(async (session) => {
          await session.query({ text: 'SET ROLE pg_read_all_data' });
          return work(session);
        }),
    };
    t.strictSame(
      await statisticsOf(restricted, 30).collect(sender.account.id, asked, ''),
      whole,
      `a role that may make no temporary tables, by ${groupBy}`,
    );
  }
});

t.test('the statistics of many groups are put together without comparing each group with each', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await scheduleMany(db, sender, { emails: 10, to: 'receiver.test', at: new Date() });
  await db.query({
    text: `UPDATE emails SET tags = ARRAY(SELECT emails.id || '-' || n FROM generate_series(1, 200) n)`,
  });
  let compared = 0;
  const explaining = {
    ...db,
    query: async <Row>(statement: Statement) => {
      const plan = await db.query({ ...statement, text: `EXPLAIN (ANALYZE, FORMAT JSON) ${statement.text}` });
      for (const [, rows] of JSON.stringify(plan).matchAll(/"Rows Removed by (?:Join )?Filter":(\d+)/g))
        compared += Number(rows);
      return db.query<Row>(statement);
    },
  };
  const hour = 3_600_000;
  const query = {
    from: new Date(Date.now() - hour),
    to: new Date(Date.now() + hour),
    until: new Date(Date.now() + hour),
    interval: 'day',
    groupBy: 'tag',
  } as const;
  const { buckets, groupCount } = await statisticsOf(explaining).collect(sender.account.id, query, '');
  t.strictSame([buckets.length, groupCount], [mostGroups, 2_000]);
  t.ok(buckets.every(({ accepted, pending }) => accepted === 1 && pending === 1));
  t.ok(compared < 2_000, `${compared} rows were looked at in vain`);
});

t.test('a day with much mail is counted some hours at a time, and its figures are the same', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const midnight = Math.floor(Date.now() / 86_400_000) * 86_400_000 - 86_400_000;
  // Others were fast, or slow, at other hours: what stands in the middle shows only if all are put together.
  for (const [hour, everyMs] of [
    [1, 1],
    [2, 50],
    [5, 997],
    [23, 60_000],
  ] as const)
    await addEmails(db, sender, { at: new Date(midnight + hour * hourMs + 1), count: 20, label: hour, everyMs });
  const until = new Date(midnight + 86_400_000);
  for (const groupBy of [null, 'tag', 'destination', 'provider'] as const) {
    const query = { from: new Date(midnight - 5 * hourMs), to: until, until, interval: 'day', groupBy } as const;
    let statements = 0;
    const noting = whenCounting(db, () => {
      statements += 1;
    });
    const whole = await statisticsOf(noting).collect(sender.account.id, query, '');
    t.equal(statements, 1);
    t.strictSame(await statisticsOf(noting, 20).collect(sender.account.id, query, ''), whole, `by ${groupBy}`);
    t.equal(statements, 1 + 4, 'each hour that has mail by itself');
    if (groupBy === null)
      t.match(whole.buckets, [
        {
          ...{ start: new Date(midnight), accepted: 80, delivered: 80, deferrals: 80 },
          // As if all 80 stood in one row: between the third hour's first and the second's last, and two of the last hour.
          latencyMs: { p50: 999, p95: 963_000, p99: 1_152_600 },
        },
      ]);
  }
});

t.test('statistics of much mail are counted once for all who ask, and then not again at once', async (t) => {
  const { db, sender, hour, query } = await openTwoHours(t);
  let statements = 0;
  const gate = Promise.withResolvers<void>();
  const noting = whenCounting(db, () => {
    statements += 1;
    return gate.promise;
  });
  const queryUntil = (until: Date): StatsQuery => ({ ...query, to: until, until });
  const later = queryUntil(new Date(query.until.getTime() + 1));
  const accepted = ({ buckets }: Stats) => buckets.map((bucket) => bucket.accepted);
  const large = statisticsOf(noting, 10);
  const asked = [query, later].map((query) => large.collect(sender.account.id, query, 'the last hours'));
  const other = large.collect(sender.account.id, later, 'by something else');
  setTimeout(gate.resolve, 500);
  const [first, second] = await Promise.all(asked);
  t.strictSame([first && accepted(first), second], [[10, 10], first], 'who asks meanwhile gets the same');
  t.strictSame(accepted(await other), [10, 10]);
  t.equal(statements, 2 + 2, 'two for each question');
  await addEmails(db, sender, { at: new Date(hour), count: 1, label: 2 });
  const third = await large.collect(sender.account.id, queryUntil(new Date()), 'the last hours');
  t.strictSame([third.query, accepted(third)], [first?.query, [10, 10]], 'it says until when it was counted');
  t.equal(statements, 4);
  const stranger = await buildSender(db, Buffer.alloc(32));
  t.strictSame(accepted(await large.collect(stranger.account.id, later, 'the last hours')), []);
  const small = statisticsOf(db, 100);
  for (const count of [12, 13]) {
    await addEmails(db, sender, { at: new Date(hour), count: 1, label: 3 });
    t.strictSame(
      accepted(await small.collect(sender.account.id, later, 'the last hours')),
      [count, 10],
      'few are counted anew',
    );
  }
});

t.test('between two statements of statistics the account may read something else', async (t) => {
  const { db, sender, query } = await openTwoHours(t);
  const turns = new AccountTurns({ most: 1, mostOfAccount: 1, mostWaiting: 1, patienceMs: 10_000 });
  const order: string[] = [];
  const noting = whenCounting(db, () => {
    if (order.length === 0) void turns.take(sender.account.id, async () => order.push('another read'));
    order.push('a part');
  });
  await statisticsOf(noting, 10, turns).collect(sender.account.id, query, '');
  t.strictSame(order, ['a part', 'another read', 'a part']);
});

t.test(
  'of one account, statistics of much mail are counted one after the other, and no more than some wait',
  async (t) => {
    const { db, sender, query } = await openTwoHours(t);
    const counting = { now: 0, most: 0 };
    const gate = Promise.withResolvers<void>();
    const noting: Database = {
      ...db,
      query: async <Row>(statement: Statement) => {
        if (!statement.text.includes('chosen AS')) return db.query<Row>(statement);
        counting.now += 1;
        counting.most = Math.max(counting.most, counting.now);
        await gate.promise;
        return db.query<Row>(statement).finally(() => {
          counting.now -= 1;
        });
      },
    };
    const statistics = statisticsOf(noting, 10);
    const asked = Array.from({ length: 13 }, (_, n) => statistics.collect(sender.account.id, query, `question ${n}`));
    const refused: { status?: number }[] = [];
    for (const one of asked) one.catch((error) => refused.push(error));
    await eventually(async () => refused.length === 2);
    gate.resolve();
    await Promise.allSettled(asked);
    t.equal(counting.most, 1);
    t.match(refused, [{ status: 503 }, { status: 503 }], 'of thirteen, one is counted and ten wait');
    t.equal(refused.length, 2);
  },
);

t.test('statistics of much mail that wait for their turn are not counted once all who asked have gone', async (t) => {
  const { db, sender, query } = await openTwoHours(t);
  const gate = Promise.withResolvers<void>();
  let statements = 0;
  const noting = whenCounting(db, () => {
    statements += 1;
    return gate.promise;
  });
  const statistics = statisticsOf(noting, 10);
  let hasLeft = false;
  const ask = (asked: string) => statistics.collect(sender.account.id, query, asked, () => hasLeft);
  const running = ask('one question');
  const waiting = ask('another');
  waiting.catch(() => undefined);
  await eventually(async () => statements === 1);
  hasLeft = true;
  gate.resolve();
  t.equal((await running).buckets.length, 2, 'what has begun ends: it is kept for who asks again');
  await t.rejects(waiting, { message: 'client gone' });
  t.equal(statements, 2, 'two parts of the first question');
});

t.test('what several statements count of one stretch is added up, class by class and latency by latency', (t) => {
  const start = new Date(0);
  const nothing: Counted = {
    ...{ start, group: '', accepted: 1, suppressed: 0, complaints: 0, delivered: null, pending: null, failed: null },
    ...{ latencies: null, classes: null, deferrals: null, groups: 1 },
  };
  const added = (rows: Partial<Counted>[], isGrouped = false) => {
    const buckets = new Buckets(isGrouped);
    for (const row of rows) buckets.add([{ ...nothing, ...row }]);
    return buckets.end();
  };
  const none = { suppressed: 0, complaints: 0, delivered: 0, pending: 0, failed: 0, deferrals: 0 };
  t.strictSame(added([{}]), [{ start, group: null, accepted: 1, ...none, failedByClass: {}, latencyMs: null }]);
  const counts = { suppressed: 2, complaints: 3, delivered: 5, pending: 7, failed: 11, deferrals: 13 };
  const more = { suppressed: 20, complaints: 30, delivered: 50, pending: 70, failed: 110, deferrals: 130 };
  t.match(
    added([{ ...counts, classes: { mailbox: 4, other: 7 } }, {}, { ...more, classes: { mailbox: 100, policy: 10 } }]),
    [
      {
        ...{ accepted: 3, suppressed: 22, complaints: 33, delivered: 55, pending: 77, failed: 121, deferrals: 143 },
        failedByClass: { mailbox: 104, other: 7, policy: 10 },
      },
    ],
  );
  const later = new Date(1);
  t.match(
    added(
      [{ group: 'b' }, { group: 'c' }, { group: 'a', failed: 1 }, { group: 'b' }, { group: 'b', start: later }],
      true,
    ),
    [
      { start, group: 'a', accepted: 1, failed: 1 },
      { start, group: 'b', accepted: 2, failed: 0 },
      { start, group: 'c', accepted: 1 },
      { start: later, group: 'b', accepted: 1 },
    ],
    'of a later stretch nothing is added to an earlier one',
  );
  const latencyOf = (...latencies: Record<string, number>[]) =>
    added(latencies.map((one) => ({ latencies: one })))[0]?.latencyMs;
  t.strictSame(latencyOf({ 7: 1 }), { p50: 7, p95: 7, p99: 7 });
  t.strictSame(latencyOf({ 0: 2 }), { p50: 0, p95: 0, p99: 0 });
  // Of 7, 9, 9, 9, 9, 1000 and 1000 the middle is the fourth, and the others are between equal ones.
  t.strictSame(latencyOf({ 1000: 1, 9: 2 }, { 9: 2, 7: 1, 1000: 1 }), { p50: 9, p95: 1_000, p99: 1_000 });
  t.strictSame(latencyOf({ 30: 1 }, { 10: 3 }), { p50: 10, p95: 27, p99: 29 });
  t.strictSame(latencyOf({ 1000: 1 }, { 10: 3 }, { 2000: 3 }), { p50: 1_000, p95: 2_000, p99: 2_000 });
  t.end();
});

t.test(
  'the largest of too many groups are the same if they are too many in one part, or in all together',
  async (t) => {
    const db = await openDatabase(t);
    const [sender, stranger] = [await buildSender(db, Buffer.alloc(32)), await buildSender(db, Buffer.alloc(32))];
    const second = new Date(Math.floor(Date.now() / hourMs) * hourMs - hourMs);
    const first = new Date(second.getTime() - hourMs);
    for (const at of [first, second])
      for (const one of [sender, stranger]) await addEmails(db, one, { at, count: 10, label: 0 });
    const until = new Date(second.getTime() + hourMs);
    const query = { from: first, to: until, until, interval: 'hour', groupBy: 'tag' } as const;
    for (const [inFirst, inSecond] of [
      [60, 60],
      [120, 0],
      [0, 120],
    ] as const) {
      await db.query({
        text: `UPDATE emails SET tags = '{all}' || ARRAY(
               SELECT emails.id || '-' || n FROM generate_series(1, CASE WHEN created_at < $1 THEN $2::int ELSE $3::int END) n)`,
        values: [second, inFirst, inSecond],
      });
      const [whole, inParts] = await Promise.all(
        [100, 10].map((atOnce) => statisticsOf(db, atOnce).collect(sender.account.id, query, '')),
      );
      t.equal(whole?.groupCount, 1 + 10 * (inFirst + inSecond));
      t.strictSame(inParts, whole, `${inFirst} and ${inSecond} of each email`);
    }
  },
);

t.test('how long delivery took is rounded to three digits', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const at = new Date(Date.now() - hourMs);
  const rounded = { 999: 999, 1004: 1_000, 9995: 10_000, 12345: 12_300, 99950: 100_000, 123456789: 123_000_000 };
  for (const ms of Object.keys(rounded))
    await addEmails(db, sender, { at, count: 1, label: Number(ms), everyMs: Number(ms) });
  const query = { from: at, to: new Date(), until: new Date(), interval: 'day', groupBy: 'tag' } as const;
  const { buckets } = await statisticsOf(db).collect(sender.account.id, query, '');
  const latencyOf = new Map(buckets.map(({ group, latencyMs }) => [group, latencyMs?.p50]));
  for (const [ms, expected] of Object.entries(rounded)) t.equal(latencyOf.get(`day${ms}`), expected);
});
