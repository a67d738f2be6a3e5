import t from 'tap';
import * as counts from '../../src/core/log/email-counts.ts';
import type { Filter } from '../../src/core/log/email-filter.ts';
import { list } from '../../src/core/log/email-log.ts';
import type { Database, Sql } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { openDatabase } from '../support/db.ts';
import { anyTime } from './retention-scene.ts';

const hourMs = 3_600_000;
const noon = Math.floor(Date.now() / (24 * hourMs)) * 24 * hourMs - 12 * hourMs;

async function add(db: Database, accountId: string, emails: number): Promise<void> {
  const rows = Array.from({ length: emails }, (_, n) => {
    const at = new Date(noon + (n % 5) * hourMs + n * 1_000);
    return {
      id: newId(at),
      status: n % 7 === 0 ? 'failed' : 'queued',
      failed: n % 7 === 0 ? 1 : 0,
      type: n % 3 === 0 ? 'marketing' : 'transactional',
      tags: n % 2 === 0 ? ['even', 'all', 'even'] : ['all'],
      from_domain: n % 4 === 0 ? 'b.test' : 'a.test',
      from_address: n % 4 === 0 ? 'x@b.test' : n % 5 === 0 ? 'y@a.test' : 'x@a.test',
      created_at: at,
    };
  });
  await db.query({
    text: `INSERT INTO emails (id, account_id, domain_id, status, failed, type, tags, from_domain, from_address, created_at, "from", "to", cc, bcc,
                               reply_to, subject, message_id, pending)
           SELECT id, $1, $1, status, failed, type, tags, from_domain, from_address, created_at, from_address, '{}', '{}', '{}', '{}', 'red apples', 'm', 1
             FROM json_to_recordset($2) AS e (id uuid, status email_status, failed smallint, type email_type, tags text[], from_domain text,
                                              from_address text, created_at timestamptz)`,
    values: [accountId, JSON.stringify(rows)],
  });
}

const filters: Partial<Filter>[] = [
  {},
  { status: 'queued' },
  { status: 'failed' },
  { status: 'sent' },
  { status: 'canceled' },
  { type: 'marketing' },
  { type: 'marketing', status: 'failed' },
  { tag: 'even' },
  { tag: 'even', status: 'sent', type: 'transactional' },
  { tag: 'none' },
  { from: 'y@a.test' },
  { from: 'x@b.test', domain: 'b.test' },
  { from: 'x@b.test', domain: 'a.test' },
  { domain: 'a.test', status: 'failed' },
  { domain: 'a.test', tag: 'even' },
  { q: 'apples', tag: 'even' },
  { createdAfter: new Date(noon + hourMs / 2) },
  { createdBefore: new Date(noon + 2.5 * hourMs), status: 'failed' },
  { createdAfter: new Date(noon + hourMs), createdBefore: new Date(noon + 3 * hourMs), tag: 'even' },
  {
    createdAfter: new Date(noon + hourMs + 60_000),
    createdBefore: new Date(noon + 2 * hourMs + 60_000),
    type: 'marketing',
  },
  { createdAfter: new Date(noon + 60_000), createdBefore: new Date(noon + 90_000) },
];

t.test('the counts match the rows, whatever happens to them', async (t) => {
  const db = await openDatabase(t);
  const [mine, other] = [newId(), newId()];
  const page = { limit: 100_000, offset: 0, cursor: null };
  /** Compares the stored counts with a reading of every row. */
  const hold = async (when: string) => {
    for (const accountId of [mine, other, null]) {
      for (const filter of filters) {
        const asked = { ...anyTime, ...filter, accountId };
        const { count, emails } = await list(db, asked, page);
        const rows = await db.query<{ id: string }>({
          text: `SELECT id FROM emails WHERE ($1::uuid IS NULL OR account_id = $1) AND ($2::text IS NULL OR status::text = $2) AND ($3::text IS NULL OR type::text = $3)
                    AND ($4::text IS NULL OR $4 = ANY(tags)) AND ($5::text IS NULL OR from_address = $5) AND ($6::text IS NULL OR from_domain = $6)
                    AND ($7::timestamptz IS NULL OR created_at >= $7) AND ($8::timestamptz IS NULL OR created_at < $8) ORDER BY id DESC`,
          values: [
            accountId,
            asked.status,
            asked.type,
            asked.tag,
            asked.from,
            asked.domain,
            asked.createdAfter,
            asked.createdBefore,
          ],
        });
        const name = `${when}: ${JSON.stringify({ ...filter, accountId: accountId && 'one' })}`;
        t.equal(count, rows.length, name);
        t.strictSame(
          emails.map(({ id }) => id),
          rows.map(({ id }) => id),
          name,
        );
      }
    }
  };
  await add(db, mine, 300);
  await add(db, other, 40);
  await hold('added');
  await counts.addUp(db);
  const [left] = await db.query<{ rows: number }>({ text: 'SELECT count(*)::int AS rows FROM email_count_changes' });
  t.equal(left?.rows, 0);
  await hold('added up');
  await db.query({
    text: `UPDATE emails SET status = 'sent', pending = 0 WHERE status = 'queued' AND tags @> '{even}'`,
  });
  await db.query({ text: `UPDATE emails SET error = 'no change of the status'` });
  await hold('sent');
  await Promise.all([counts.addUp(db), counts.addUp(db), add(db, mine, 50)]);
  await hold('sent, and added up while others are added');
  await db.query({ text: 'DELETE FROM emails WHERE account_id = $1', values: [other] });
  await counts.addUp(db);
  await hold('removed');
  const [kept] = await db.query<{ rows: number }>({
    text: 'SELECT count(*)::int AS rows FROM email_counts WHERE account_id = $1',
    values: [other],
  });
  t.equal(kept?.rows, 0);
  const zeros = { text: 'SELECT FROM email_counts WHERE emails = 0' };
  t.equal((await db.query(zeros)).length, 0, 'counts that reach zero are removed when they are added up');
  await db.query({ text: 'UPDATE email_counts SET emails = 0 WHERE account_id = $1', values: [mine] });
  const weeksRead: number[] = [];
  const watched: Database = {
    ...db,
    transaction: (work) =>
      db.transaction((tx) =>
        work({
          async query<Row>(statement: Parameters<Sql['query']>[0]) {
            const plan = JSON.stringify(await tx.query({ ...statement, text: `EXPLAIN ${statement.text}` }));
            weeksRead.push(new Set(plan.match(/ on email_counts_\d{8}/g)).size);
            return tx.query<Row>(statement);
          },
        }),
      ),
  };
  await counts.forgetZeros(watched);
  t.equal((await db.query(zeros)).length, 0);
  t.ok(weeksRead.length > 1 && weeksRead.every((weeks) => weeks === 1), `weeks read by each statement: ${weeksRead}`);
});

t.test('every page of every filter, by offset and by cursor, is the right part of the whole', async (t) => {
  const db = await openDatabase(t);
  const accountId = newId();
  await add(db, accountId, 130);
  for (const filter of filters) {
    const asked = { ...anyTime, ...filter, accountId };
    const name = JSON.stringify(filter);
    const whole = (await list(db, asked, { limit: 1_000, offset: 0, cursor: null })).emails.map(({ id }) => id);
    const byOffset: string[] = [];
    for (let offset = 0; offset < whole.length + 20; offset += 20) {
      byOffset.push(...(await list(db, asked, { limit: 20, offset, cursor: null })).emails.map(({ id }) => id));
    }
    t.strictSame(byOffset, whole, `${name} by offset`);
    const byCursor: string[] = [];
    for (let cursor: string | null = null, more = true; more; more = cursor !== null) {
      const page: Awaited<ReturnType<typeof list>> = await list(db, asked, { limit: 20, offset: 0, cursor });
      byCursor.push(...page.emails.map(({ id }) => id));
      t.equal(page.count, whole.length);
      cursor = page.nextCursor;
    }
    t.strictSame(byCursor, whole, `${name} by cursor`);
  }
});

t.test('a page is full even if its emails changed after they were counted', async (t) => {
  const db = await openDatabase(t);
  const accountId = newId();
  await add(db, accountId, 100);
  // As if the counts had been read just before most of the newest emails were settled.
  await db.query({ text: 'ALTER TABLE emails DISABLE TRIGGER emails_changed' });
  await db.query({
    text: `UPDATE emails SET status = 'sent' WHERE created_at >= $1 AND status = 'queued'`,
    values: [new Date(noon + 3 * hourMs)],
  });
  const page = await list(db, { ...anyTime, accountId, status: 'queued' }, { limit: 30, offset: 0, cursor: null });
  t.equal(page.emails.length, 30);
  t.ok(page.nextCursor);
});
