import t from 'tap';
import { claim, load, plan, settle } from '../../src/core/tls/tls-reports.ts';
import { forgetOld } from '../../src/core/tls/tls-results.ts';
import { connect, type Sql } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';
import { createDatabase, openDatabase } from '../support/db.ts';

t.test('reports from days of results', async (t) => {
  const db = connect(await createDatabase(), silentLog, 10);
  t.teardown(() => db.close());
  const now = new Date('2026-11-22T06:00:00Z');
  await db.query({
    text: `INSERT INTO tls_results (day, domain, policy_type, policy, mx, result, host, address, local_address, reason, sessions, kind)
           SELECT '2026-11-21', 'd' || d || '.test', 'sts', ARRAY['p' || p], '{}', CASE WHEN f = 0 THEN 'success' ELSE 'validation-failure' END,
                  'mx' || f || '.test', '', '', '', CASE WHEN f = 250 THEN 1000 ELSE 2 END, decode(lpad(to_hex(p * 1000 + f), 8, '0'), 'hex')
             FROM generate_series(1, 100) d, generate_series(0, CASE WHEN d = 1 THEN 24 ELSE 0 END) p, generate_series(0, CASE WHEN d = 1 AND p = 7 THEN 250 ELSE 1 END) f`,
  });

  await t.test('reports start at times spread over the given period, once', async (t) => {
    const fourHours = 4 * 3_600_000;
    await Promise.all([plan(db, fourHours, now), plan(db, fourHours, now)]);
    await plan(db, fourHours, now);
    const rows = await db.query<{ at: Date }>({ text: 'SELECT next_try_at AS at FROM tls_reports ORDER BY 1' });
    t.equal(rows.length, 100);
    const minutes = rows.map(({ at }) => (at.getTime() - now.getTime()) / 60_000);
    t.ok(minutes.every((each) => each >= 0 && each <= 240));
    t.ok((minutes[50] ?? 0) > 60 && (minutes[50] ?? 0) < 180, `half of them by minute ${minutes[50]}`);
  });

  await t.test('a task belongs to one node, and an expired claim changes nothing', async (t) => {
    const later = new Date(now.getTime() + 5 * 3_600_000);
    await db.query({
      text: `INSERT INTO tls_reports (day, domain, uri, next_try_at) SELECT '2026-11-20', domain, '', '2027-01-01' FROM tls_reports`,
    });
    const claims = await db.transaction(async (tx) => {
      const first = await claim({ ...db, ...tx }, 'look-up', 10, later);
      const meanwhile = await claim(db, 'look-up', 10, later);
      t.strictSame([first.length, meanwhile.length], [10, 10], 'no node waits for another');
      return [...first, ...meanwhile];
    });
    claims.push(...(await Promise.all(Array.from({ length: 10 }, () => claim(db, 'look-up', 30, later)))).flat());
    t.equal(new Set(claims.map(({ domain }) => domain)).size, claims.length, 'nothing is claimed twice');
    claims.push(...(await claim(db, 'look-up', 1_000, later)));
    t.equal(claims.length, 100);
    const lost = claims.find(({ domain }) => domain === 'd1.test');
    const muchLater = new Date(later.getTime() + 3_600_000);
    const held = (await claim(db, 'look-up', 1_000, muchLater)).find(({ domain }) => domain === 'd1.test');
    if (!lost || !held) return t.fail('nothing was claimed');
    t.match([lost.tries, held.tries], [1, 2]);
    t.same(held.firstTryAt, later);
    const done = (of: typeof held, uri: string) => ({
      claim: of,
      state: 'done' as const,
      nextTryAt: null,
      error: null,
      uris: [uri, `${uri}other`],
    });
    await settle(db, [done(lost, 'https://lost.test/')], muchLater);
    await settle(db, [done(held, 'https://held.test/')], muchLater);
    await settle(db, [done(held, 'https://twice.test/')], muchLater);
    const sending = await claim(db, 'sending', 10, muchLater);
    const wanted = { ...held, tries: 1, firstTryAt: muchLater };
    const byUri = (one: { uri: string }, other: { uri: string }) => (one.uri < other.uri ? -1 : 1);
    t.same(sending.toSorted(byUri), [
      { ...wanted, uri: 'https://held.test/' },
      { ...wanted, uri: 'https://held.test/other' },
    ]);
    await settle(db, [{ ...done(sending[0] as typeof held, ''), uris: [] }], muchLater);
    const again = await claim(db, 'sending', 10, new Date(muchLater.getTime() + 3_600_000));
    t.match(again, [{ uri: sending[1]?.uri }], 'what is sent to one address is still to be sent to the other');
    t.equal(again.length, 1);
  });

  await t.test('a report is bounded, but its sums are exact', async (t) => {
    const reports = [
      { day: '2026-11-21', domain: 'd1.test' },
      { day: '2026-11-21', domain: 'd2.test' },
    ];
    await db.query({
      text: `INSERT INTO tls_results SELECT day - 1, domain, policy_type, policy, mx, result, host, address, local_address, reason, sessions, kind
               FROM tls_results WHERE domain = 'd2.test'`,
    });
    const policiesOf = await load(db, [...reports, ...reports]);
    const [first, second] = reports.map(policiesOf);
    t.equal(first?.length, 20, 'of 25 policies');
    t.match(first?.[0], { type: 'sts', lines: ['p7'], successful: 2, failed: 249 * 2 + 1_000 });
    t.equal(first?.[0]?.failures.length, 200, 'of 250 failures');
    t.match(first?.[0]?.failures[0], { host: 'mx250.test', sessions: 1_000 }, 'those with the most sessions');
    t.match(second, [{ lines: ['p0'], successful: 2, failed: 2, failures: [{ host: 'mx1.test' }] }]);
    t.same(policiesOf({ day: '2026-11-20', domain: 'd1.test' }), []);
  });
});

t.test('old results are deleted in batches, and their reports only after that', async (t) => {
  const db = await openDatabase(t);
  await db.query({
    text: `INSERT INTO tls_results (day, domain, policy_type, policy, mx, result, host, address, local_address, reason, sessions, kind)
           SELECT day::date, 'd' || d || '.test', 'sts', '{}', '{}', 'success', '', '', '', '', 1, 'kind'
             FROM (VALUES ('2026-11-07', 6000), ('2026-11-08', 1)) AS days (day, domains), generate_series(1, domains) d`,
  });
  const now = new Date('2026-11-22T06:00:00Z');
  const day = 86_400_000;
  await plan(db, 0, new Date(now.getTime() - day));
  const count = async (table: string) =>
    (await db.query<{ rows: number }>({ text: `SELECT count(*)::int AS rows FROM ${table}` }))[0]?.rows;
  t.equal(await count('tls_reports'), 6_001);

  const stop = new AbortController();
  const once: Sql = { query: (statement) => db.query<never>(statement).finally(() => stop.abort()) };
  await forgetOld(once, now, stop.signal);
  t.strictSame([await count('tls_results'), await count('tls_reports')], [1_001, 6_001]);
  await plan(db, 0, new Date(now.getTime() - day));
  t.equal(await count('tls_reports'), 6_001, 'a node whose clock is behind plans no report twice');
  await forgetOld(db, now);
  t.strictSame([await count('tls_results'), await count('tls_reports')], [1, 1]);
});
