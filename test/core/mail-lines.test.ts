import t from 'tap';
import { prioritiesOfFirst, wakeDue, wakePast, wakingPast } from '../../src/core/emails/mail-lines.ts';
import { claim, park, release } from '../../src/core/recipients/recipients.ts';
import { completeIndexes } from '../../src/db/indexes.ts';
import type { EmailType } from '../../src/generated/prisma/enums.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { scheduleMany } from '../support/scheduled.ts';

const room = 2_000;

t.test('one line for each account', async (t) => {
  const { db, queue } = await openQueue(t);
  const [crowd, other] = [await buildSender(db, Buffer.alloc(32)), await buildSender(db, Buffer.alloc(32))];
  const send = async (sender: typeof crowd, emails: number, type: 'transactional' | 'marketing' = 'transactional') => {
    const holder = holderOf(sender.account);
    const email = requestOf(sender.from, ['a@receiver.test'], { type });
    const accepted = await accept(db, queue, holder, Array(emails).fill(email));
    return accepted.map((one) => ('email' in one ? one.email.id : ''));
  };
  const working = async (sender: typeof crowd) => {
    const [row] = await db.query<{ n: number }>({
      text: 'SELECT count(*)::int AS n FROM recipients WHERE account_id = $1 AND job_id IS NOT NULL',
      values: [sender.account.id],
    });
    return row?.n ?? 0;
  };
  /** The emails that are taken, in order. */
  const take = (limit: number, priority?: number) =>
    db.transaction(async (tx) => {
      const jobs = await queue.take(tx, limit, [], priority);
      await claim(tx, newId(), jobs);
      return jobs.flatMap((job) => job.emailIds);
    });
  const finish = () => db.query({ text: 'UPDATE recipients SET job_id = NULL, next_attempt_at = NULL' });

  t.test('however many are due, the queue holds only the head of the line', async (t) => {
    await scheduleMany(db, crowd, { emails: 12_000, to: 'crowd.test', at: new Date() });
    t.match(await wakeDue(db, queue), { woken: room });
    t.match(await wakeDue(db, queue), { woken: 0, more: false });
    t.equal(await working(crowd), room);

    const [single] = await send(other, 1);
    const first = await take(2);
    t.ok(first.includes(single ?? ''), 'another account waits for at most the first ten of this one');

    const [urgent] = await send(crowd, 1);
    t.equal(await working(crowd), room + 1, 'what is sent now does not wait behind scheduled mail');
    await scheduleMany(db, other, { emails: 1, to: 'later.test', at: new Date() });
    t.match(await wakeDue(db, queue), { woken: 1 }, 'due mail of another account is found behind twelve thousand');
    const held = await take(room + 10);
    t.ok(held.includes(urgent ?? ''));
    t.equal(held.length, room + 3 - 11);
    await finish();
  });

  t.test('accepted mail beyond the room waits as rows, and all of it is woken in the end', async (t) => {
    const ids = [...(await send(crowd, 1_000)), ...(await send(crowd, 1_000)), ...(await send(crowd, 1_000))];
    t.equal(await working(crowd), room + 500);
    const seen = new Set<string>();
    for (let rounds = 0; seen.size < ids.length && rounds < 10; rounds += 1) {
      for (const id of await take(5_000)) seen.add(id);
      await db.query({
        text: 'UPDATE recipients SET job_id = NULL, next_attempt_at = NULL WHERE claimed_by IS NOT NULL',
      });
      await wakeDue(db, queue);
    }
    t.strictSame([...seen].sort(), ids.toSorted());
    await finish();
  });

  t.test(
    'marketing waits for transactional mail, and the first of one account passes the many of another',
    async (t) => {
      await send(crowd, 500, 'marketing');
      await send(crowd, 200);
      const [late] = await send(other, 1);
      const order = await take(701);
      const types = await db.query<{ id: string; type: string }>({ text: 'SELECT id, type::text FROM emails' });
      const typeOf = new Map(types.map((row) => [row.id, row.type]));
      t.equal(
        order.findIndex((id) => typeOf.get(id) === 'marketing'),
        201,
        'marketing comes last',
      );
      t.ok(order.indexOf(late ?? '') <= 10, `${order.indexOf(late ?? '')}`);
      await finish();
    },
  );

  t.test('the first ten of an account can be taken alone, transactional mail before marketing', async (t) => {
    const first = [...(await send(crowd, 12)).slice(0, 10), ...(await send(other, 1))];
    const marketing = (await send(crowd, 12, 'marketing')).slice(0, 10);
    const taken = [];
    for (const priority of prioritiesOfFirst) taken.push((await take(100, priority)).sort());
    t.strictSame(taken, [first.sort(), marketing.sort()]);
    await finish();
  });
});

t.test('mail that somebody holds locked is left to the next round: no other mail waits for it', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await scheduleMany(db, sender, { emails: 3, to: 'receiver.test', at: new Date(Date.now() - 1_000) });
  let told = 0;
  queue.onWake(() => {
    told += 1;
  });
  await db.transaction(async (tx) => {
    await tx.query({ text: 'SELECT FROM recipients ORDER BY email_id LIMIT 1 FOR UPDATE' });
    t.match(await wakeDue(db, queue), { woken: 2 });
    t.equal(told, 1, 'what takes mail hears of it at once');
  });
  t.match(await wakeDue(db, queue), { woken: 1 });
  t.match(await wakeDue(db, queue), { woken: 0 });
  t.equal(told, 2, 'but only if there is some');
});

t.test('mail past the head of a line that somebody holds locked is left, too', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const schedule = (emails: number, to: string, agoMs: number) =>
    scheduleMany(db, sender, { emails, to, at: new Date(Date.now() - agoMs) });
  await schedule(room, 'slow.test', 60_000);
  await schedule(2, 'fine.test', 1_000);
  t.match(await wakeDue(db, queue), { woken: room });
  await db.transaction(async (tx) => {
    await tx.query({ text: `SELECT FROM recipients WHERE destination = 'fine.test' LIMIT 1 FOR UPDATE` });
    t.equal(await wakePast(db, queue, ['slow.test']), 1);
  });
  t.equal(await wakePast(db, queue, ['slow.test']), 1);
});

t.test('due mail is found of every account, also of those that have nothing under way', async (t) => {
  const { db, queue } = await openQueue(t);
  const at = new Date(Date.now() - 1_000);
  for (let account = 0; account < 3; account += 1)
    await scheduleMany(db, await buildSender(db, Buffer.alloc(32)), { emails: 1, to: 'receiver.test', at });
  t.match(await wakeDue(db, queue), { woken: 3 });
});

t.test('mail for one slow destination lets mail to others past', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const send = async (emails: number, to: string) => {
    const email = requestOf(sender.from, [to]);
    await accept(db, queue, holderOf(sender.account), Array(emails).fill(email));
  };
  const withJob = async () => {
    const rows = await db.query<{ destination: string; n: number }>({
      text: 'SELECT destination, count(*)::int AS n FROM recipients WHERE job_id IS NOT NULL GROUP BY 1 ORDER BY 1',
    });
    return Object.fromEntries(rows.map(({ destination, n }) => [destination, n]));
  };
  for (let round = 0; round < 3; round += 1) await send(1_000, 'a@slow.test');
  await send(600, 'a@fine.test');
  t.strictSame(await withJob(), { 'slow.test': room + 500 });
  t.match(await wakeDue(db, queue), { woken: 0 });
  t.equal(await wakePast(db, queue, []), 0, 'nothing is being sent, so nothing is blocked');
  t.equal(await wakePast(db, queue, ['slow.test', 'fine.test']), 0);
  t.equal(await wakePast(db, queue, ['slow.test', 'other.test']), 500, 'as much as there is room for');
  t.equal(await wakePast(db, queue, ['slow.test']), 0);
  t.strictSame(await withJob(), { 'fine.test': 500, 'slow.test': room + 500 });
  const taken = await db.transaction(async (tx) => {
    const jobs = await queue.take(tx, 1_000, ['slow.test']);
    return claim(tx, newId(), jobs);
  });
  t.strictSame([taken.length, new Set(taken.map(({ destination }) => destination))], [500, new Set(['fine.test'])]);
  t.match(await wakeDue(db, queue), { woken: 0 });

  await db.query({
    text: `UPDATE recipients SET job_id = NULL, next_attempt_at = NULL WHERE destination = 'slow.test' AND job_id IS NOT NULL`,
  });
  t.equal(await wakePast(db, queue, ['slow.test']), 0, 'once there is room again, the line continues in order');
  t.match(await wakeDue(db, queue), { woken: 600 });
});

t.test('a search that finds nothing is not repeated for a while, depending on how long it took', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const schedule = (emails: number, to: string, agoMs: number) =>
    scheduleMany(db, sender, { emails, to, at: new Date(Date.now() - agoMs) });
  await schedule(room + 100, 'slow.test', 60_000);
  t.match(await wakeDue(db, queue), { woken: room });
  let time = 1_000_000;
  let lookMs = 40;
  const timed = {
    ...db,
    transaction<T>(work: Parameters<typeof db.transaction<T>>[0]) {
      time += lookMs;
      return db.transaction(work);
    },
  };
  const past = wakingPast(timed, queue, () => time);
  t.equal(await past(['slow.test']), 0);
  await schedule(2, 'fine.test', 1_000);
  time += 3_999;
  t.equal(await past(['slow.test']), 0, 'a hundred times as long');
  time += 1;
  t.equal(await past(['slow.test']), 2);
  await schedule(3, 'fine.test', 1_000);
  t.equal(await past(['slow.test']), 3, 'after a success it continues at once');
  lookMs = 1_000;
  t.equal(await past(['slow.test']), 0);
  await schedule(1, 'fine.test', 1_000);
  time += 15_000;
  t.equal(await past(['slow.test']), 1, 'but never longer than mail may wait');
});

t.test('QUE-05: an account has a line for each type, and transactional mail never waits for marketing', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const send = async (emails: number, type: EmailType, scheduledAt: Date | null = null) => {
    const email = requestOf(sender.from, ['a@receiver.test'], { type, scheduledAt });
    await accept(db, queue, holderOf(sender.account), Array(emails).fill(email));
  };
  /** How many of each type have a job, and how many are due without one. */
  const lines = async () => {
    const rows = await db.query<{ type: EmailType; working: number; waiting: number }>({
      text: `SELECT e.type, count(r.job_id)::int AS working,
                    count(*) FILTER (WHERE r.job_id IS NULL AND r.next_attempt_at <= now())::int AS waiting
               FROM recipients r JOIN emails e ON e.id = r.email_id GROUP BY e.type`,
    });
    return Object.fromEntries(rows.map(({ type, working, waiting }) => [type, [working, waiting]]));
  };
  const comeDue = (type: EmailType) =>
    db.query({
      text: `UPDATE recipients r SET next_attempt_at = now() - interval '1 ms' FROM emails e
              WHERE e.id = r.email_id AND e.type = $1 AND r.next_attempt_at > now()`,
      values: [type],
    });
  const most = room + 500;

  for (let round = 0; round < 12; round += 1) await send(1_000, 'marketing');
  t.strictSame(await lines(), { marketing: [most, 12_000 - most] });
  await send(1_000, 'transactional');
  t.strictSame((await lines()).transactional, [1_000, 0], 'accepted mail gets a job at once');
  const urgent = await db.transaction(async (tx) => (await queue.take(tx, 100, [])).map(({ priority }) => priority));
  t.ok(urgent.every((priority) => priority >= 10) && urgent.length === 100, 'and comes first');

  await send(900, 'transactional', new Date(Date.now() + 3_600_000));
  await comeDue('transactional');
  t.match(await wakeDue(db, queue), { woken: 900 });
  t.strictSame(
    await lines(),
    { transactional: [1_900, 0], marketing: [most, 12_000 - most] },
    'so does mail that becomes due, even while thousands of marketing emails wait',
  );

  for (let round = 0; round < 3; round += 1) await send(1_000, 'transactional');
  t.strictSame((await lines()).transactional, [most, 2_400], 'it has no more room than marketing');
  await db.query({
    text: `UPDATE recipients r SET job_id = NULL, next_attempt_at = NULL FROM emails e
            WHERE e.id = r.email_id AND e.type = 'marketing' AND r.job_id IS NOT NULL`,
  });
  t.match(await wakeDue(db, queue), { woken: room });
  t.strictSame(
    await lines(),
    { transactional: [most, 2_400], marketing: [room, 12_000 - most - room] },
    'and marketing does not wait for the last of it',
  );
});

t.test('while weeks of the previous release have no index of lines, both types wait in one line', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  await db.query({
    text: `DROP INDEX recipients_line_idx;
      CREATE INDEX recipients_line_idx ON ONLY recipients (account_id, type, next_attempt_at)
       WHERE num_nonnulls(job_id) = 0 AND next_attempt_at IS NOT NULL`,
  });
  const to = 'receiver.test';
  await scheduleMany(db, sender, { emails: 3_000, to, at: new Date(Date.now() - 60_000), type: 'marketing' });
  await scheduleMany(db, sender, { emails: 10, to, at: new Date() });
  t.match(await wakeDue(db, queue), { woken: room });
  t.match(await wakeDue(db, queue), { woken: 0, more: false });
  await completeIndexes(db, new AbortController().signal);
  t.match(await wakeDue(db, queue), { woken: 10 });
});

t.test('emails to the same destination share jobs, a few in each', async (t) => {
  const { db, queue } = await openQueue(t);
  const [sender, other] = [await buildSender(db, Buffer.alloc(32)), await buildSender(db, Buffer.alloc(32))];
  const node = newId();
  await db.query({ text: `INSERT INTO nodes (id, hostname, roles) VALUES ($1, 'here', '{mta}')`, values: [node] });
  const take = () =>
    db.transaction(async (tx) => {
      const jobs = await queue.take(tx, 100, []);
      return { jobs, claims: await claim(tx, node, jobs) };
    });
  const send = async (from: typeof sender, ...emails: string[][]) => {
    const requests = emails.map((to) => requestOf(from.from, to));
    const accepted = await accept(db, queue, holderOf(from.account), requests);
    return accepted.map((one) => ('email' in one ? one.email.id : ''));
  };

  const singles = Array.from({ length: 25 }, (_, n) => [`a${n}@one.test`]);
  const ids = await send(sender, ...singles, ['b@one.test', 'c@two.test', 'd@one.test']);
  const { jobs, claims } = await take();
  const sizes = (destination: string) =>
    jobs.filter((job) => job.destination === destination).map(({ emailIds }) => emailIds.length);
  t.strictSame([sizes('one.test'), sizes('two.test')], [[10, 10, 6], [1]]);
  t.strictSame(
    claims.filter(({ destination }) => destination === 'one.test').map(({ emailId }) => emailId),
    ids,
    'in order',
  );
  const last = claims.filter(({ emailId }) => emailId === ids.at(-1));
  t.strictSame(last.map(({ recipients }) => recipients.map(({ address }) => address)).sort(), [
    ['b@one.test', 'd@one.test'],
    ['c@two.test'],
  ]);
  t.strictSame((await take()).jobs, [], 'taken jobs are no longer in the queue');

  const [first, ...rest] = claims;
  await release(db, first ? [first] : []);
  t.equal((await wakeDue(db, queue)).woken, 1, 'one email of a job comes back on its own');
  const again = await take();
  t.match(again.claims, [{ emailId: first?.emailId, destination: 'one.test' }]);

  await park(db, [...rest, ...again.claims], new Date(Date.now() - 1_000), 'a reason');
  await send(other, ['e@one.test']);
  t.equal((await wakeDue(db, queue)).woken, 28);
  const woken = await take();
  t.equal(woken.claims.length, 28);
  t.strictSame(
    woken.claims.flatMap(({ emailId, recipients }) => (emailId === ids.at(-1) ? [recipients.length] : [])).sort(),
    [1, 2],
    'the recipients of an email at one destination are tried together',
  );
  const accounts = await db.query<{ id: string; accounts: number }>({
    text: 'SELECT job_id AS id, count(DISTINCT account_id)::int AS accounts FROM recipients WHERE job_id IS NOT NULL GROUP BY 1',
  });
  t.ok(accounts.length < 8 && accounts.every((job) => job.accounts === 1), JSON.stringify(accounts));
});
