import t from 'tap';
import type { SendRequest } from '../../src/core/emails/draft.ts';
import * as suppressions from '../../src/core/returns/suppressions.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database, Sql, Statement } from '../../src/db/client.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';

const encryptionKey = Buffer.alloc(32, 1);

const request = (from: string, fields: Partial<SendRequest> = {}) =>
  requestOf(from, ['a@one.test', 'b@one.test', 'c@two.test'], {
    subject: 'subject',
    text: 'text',
    tags: ['a'],
    ...fields,
  });

type Observe = (statement: Statement) => void;

/** The same database, with every statement observed. */
function observing(db: Database, { before, after }: { before?: Observe; after?: Observe }): Database {
  const noting = (sql: Sql): Sql => ({
    async query<Row>(statement: Statement) {
      before?.(statement);
      const rows = await sql.query<Row>(statement);
      after?.(statement);
      return rows;
    },
  });
  return { ...db, ...noting(db), transaction: (work) => db.transaction((tx) => work(noting(tx))) };
}

/** The same database, with every statement recorded. */
function counting(db: Database): { db: Database; statements: string[] } {
  const statements: string[] = [];
  return { db: observing(db, { before: ({ text }) => statements.push(text) }), statements };
}

t.test('accepting', async (t) => {
  const { db: plain, queue } = await openQueue(t);
  const account = await buildAccount(plain);
  const { domain } = await buildVerifiedDomain(plain, account.id, encryptionKey);
  const holder = holderOf(account);
  const from = `s@${domain}`;
  const jobs = () =>
    plain.query<{ id: string; data: { emailId: string; destination: string }; group_id: string; priority: number }>({
      text: `SELECT id, data, group_id, priority FROM pgboss.job WHERE name = 'deliver' ORDER BY created_on, id`,
    });

  t.test('creates one job per destination, in the same transaction as the email', async (t) => {
    const [accepted] = await accept(plain, queue, holder, [request(from)]);
    const id = accepted && 'email' in accepted ? accepted.email.id : '';
    const recipients = await plain.prisma.recipient.findMany({ where: { emailId: id }, orderBy: { position: 'asc' } });
    const made = (await jobs()).filter((job) => job.data.emailId === id);
    t.equal(made.length, 2);
    t.same(new Set(made.map((job) => job.group_id)), new Set(['one.test', 'two.test']));
    for (const { jobId, destination } of recipients)
      t.equal(made.find((job) => job.id === jobId)?.data.destination, destination);
  });

  t.test('keeps nothing if the queue cannot take the job', async (t) => {
    const before = await plain.prisma.email.count();
    const broken = { ...queue, enqueue: () => Promise.reject(new Error('no')) };
    await t.rejects(accept(plain, broken, holder, [request(from)]), { message: 'no' });
    t.equal(await plain.prisma.email.count(), before);
  });

  t.test('a thousand emails take as many statements as one', async (t) => {
    const attachment = { filename: 'a', contentType: 'text/plain', contentId: null, content: Buffer.from('the same') };
    const once = counting(plain);
    await accept(once.db, queue, holder, [request(from, { attachments: [attachment] })]);
    const many = counting(plain);
    const batch = Array.from({ length: 1_000 }, (_, index) =>
      request(from, { subject: `${index}`, attachments: [attachment] }),
    );
    const results = await accept(many.db, queue, holder, batch);
    t.equal(many.statements.length, once.statements.length);
    t.same(
      results.map((result) => ('email' in result ? result.email.subject : '')),
      batch.map((entry) => entry.subject),
    );
    t.equal(
      await plain.prisma.attachment.count({ where: { accountId: account.id } }),
      1,
      'repeated bytes are stored once',
    );
  });

  t.test('thousands of recipients are written some at a time, each with its own job', async (t) => {
    const written: number[] = [];
    const noting = observing(plain, {
      before: ({ name, values }) => {
        if (name === 'accept-recipients') written.push((values as unknown[][])[0]?.length ?? 0);
      },
    });
    const other = await buildAccount(plain);
    const sender = `s@${(await buildVerifiedDomain(plain, other.id, encryptionKey)).domain}`;
    const to = Array.from({ length: 100 }, (_, index) => `r${index}@d${index % 2}.test`);
    const batch = Array.from({ length: 60 }, () => requestOf(sender, to));
    const results = await accept(noting, queue, holderOf(other), batch);
    t.same(written, [5_000, 1_000]);
    const rows = await plain.query<{ addresses: string[]; wrong: number; woken: number }>({
      text: `SELECT array_agg(r.address ORDER BY r.position) AS addresses, count(r.job_id)::int AS woken,
                    count(*) FILTER (WHERE r.job_id IS NOT NULL AND (j.id IS NULL OR j.data->>'destination' <> r.destination
                                       OR NOT (j.data->'others' || jsonb_build_array(j.data->'emailId')) ? r.email_id::text))::int AS wrong
               FROM recipients r LEFT JOIN pgboss.job j ON j.name = 'deliver' AND j.id = r.job_id
              WHERE r.account_id = $1 GROUP BY r.email_id ORDER BY r.email_id`,
      values: [other.id],
    });
    t.equal(rows.length, results.length);
    for (const { addresses, wrong } of rows) t.same([addresses, wrong], [to, 0]);
    t.same(
      rows.map(({ woken }) => woken),
      batch.map((_, index) => (index < 25 ? 100 : 0)),
      'those that the line has room for',
    );
  });

  t.test('other work goes on while a batch is laid out', async (t) => {
    let wentOn = false;
    let answer: boolean | null = null;
    const watched = observing(plain, {
      before: ({ name }) => {
        if (name === 'mail-lines-under-way') answer ??= wentOn;
      },
      after: ({ name }) => {
        if (name === 'suppressions-find') setImmediate(() => (wentOn = true));
      },
    });
    const slow = Array.from({ length: 60 }, () => {
      const one = request(from);
      const { subject } = one;
      return Object.defineProperty(one, 'subject', {
        get() {
          const until = performance.now() + 1;
          while (performance.now() < until);
          return subject;
        },
      });
    });
    await accept(watched, queue, holder, slow);
    t.equal(answer, true);
  });

  t.test('refuses each email on its own', async (t) => {
    const results = await accept(plain, queue, holder, [
      request('x@unknown.test'),
      request(from),
      request('y@unknown.test'),
    ]);
    t.match(results, [
      { refusal: { message: 'from domain not verified' } },
      { email: { status: 'queued' } },
      { refusal: { status: 400 } },
    ]);
  });

  t.test('the event of a suppressed email names the addresses that are on the list, and why', async (t) => {
    await suppressions.add(plain, account.id, { address: 'b@one.test', reason: 'bounce' });
    await suppressions.add(plain, account.id, { address: 'c@two.test', reason: 'unsubscribe' });
    const url = 'https://hooks.test/';
    await webhooks.create(plain, account.id, { url, events: ['email.suppressed'] }, new Keyring(encryptionKey));
    const toldOf = async (fields: Partial<SendRequest>) => {
      const [accepted] = await accept(plain, queue, holder, [request(from, fields)]);
      const emailId = accepted && 'email' in accepted ? accepted.email.id : '';
      const calls = await plain.prisma.webhookDelivery.findMany({ where: { emailId } });
      return calls.map(({ payload }) => JSON.parse(payload).data.recipients);
    };
    const b = {
      address: 'b@one.test',
      status: 'suppressed',
      response: 'the address is on the suppression list (bounce)',
    };
    t.same(await toldOf({}), [[b]]);
    const c = {
      address: 'c@two.test',
      status: 'suppressed',
      response: 'the address is on the suppression list (unsubscribe)',
    };
    t.same(await toldOf({ type: 'marketing' }), [[b, c]]);
    for (const { address } of [b, c]) await suppressions.remove(plain, account.id, address);
  });

  t.test('a scheduled email has no job yet', async (t) => {
    const scheduledAt = new Date(Date.now() + 60_000);
    const [accepted] = await accept(plain, queue, holder, [request(from, { scheduledAt })]);
    const id = accepted && 'email' in accepted ? accepted.email.id : '';
    t.notOk((await jobs()).some((job) => job.data.emailId === id));
    const recipients = await plain.prisma.recipient.findMany({ where: { emailId: id } });
    t.ok(recipients.length > 0);
    for (const row of recipients) t.match(row, { jobId: null, nextAttemptAt: scheduledAt.toISOString() });
  });
});
