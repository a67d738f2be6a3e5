import t from 'tap';
import { forgetExpired, KnownPolicies } from '../../src/core/tls/tls-policies.ts';
import { forgetOld, record } from '../../src/core/tls/tls-results.ts';
import type { Database } from '../../src/db/client.ts';
import { Connection } from '../../src/smtp/connections/connection.ts';
import type { StsPolicy } from '../../src/smtp/policies/mta-sts.ts';
import type { PublishedPolicy } from '../../src/smtp/policies/tls-policies.ts';
import { TlsResults } from '../../src/smtp/reports/tls-results.ts';
import { openDatabase } from '../support/db.ts';

const policy = (id: string, fetchedAt = new Date(), fields: Partial<StsPolicy> = {}): StsPolicy => ({
  id,
  mode: 'enforce',
  mx: ['mx.a.test', '*.b.test'],
  maxAgeSeconds: 1_000,
  fetchedAt,
  ...fields,
});

t.test('a policy is known to every node until it expires', async (t) => {
  const db = await openDatabase(t);
  const [one, other] = [new KnownPolicies(db), new KnownPolicies(db)];
  const saved = policy('1', new Date(Date.now() - 60_000));
  await one.save('a.test', saved);
  t.same(await other.load('a.test'), saved);
  t.equal(await other.load('b.test'), null);

  await other.save('a.test', policy('2', new Date(saved.fetchedAt.getTime() + 5)));
  await one.save('a.test', policy('0', new Date(saved.fetchedAt.getTime() - 5)));
  t.match(await one.load('a.test'), { id: '2' }, 'the policy that was fetched last stays');

  const ahead = new Date(Date.now() + 86_400_000);
  await one.save('ahead.test', policy('1', ahead));
  await one.save('ahead.test', policy('2'));
  t.match(await one.load('ahead.test'), { id: '2' }, 'unless a clock that was ahead had told its time');
  await db.query({ text: `DELETE FROM tls_policies WHERE domain = 'ahead.test'` });

  await one.save('old.test', policy('1', new Date(Date.now() - 1_001_000)));
  t.equal(await one.load('old.test'), null);
  await forgetExpired(db);
  const rows = await db.query<{ domain: string }>({ text: 'SELECT domain FROM tls_policies' });
  t.same(rows, [{ domain: 'a.test' }]);
});

t.test('simultaneous look-ups share a statement, and fail together', async (t) => {
  const db = await openDatabase(t);
  await new KnownPolicies(db).save('d7.test', policy('7'));
  let statements = 0;
  const counting = new KnownPolicies({
    ...db,
    query: (statement) => {
      statements += 1;
      return db.query(statement);
    },
  });
  const found = await Promise.all(Array.from({ length: 100 }, (_, at) => counting.load(`d${at}.test`)));
  t.same(
    found.flatMap((each, at) => (each ? [at] : [])),
    [7],
  );
  t.equal(statements, 1);
  const away = new KnownPolicies({ ...db, query: () => Promise.reject(new Error('away')) });
  await t.rejects(Promise.all([away.load('a.test'), away.load('b.test')]), { message: 'away' });
});

const published: PublishedPolicy = {
  type: 'sts',
  domain: 'a.test',
  lines: ['version: STSv1', 'mode: enforce'],
  mx: ['mx.a.test'],
  rule: null,
  problem: null,
};
const stranger = { failure: 'validation-failure', reason: 'is a stranger' } as const;

t.test('results of sessions are summed by day, whichever node counted them', async (t) => {
  const db = await openDatabase(t);
  const at = new Date('2026-11-21T23:59:59Z');
  for (const node of [new TlsResults(), new TlsResults()]) {
    const connection = new Connection({ host: 'mx.a.test', address: '192.0.2.1', port: 25 });
    node.session(published, connection, null);
    node.host(published, 'evil.test', stranger);
    node.host(published, 'evil.test', { ...stranger, reason: 'is still a stranger' });
    await record(db, node, at);
    await record(db, node, at);
  }
  const late = new TlsResults();
  late.host(published, 'evil.test', stranger);
  await record(db, late, new Date('2026-11-22T00:00:00Z'));
  const rows = await db.query({
    text: `SELECT day::text, policy_type, policy, mx, result, host, address, reason, sessions FROM tls_results
            WHERE domain = 'a.test' ORDER BY day, host`,
  });
  const common = { policy_type: 'sts', policy: published.lines, mx: published.mx };
  const evil = {
    ...common,
    result: 'validation-failure',
    host: 'evil.test',
    address: '',
    reason: 'is still a stranger',
  };
  const clear = { ...common, result: 'starttls-not-supported', host: 'mx.a.test', address: '192.0.2.1' };
  t.same(rows, [
    { day: '2026-11-21', ...evil, sessions: 4 },
    { day: '2026-11-21', ...clear, reason: 'does not offer TLS (STARTTLS)', sessions: 2 },
    { day: '2026-11-22', ...evil, reason: 'is a stranger', sessions: 1 },
  ]);
  await forgetOld(db, new Date('2026-12-06T12:00:00Z'));
  t.equal((await db.query({ text: 'SELECT 1 FROM tls_results' })).length, 1);
});

t.test('results that could not be written are not lost', async (t) => {
  const db = await openDatabase(t);
  const results = new TlsResults();
  results.host(published, 'evil.test', stranger);
  const away: Database = { ...db, transaction: () => Promise.reject(new Error('away')) };
  await t.rejects(record(away, results), { message: 'away' });
  results.host(published, 'evil.test', stranger);
  t.match(results.take(), [{ sessions: 2 }]);
});

t.test(
  'results written without an answer count once, whether they were committed, are about to be or were not',
  async (t) => {
    const db = await openDatabase(t);
    const results = new TlsResults();
    const sum = async () =>
      (await db.query({ text: 'SELECT coalesce(sum(sessions), 0)::int AS sessions FROM tls_results' }))[0];
    const lost = () => {
      throw new Error('Connection terminated unexpectedly');
    };
    results.host(published, 'evil.test', stranger);
    const committed: Database = { ...db, transaction: (work) => db.transaction(work).then(lost) };
    await t.rejects(record(committed, results), { message: /terminated/ });
    await record(db, results);
    t.same(await sum(), { sessions: 1 }, 'it was committed');

    results.host(published, 'evil.test', stranger);
    const rolledBack: Database = { ...db, transaction: (work) => db.transaction((tx) => work(tx).then(lost)) };
    await t.rejects(record(rolledBack, results), { message: /terminated/ });
    await record(db, results);
    t.same(await sum(), { sessions: 2 }, 'it was not');

    results.host(published, 'evil.test', stranger);
    const written = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    let ending: Promise<unknown> = Promise.resolve();
    const slow: Database = {
      ...db,
      transaction: (work) => {
        ending = db.transaction(async (tx) => {
          await work(tx);
          written.resolve();
          await gate.promise;
        });
        return written.promise.then(lost);
      },
    };
    await t.rejects(record(slow, results), { message: /terminated/ });
    await record(db, results);
    t.same(await sum(), { sessions: 2 }, 'the server is still committing');
    gate.resolve();
    await ending;
    await record(db, results);
    t.same(await sum(), { sessions: 3 });
    t.same(results.take(), []);
  },
);

t.test('the longest policies are counted as fast as any, and written a few megabytes at a time', async (t) => {
  const db = await openDatabase(t);
  const mx = Array.from({ length: 100 }, (_, n) => `mx${n}.${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.test`);
  const long = { ...published, mx, lines: ['version: STSv1', ...mx.map((name) => `mx: ${name}`)] };
  const results = new TlsResults();
  for (let n = 0; n < 1_500; n += 1) results.host(long, `evil${String(n).padStart(4, '0')}.test`, stranger);
  const counted = results.take();
  // Processor time, because the machine may stand still meanwhile.
  const began = process.cpuUsage();
  results.giveBack(counted);
  const { user, system } = process.cpuUsage(began);
  t.ok(user + system < 1_000_000, `${(user + system) / 1_000} ms`);

  const some = new TlsResults();
  some.giveBack(results.take().slice(0, 300));
  const sizes: number[] = [];
  const fails: Database = {
    ...db,
    transaction: (work) =>
      db.transaction((tx) =>
        work({
          query: (statement) => {
            if (statement.values === undefined) return tx.query(statement);
            sizes.push(String(statement.values[1]).length);
            return sizes.length === 2 ? Promise.reject(new Error('away')) : tx.query(statement);
          },
        }),
      ),
  };
  await t.rejects(record(fails, some), { message: 'away' });
  await record(fails, some);
  t.ok(Math.max(...sizes) < 8 * 1024 * 1024, sizes.join());
  const sums = await db.query({
    text: 'SELECT count(*)::int AS kinds, sum(sessions)::int AS sessions FROM tls_results',
  });
  t.same(sums, [{ kinds: 300, sessions: 300 }], 'each once');
});
