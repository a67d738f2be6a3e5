import t from 'tap';
import * as counts from '../../src/core/log/email-counts.ts';
import { list } from '../../src/core/log/email-log.ts';
import { dropOld } from '../../src/core/retention/retention.ts';
import { thinOut } from '../../src/core/retention/retention-of-kept-weeks.ts';
import * as returns from '../../src/core/returns/returns.ts';
import type { Database, Sql } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { openDatabase } from '../support/db.ts';
import { untilOneWaits } from '../support/locks.ts';
import { add, addMany, anyTime, dayMs, firstPage, nameOf, prepare, rowsOf, weekOf } from './retention-scene.ts';

t.test("DOS-16: one email that waits for a year does not keep anybody else's log", async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  const kept = [
    await add(db, accountId, 0, { waiting: { jobId: null } }),
    await add(db, accountId, 1, { scheduledAt: new Date(Date.now() - 29 * dayMs) }),
    await add(db, accountId, 10),
  ];
  for (const week of [0, 1]) await addMany(db, accountId, week, 600);
  await add(db, accountId, 2);
  await counts.addUp(db);
  const [id] = kept;
  await db.query({ text: `UPDATE webhook_deliveries SET next_attempt_at = now() WHERE email_id = $1`, values: [id] });
  const nothing = { emails: 0, deliveries: 0 };
  t.strictSame(await thinOut(db, new Date(), AbortSignal.abort()), nothing);
  t.strictSame(await thinOut(db, weekOf(1)), nothing, 'too early');
  const gone = await thinOut(db, new Date());
  t.strictSame(gone, { emails: 1_200, deliveries: 600 }, 'a week that nothing keeps is left to another task');
  await dropOld(db, new Date());
  t.strictSame(await thinOut(db, new Date()), nothing);

  t.match(await rowsOf(db), {
    emails: 3,
    email_contents: 3,
    recipients: 3,
    attempts: 3,
    returns: 3,
    sandbox_messages: 3,
    webhook_deliveries: 2,
  });
  for (const when of ['before', 'after they are added up']) {
    for (const filter of [{}, { tag: 'all' }, { status: 'sent' as const }]) {
      const { emails, count } = await list(db, { ...anyTime, ...filter }, firstPage);
      const wanted = kept.slice('status' in filter ? 1 : 0).toReversed();
      t.strictSame([emails.map(({ id }) => id), count], [wanted, wanted.length], `${when}: ${JSON.stringify(filter)}`);
    }
    await counts.addUp(db);
  }

  await db.query({ text: 'UPDATE recipients SET next_attempt_at = NULL' });
  await dropOld(db, new Date());
  t.match(await rowsOf(db), { emails: 2 }, 'the rest goes with its week');
});

t.test(
  'mail that ended late, as after a long hold, is kept for 30 days from then, and nothing else because of it',
  async (t) => {
    const db = await openDatabase(t);
    const accountId = await prepare(db);
    const ended = (id: string, days: number) =>
      db.query({
        text: 'UPDATE recipients SET settled_at = now() - make_interval(days => $2) WHERE email_id = $1',
        values: [id, days],
      });
    await add(db, accountId, 0);
    // The rows before the last one of the week are more than one statement looks at.
    await db.query({
      text: `INSERT INTO recipients (account_id, email_id, position, kind, address, destination, status, settled_at)
           SELECT $1, id, 0, 'to', 'c@d.test', 'd.test', 'delivered', now() - interval '60 days' FROM unnest($2::uuid[]) id`,
      values: [accountId, Array.from({ length: 12_000 }, () => newId(weekOf(0)))],
    });
    const late = await add(db, accountId, 0);
    await ended(late, 29);
    await ended(await add(db, accountId, 1), 31);
    const shown = async () => (await list(db, anyTime, firstPage)).emails.map(({ id }) => id);

    const stopping = new AbortController();
    const stopped: Database = {
      ...db,
      async query<Row>(statement: Parameters<Sql['query']>[0]) {
        if (/settled_at/.test(statement.text)) stopping.abort();
        return db.query<Row>(statement);
      },
    };
    await dropOld(stopped, new Date(), stopping.signal);
    t.ok(stopping.signal.aborted);
    t.equal((await shown()).length, 3, 'what was not read to its end before a stop stays');

    await dropOld(db, new Date());
    t.equal((await shown()).length, 2);
    t.strictSame(await thinOut(db, new Date()), { emails: 1, deliveries: 0 });
    t.strictSame(await shown(), [late]);
    t.match(await rowsOf(db), { email_contents: 1, attempts: 1, returns: 1, sandbox_messages: 1 });
    t.strictSame(await dropOld(db, new Date(), AbortSignal.abort()), []);

    await ended(late, 31);
    await dropOld(db, new Date());
    t.match(await rowsOf(db), { emails: 0, recipients: 0, returns: 0 });
  },
);

t.test('a week is kept for mail that was due within that time, however much was due earlier', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  const at = (days: number) => new Date(weekOf(0).getTime() + days * dayMs);
  await db.query({
    text: `INSERT INTO emails (id, account_id, domain_id, status, "from", "to", cc, bcc, reply_to, subject, tags, message_id, pending, created_at,
                               scheduled_at, from_address, from_domain)
           SELECT id, $1, $1, 'sent', 'a@b.test', '{}', '{}', '{}', '{}', 's', '{}', 'm', 0, $3, now() - interval '31 days', 'a@b.test', 'b.test'
             FROM unnest($2::uuid[]) id`,
    values: [accountId, [0, 4].flatMap((days) => Array.from({ length: 12_000 }, () => newId(at(days)))), weekOf(0)],
  });
  const due = await add(db, accountId, 0, { scheduledAt: new Date(Date.now() - 29 * dayMs) });
  await db.query({ text: 'ANALYZE emails' });
  const looked: number[] = [];
  const watched: Database = {
    ...db,
    async query<Row>(statement: Parameters<Sql['query']>[0]) {
      if (/FROM emails_\d/.test(statement.text)) looked.push(await rowsLookedAt(db, statement));
      return db.query<Row>(statement);
    },
  };
  await dropOld(watched, new Date());
  t.equal(await db.prisma.email.count({ where: { id: due } }), 1);
  t.ok(looked.length > 0 && Math.max(...looked) < 12_000, `${looked}`);
});

interface PlanNode {
  'Node Type': string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: PlanNode[];
}

/** How many table rows a statement looks at. */
async function rowsLookedAt(db: Sql, { text, values = [] }: { text: string; values?: unknown[] }): Promise<number> {
  const [row] = await db.query<{ 'QUERY PLAN': { Plan: PlanNode }[] }>({
    text: `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`,
    values,
  });
  const sum = (node: PlanNode): number => {
    const own = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'];
    const isTable = /^(Seq|Index|Index Only|Bitmap Heap) Scan$/.test(node['Node Type']);
    return (isTable ? own : 0) + (node.Plans ?? []).reduce((total, one) => total + sum(one), 0);
  };
  return row?.['QUERY PLAN'].reduce((total, { Plan }) => total + sum(Plan), 0) ?? 0;
}

t.test('what comes back for an email while it is removed goes with it', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  await add(db, accountId, 0, { waiting: { jobId: null } });
  const gone = await add(db, accountId, 0);
  let thinning: Promise<unknown> = Promise.resolve();
  await db.transaction(async (tx) => {
    await returns.keepFromErasure(tx, gone);
    thinning = thinOut(db, new Date());
    await untilOneWaits(db);
    await tx.query({
      text: `INSERT INTO returns (account_id, email_id, recipient, kind) VALUES ($1, $2, 'c@d.test', 'complaint')`,
      values: [accountId, gone],
    });
  });
  t.match(await thinning, { emails: 1 });
  t.match(await rowsOf(db), { emails: 1, returns: 1 });
});

t.test('what is too much for one go is done in smaller steps', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  await add(db, accountId, 0, { waiting: { jobId: null } });
  await addMany(db, accountId, 0, 40);
  await db.query({
    text: 'UPDATE webhook_deliveries SET next_attempt_at = now() WHERE id = (SELECT id FROM webhook_deliveries ORDER BY id LIMIT 1)',
  });
  const sizes: Record<string, number[]> = { attempts: [], webhook_deliveries: [] };
  const narrow = (tx: Sql): Sql => ({
    async query<Row>(statement: Parameters<Sql['query']>[0]) {
      const [, table = ''] = /DELETE FROM (attempts|webhook_deliveries)/.exec(statement.text) ?? [];
      const size = [statement.values?.[0], statement.values?.[2]].map((one) => (Array.isArray(one) ? one.length : one));
      const many = Number(size[table === 'attempts' ? 0 : 1]);
      sizes[table]?.push(many);
      if (table && many > 10) throw Object.assign(new Error('canceling statement'), { code: '57014' });
      return tx.query<Row>(statement);
    },
  });
  const slow: Database = { ...db, ...narrow(db), transaction: (work) => db.transaction((tx) => work(narrow(tx))) };
  t.strictSame(await thinOut(slow, new Date()), { emails: 40, deliveries: 40 });
  for (const [table, [first = 0, ...others]] of Object.entries(sizes))
    t.ok(first >= 40 && others.filter((many) => many > 10).length < 3, `${table}: ${[first, ...others]}`);
  t.match(await rowsOf(db), { emails: 1, attempts: 1, webhook_deliveries: 1 });

  const away: Database = {
    ...db,
    transaction: () => Promise.reject(Object.assign(new Error('gone'), { code: '08006' })),
  };
  await add(db, accountId, 0);
  await t.rejects(thinOut(away, new Date()), { message: 'gone' });
});

t.test('a week that another node drops meanwhile does not stop the later ones from being searched', async (t) => {
  const db = await openDatabase(t);
  const accountId = await prepare(db);
  await add(db, accountId, 0);
  await add(db, accountId, 1, { waiting: { jobId: null } });
  await db.query({ text: 'UPDATE webhook_deliveries SET next_attempt_at = now()' });
  await add(db, accountId, 1);
  let dropped: string[] = [];
  const meanwhile: Database = {
    ...db,
    async query<Row>(statement: Parameters<Sql['query']>[0]) {
      if (dropped.length === 0 && /^SELECT false OR EXISTS/.test(statement.text))
        dropped = await dropOld(db, new Date());
      return db.query<Row>(statement);
    },
  };
  t.match(await thinOut(meanwhile, new Date()), { emails: 1 });
  t.ok(dropped.includes(nameOf('emails', 0)));
});
