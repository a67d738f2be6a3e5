import t from 'tap';
import * as log from '../../src/core/log/email-log.ts';
import { resendable } from '../../src/core/orders/resending.ts';
import { cancel } from '../../src/core/orders/scheduling.ts';
import { pruneContents } from '../../src/core/retention/content-retention.ts';
import * as suppressions from '../../src/core/returns/suppressions.ts';
import type { Database, Sql } from '../../src/db/client.ts';
import { ensurePartitions } from '../../src/db/partitions.ts';
import { floorId, newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildSender, holderOf } from '../support/build.ts';
import { openDatabase, openQueue } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { eventually } from '../support/node.ts';
import { scheduleMany } from '../support/scheduled.ts';

const dayMs = 24 * 3_600_000;
const ago = (days: number) => new Date(Date.now() - days * dayMs);
const shortAndLong = { free: 10, unlimited: 30 };

interface Fields {
  waits?: boolean;
  scheduledAt?: Date;
  /** Names of its files; the bytes of each are its name. */
  files?: string[];
}

async function prepare(db: Database): Promise<{ short: string; long: string }> {
  for (let days = 0; days < 60; days += 7) await ensurePartitions(db, ago(days));
  const [short, long] = [(await buildAccount(db)).id, (await buildAccount(db)).id];
  await db.prisma.account.update({ where: { id: short }, data: { plan: 'free' } });
  return { short, long };
}

/** An email accepted at that time, with its content. */
async function add(db: Sql, accountId: string, at: Date, { waits = false, scheduledAt, files = [] }: Fields = {}) {
  const id = newId(at);
  const insert = (text: string, ...values: unknown[]) => db.query({ text, values });
  await insert(
    `INSERT INTO emails (id, account_id, domain_id, status, "from", "to", cc, bcc, reply_to, subject, tags, message_id, pending, created_at, scheduled_at)
     VALUES ($1, $2, $2, $3, 'a@b.test', '{c@d.test}', '{}', '{}', '{}', 's', '{}', 'm', $4, $5, $6)`,
    ...[id, accountId, waits ? 'queued' : 'sent', waits ? 1 : 0, at, scheduledAt ?? null],
  );
  await insert(
    `INSERT INTO email_contents (email_id, text, attachments)
     SELECT $1, 'text', coalesce(jsonb_agg(jsonb_build_object('sha256', encode(sha256(f::bytea), 'hex'), 'filename', f)), '[]') FROM unnest($2::text[]) f`,
    id,
    files,
  );
  await insert(
    `INSERT INTO attachments SELECT $1, sha256(f::bytea), f::bytea, $3 FROM unnest($2::text[]) f
     ON CONFLICT (account_id, sha256) DO UPDATE SET last_used_at = greatest(attachments.last_used_at, excluded.last_used_at)`,
    ...[accountId, files, scheduledAt ?? at],
  );
  return id;
}

const kept = async (db: Database): Promise<string[]> =>
  (await db.query<{ email_id: string }>({ text: 'SELECT email_id FROM email_contents ORDER BY email_id' })).map(
    (row) => row.email_id,
  );
const files = async (db: Database): Promise<string[]> =>
  (
    await db.query<{ file: string }>({
      text: `SELECT convert_from(content, 'UTF8') AS file FROM attachments ORDER BY 1`,
    })
  ).map((row) => row.file);

t.test('DOS-16: content is deleted once its plan no longer keeps it, but never while the email waits', async (t) => {
  const db = await openDatabase(t);
  const { short, long } = await prepare(db);
  const gone = await add(db, short, ago(10.01), { files: ['gone', 'shared'] });
  await add(db, long, ago(30.01), { files: ['gone too'] });
  const stays = [
    await add(db, short, ago(9.99), { files: ['shared'] }),
    await add(db, long, ago(29.99), { files: ['young'] }),
    await add(db, long, ago(45), { waits: true, files: ['waits'] }),
    await add(db, short, ago(45), { scheduledAt: ago(9), files: ['scheduled'] }),
  ].sort();
  await add(db, long, ago(45), { files: ['waits'] });

  t.strictSame(await pruneContents(db, ago(3), { contentDays: shortAndLong }), { contents: 1, attachments: 0 });
  t.strictSame(await files(db), ['gone', 'gone too', 'scheduled', 'shared', 'waits', 'young'], 'too early for files');
  t.strictSame(await pruneContents(db, new Date(), { contentDays: shortAndLong }), { contents: 2, attachments: 2 });
  t.strictSame(await kept(db), stays);
  t.strictSame(await files(db), ['scheduled', 'shared', 'waits', 'young']);
  t.strictSame(
    await pruneContents(db, new Date('2100-01-01'), { contentDays: shortAndLong }),
    { contents: 0, attachments: 0 },
    'the clock of a node that is ahead does not count',
  );

  const { email } = await log.get(db, short, gone);
  t.equal(email.subject, 's', 'the log stays');
  const detail = 'the content of an email is kept for 30 days, which are over';
  await t.rejects(log.content(db, short, gone), { status: 410, message: 'gone', detail });
  await t.rejects(resendable(db, short, gone), { status: 410, message: 'gone', detail });
  await db.query({ text: `UPDATE emails SET pending = 0` });
  await pruneContents(db, new Date(), { contentDays: shortAndLong });
  t.strictSame(await files(db), ['scheduled', 'shared', 'young'], 'deleted once it no longer waits');
});

t.test(
  'content of mail that ended before its time is kept from its end, with the files that no other email has',
  async (t) => {
    const { db, queue } = await openQueue(t);
    const sender = await buildSender(db, testKey(5));
    const holder = holderOf(sender.account);
    await suppressions.add(db, holder.accountId, { address: 'listed@x.test', reason: 'manual' });
    const send = async (to: string, names: string[]) => {
      const attachments = names.map((filename) => {
        return { filename, contentType: 'text/plain', contentId: null, content: Buffer.from(filename) };
      });
      const request = requestOf(sender.from, [to], { scheduledAt: ago(-200), attachments });
      const [accepted] = await accept(db, queue, holder, [request]);
      if (!accepted || !('email' in accepted)) throw new Error('not accepted');
      return accepted.email;
    };
    const canceled = await send('ann@x.test', ['canceled', 'shared']);
    const waiting = await send('ann@x.test', ['shared', 'waits']);
    t.equal((await send('listed@x.test', ['suppressed'])).status, 'suppressed');
    await cancel(db, holder, canceled.id);
    const later = await send('ann@x.test', []);
    await cancel(db, holder, later.id);
    const contentDays = { unlimited: 1, free: 1 };
    t.strictSame(await pruneContents(db, new Date(), { contentDays }), { contents: 0, attachments: 0 }, 'too early');

    // A moment later, for a plan that keeps nothing.
    await db.query({ text: `UPDATE emails SET created_at = created_at - interval '1 hour'` });
    await db.query({ text: `UPDATE recipients SET settled_at = settled_at - interval '1 hour'` });
    await db.query({ text: `UPDATE attachments SET last_used_at = last_used_at - interval '1 hour'` });
    await db.query({
      text: `UPDATE recipients SET settled_at = now() + interval '1 hour' WHERE email_id = $1`,
      values: [later.id],
    });
    const nothing = { unlimited: 0, free: 0 };
    t.strictSame(await pruneContents(db, new Date(), { contentDays: nothing }), { contents: 2, attachments: 2 });
    t.strictSame(await kept(db), [waiting.id, later.id], 'each from its own end');
    t.strictSame(await files(db), ['shared', 'waits']);
  },
);

t.test('content of an account that is gone is deleted like that of others, and does not keep theirs', async (t) => {
  const db = await openDatabase(t);
  const { short, long } = await prepare(db);
  const gone = floorId(ago(1_000));
  await add(db, gone, ago(10.01), { files: ['of nobody'] });
  // As many as are looked at together: they come before those of all accounts that were made later.
  await db.query({
    text: `INSERT INTO attachments SELECT $1, sha256(n::text::bytea), 'left', $2 FROM generate_series(1, 499) n`,
    values: [gone, ago(10.01)],
  });
  await add(db, short, ago(10.01), { files: ['old'] });
  // The same file as that of the other account, whose email is over.
  const stays = await add(db, long, ago(10.01), { files: ['old', 'young'] });
  t.strictSame(await pruneContents(db, new Date(), { contentDays: shortAndLong }), { contents: 2, attachments: 501 });
  t.strictSame([await kept(db), await files(db)], [[stays], ['old', 'young']]);
  const asFree = await add(db, gone, ago(15));
  await pruneContents(db, new Date(), { contentDays: { free: 20, pro: 10, unlimited: 30 } });
  t.strictSame(await kept(db), [asFree, stays], 'kept as long as that of the free plan');
});

t.test('a file that is about to be deleted stays if an email has it again at that moment', async (t) => {
  const db = await openDatabase(t);
  const { short } = await prepare(db);
  await add(db, short, ago(10.01), { files: ['again'] });
  const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  const { pruning } = await db.transaction(async (tx) => {
    await add(tx, short, new Date(), { files: ['again'] });
    const pruning = pruneContents(db, new Date(), { contentDays: shortAndLong });
    await eventually(async () => (await db.query({ text: waits })).length > 0);
    return { pruning };
  });
  t.strictSame(await pruning, { contents: 1, attachments: 0 });
  t.strictSame(await files(db), ['again']);
});

t.test('no plan keeps content for more than 30 days', async (t) => {
  const db = await openDatabase(t);
  const { short, long } = await prepare(db);
  const stays = [await add(db, short, ago(29.99)), await add(db, long, ago(29.99))].sort();
  await add(db, short, ago(30.01));
  await add(db, long, ago(30.01));
  t.match(await pruneContents(db, new Date()), { contents: 2 });
  t.strictSame(await kept(db), stays);
});

t.test('one node at a time deletes old content, however much there is, and reads nothing that is young', async (t) => {
  const db = await openDatabase(t);
  const { long } = await prepare(db);
  for (let n = 0; n < 3; n += 1) await add(db, long, ago(40), { waits: true });
  await db.query({
    text: `WITH old AS (
             SELECT (lpad(to_hex((extract(epoch FROM $2::timestamptz) * 1000)::bigint), 12, '0') || '7000' || '8' || substr(md5(n::text), 1, 15))::uuid AS id
               FROM generate_series(1, 1234) n),
           emails AS (
             INSERT INTO emails (id, account_id, domain_id, "from", "to", cc, bcc, reply_to, subject, tags, message_id, pending, created_at)
             SELECT id, $1, $1, '', '{}', '{}', '{}', '{}', '', '{}', 'm', 0, $2 FROM old)
           INSERT INTO email_contents (email_id, text) SELECT id, 'text' FROM old`,
    values: [long, ago(35)],
  });
  await scheduleMany(db, await buildSender(db, Buffer.alloc(32)), { emails: 2_000, to: 'x.test', at: new Date() });
  const young = await db.query<{ name: string }>({
    text: 'SELECT DISTINCT tableoid::regclass::text AS name FROM email_contents WHERE email_id > $1',
    values: [floorId(ago(1))],
  });
  t.equal(young.length, 1);
  await db.session(async (other) => {
    await other.query({ text: `SELECT pg_advisory_lock(hashtext('sendwright old contents'))` });
    t.strictSame(await pruneContents(db, new Date()), { contents: 0, attachments: 0 }, 'another node is doing it');
  });
  await db.transaction(async (tx) => {
    const here = { ...db, session: (work: (session: typeof tx) => Promise<unknown>) => work(tx) } as Database;
    const read = async () => {
      const [row] = await tx.query<{ rows: number }>({
        text: `SELECT sum(coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0))::int AS rows FROM pg_stat_xact_user_tables WHERE relname = ANY($1)`,
        values: [young.map(({ name }) => name)],
      });
      return row?.rows;
    };
    // Earlier reads of this connection are counted too until the server has been told of them, which happens now and then.
    const before = await read();
    t.strictSame(await pruneContents(here, new Date()), { contents: 1_234, attachments: 0 });
    t.equal(await read(), before, 'no rows of this week were read');
  });
  t.equal((await kept(db)).length, 2_003);
});

t.test('large content is deleted a few megabytes at a time', async (t) => {
  const db = await openDatabase(t);
  const { short } = await prepare(db);
  for (let n = 0; n < 12; n += 1) await add(db, short, ago(12), { files: [`file ${n}`] });
  await db.query({ text: `UPDATE email_contents SET text = repeat('0123456789abcdef', 1024 * 1024)` });
  await db.query({
    text: `UPDATE attachments SET content = convert_to(repeat('0123456789abcdef', 1024 * 1024), 'UTF8')`,
  });
  /** A signal that reports a stop once it has been asked this many times. */
  const after = (stretches: number): AbortSignal => {
    let asked = 0;
    return Object.defineProperty(new AbortController().signal, 'aborted', { get: () => asked++ >= stretches });
  };
  const left = async () => ({
    contents: (await kept(db)).length,
    files: (await db.query({ text: 'SELECT FROM attachments' })).length,
  });
  await pruneContents(db, new Date(), { contentDays: shortAndLong, stop: after(2) });
  t.strictSame(await left(), { contents: 4, files: 12 });
  await pruneContents(db, new Date(), { contentDays: shortAndLong, stop: after(2) });
  t.strictSame(await left(), { contents: 0, files: 8 });
  t.strictSame(await pruneContents(db, new Date(), { contentDays: shortAndLong }), { contents: 0, attachments: 8 });
});
