import t from 'tap';
import { wakeDue } from '../../src/core/emails/mail-lines.ts';
import { explain } from '../../src/core/log/explain.ts';
import * as nodes from '../../src/core/nodes/nodes.ts';
import { release } from '../../src/core/orders/uncertainty.ts';
import { type Claim, claim, release as giveBack, park, sweep } from '../../src/core/recipients/recipients.ts';
import { type Settlement, settle } from '../../src/core/recipients/settlement.ts';
import { heldNote, pausedUntil } from '../../src/core/recipients/waiting-for.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildNode, buildVerifiedDomain, holderOf, unheard } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { decided } from '../support/decided.ts';

t.test('rows and jobs', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  const holder = holderOf(account);

  async function send(...to: string[]): Promise<string> {
    const [accepted] = await accept(db, queue, holder, [requestOf(`s@${domain}`, to)]);
    if (!accepted || !('email' in accepted)) throw new Error('not accepted');
    return accepted.email.id;
  }
  const sendAll = async (each: string[][]) => {
    const ids: string[] = [];
    for (const to of each) ids.push(await send(...to));
    return ids;
  };
  const take = (nodeId: string) => db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
  const node = async () => {
    const id = newId();
    await buildNode(db, id);
    return id;
  };
  const outcome = (held: Claim, index: number, status: Settlement['status'], nextAttemptAt?: Date): Settlement => ({
    ...decided(status, nextAttemptAt),
    nodeId: held.nodeId,
    emailId: held.emailId,
    position: held.recipients[index]?.position ?? 0,
    jobId: held.jobId,
    attempts: 1,
    lastResponse: `answer to ${index}`,
    waitingFor: null,
    uncertain: false,
    suppress: null,
  });
  const write = (...settlements: Settlement[]) => db.transaction((tx) => settle(tx, queue, settlements, []));
  const status = async (id: string) => (await db.prisma.email.findUniqueOrThrow({ where: { id } })).status;
  const jobCount = async () =>
    (await db.query<{ n: number }>({ text: `SELECT count(*)::int AS n FROM pgboss.job WHERE name = 'deliver'` }))[0]?.n;

  t.test('two nodes never hold the same recipient', async (t) => {
    const ids = await sendAll(Array.from({ length: 20 }, (_, index) => [`a@d${index}.test`]));
    const [one, two] = [await node(), await node()];
    const held = (await Promise.all([take(one), take(two), take(one), take(two)])).flat();
    t.same(held.map((entry) => entry.emailId).sort(), ids.toSorted());
    const [{ jobId, emailId, destination }] = held as [Claim];
    const job = { id: jobId, emailIds: [emailId] as [string], destination, priority: 0 };
    const three = await node();
    const again = await db.transaction((tx) => claim(tx, three, [job]));
    t.strictSame(again, [], 'nor if a job comes back, as with a node of the previous release');
    await write(...held.map((entry) => outcome(entry, 0, 'delivered')));
    for (const id of ids) t.equal(await status(id), 'sent');
    t.equal(await jobCount(), 0, 'finished jobs are gone');
  });

  t.test('of what is claimed together, mail of a higher priority comes first, and then the older', async (t) => {
    const ids = await sendAll([['a@one.test'], ['b@two.test'], ['c@three.test']]);
    const nodeId = await node();
    const held = await db.transaction(async (tx) => {
      const jobs = await queue.take(tx, 100, []);
      const priorityOf = ({ emailIds: [id] }: (typeof jobs)[number]) => (id === ids[2] ? 1 : 0);
      return claim(
        tx,
        nodeId,
        jobs.toReversed().map((job) => ({ ...job, priority: priorityOf(job) })),
      );
    });
    t.strictSame(
      held.map(({ emailId }) => emailId),
      [ids[2], ids[0], ids[1]],
    );
    await write(...held.map((one) => outcome(one, 0, 'delivered')));
  });

  t.test(
    'the status follows once every recipient is settled, even if several are settled at the same time',
    async (t) => {
      const ids = await sendAll(Array(20).fill(['a@one.test', 'b@two.test', 'c@three.test']));
      const held = await take(await node());
      t.strictSame(
        held.map(({ emailId, destination }) => `${emailId} ${destination}`).sort(),
        ids.flatMap((id) => ['one', 'two', 'three'].map((name) => `${id} ${name}.test`)).sort(),
      );
      const statusOf = ({ emailId, destination }: Claim) =>
        destination === 'two.test' && emailId === ids[0] ? 'failed' : 'delivered';
      // No more at once than there are connections: on a full machine, who has to wait for one may get none in time.
      while (held.length > 0)
        await Promise.all(held.splice(0, 10).map((entry) => write(outcome(entry, 0, statusOf(entry)))));
      t.equal(await status(ids[0] ?? ''), 'failed');
      for (const id of ids.slice(1)) t.equal(await status(id), 'sent');
      t.match(await db.prisma.email.findUnique({ where: { id: ids[0] ?? '' } }), {
        pending: 0,
        failed: 1,
        error: 'answer to 0',
        sentAt: null,
      });
    },
  );

  t.test('a final status stays: no settlement changes it, and in tests no statement can: QUE-19', async (t) => {
    const ids = [await send('gone@one.test'), await send('here@two.test')];
    const held = await take(await node());
    const [gone, here] = ids.map((id) => held.find(({ emailId }) => emailId === id) as Claim);
    await write(outcome(gone as Claim, 0, 'failed'), outcome(here as Claim, 0, 'delivered'));
    // As from a node that comes back late with what it heard.
    await write(outcome(gone as Claim, 0, 'delivered'), outcome(here as Claim, 0, 'failed'));
    t.same(await Promise.all(ids.map(status)), ['failed', 'sent']);
    const move = (table: string, column: string, id: string | undefined, to: string) =>
      db.query({
        text: `UPDATE ${table} SET status = $2::text::${table.slice(0, -1)}_status WHERE ${column} = $1`,
        values: [id, to],
      });
    for (const to of ['queued', 'failed', 'suppressed', 'canceled'])
      await t.rejects(move('emails', 'id', ids[1], to), { message: `sent may not become ${to}: QUE-19` });
    for (const to of ['queued', 'deferred', 'failed', 'suppressed', 'canceled'])
      await t.rejects(move('recipients', 'email_id', ids[1], to), /delivered may not become/);
    await t.rejects(move('recipients', 'email_id', ids[0], 'delivered'), /failed may not become delivered/);
    await move('emails', 'id', ids[1], 'sent');
    const waiting = await send('later@one.test');
    const [later] = await take(await node());
    await move('recipients', 'email_id', waiting, 'deferred');
    await t.rejects(move('recipients', 'email_id', waiting, 'queued'), /deferred may not become queued/);
    await write(outcome(later as Claim, 0, 'delivered'));
    t.equal(await status(waiting), 'sent');
  });

  t.test('a deferred recipient wakes at its time, in a job of its own', async (t) => {
    const id = await send('a@later.test', 'b@later.test', 'c@later.test');
    const [held] = await take(await node());
    t.ok(held);
    if (!held) return;
    const later = new Date(Date.now() + 60_000);
    await write(
      outcome(held, 0, 'delivered'),
      outcome(held, 1, 'deferred', later),
      outcome(held, 2, 'deferred', later),
    );
    t.equal(await status(id), 'queued');
    t.equal((await wakeDue(db, queue)).woken, 0, 'not yet');
    for (const address of ['b@later.test', 'c@later.test']) {
      await db.query({
        text: `UPDATE recipients SET next_attempt_at = now() - interval '1 ms' WHERE email_id = $1 AND address = $2`,
        values: [id, address],
      });
      t.equal((await wakeDue(db, queue)).woken, 1);
      t.equal((await wakeDue(db, queue)).woken, 0, 'once');
      const [again] = await take(await node());
      t.match(again?.recipients, [{ address, attempts: 1 }]);
      t.equal(again?.recipients.length, 1, 'without those that still wait');
      if (again) await write(outcome(again, 0, 'delivered'));
    }
    t.equal(await status(id), 'sent');
  });

  t.test('the sweeper frees mail that lost its job, and mail that no living node holds', async (t) => {
    const lost = await send('a@lost.test');
    const alive = await node();
    await db.query({ text: `DELETE FROM pgboss.job WHERE name = 'deliver'` });
    const kept = await send('a@kept.test');
    const [held] = await take(alive);
    t.equal(held?.emailId, kept);
    t.match(await sweep(db, null, 100), { freed: 1, next: null });
    t.equal((await wakeDue(db, queue)).woken, 1);
    t.equal((await take(await node()))[0]?.emailId, lost);

    await db.query({ text: 'DELETE FROM nodes' });
    t.equal((await sweep(db, null, 100)).freed, 2);
    t.equal((await wakeDue(db, queue)).woken, 2);
    const survivor = await node();
    const taken = await take(survivor);
    t.same(taken.map((entry) => entry.emailId).sort(), [lost, kept].sort());
    await write(...taken.map((entry) => outcome(entry, 0, 'delivered')));
  });

  t.test('mail that a node of the previous release leaves in a job, all but its first email, is freed', async (t) => {
    const ids = [await send('a@shared.test'), await send('b@shared.test')];
    const held = await take(await node());
    await write(...held.map((entry) => outcome(entry, 0, 'deferred', new Date(Date.now() - 1))));
    t.equal((await wakeDue(db, queue)).woken, 2);
    const [job, none] = await db.query<{ id: string; first: string }>({
      text: `UPDATE pgboss.job SET state = 'active' WHERE name = 'deliver' RETURNING id, data->>'emailId' AS first`,
    });
    t.equal(none, undefined, 'they share it');
    if (!job) return;
    const before = await node();
    await db.query({
      text: 'UPDATE recipients SET claimed_by = $1 WHERE email_id = $2',
      values: [before, job.first],
    });
    t.match(await sweep(db, null, 100), { freed: 1 });
    t.equal((await wakeDue(db, queue)).woken, 1);
    const taken = await take(await node());
    t.same(
      taken.map((entry) => entry.emailId),
      ids.filter((id) => id !== job.first),
    );
    const [older] = held.filter((entry) => entry.emailId === job.first);
    if (older) await write({ ...outcome(older, 0, 'delivered'), jobId: job.id, nodeId: before });
    await write(...taken.map((entry) => outcome(entry, 0, 'delivered')));
    for (const id of ids) t.equal(await status(id), 'sent');
    await db.query({ text: 'DELETE FROM pgboss.job WHERE id = $1', values: [job.id] });
  });

  t.test('the sweeper continues where it stopped', async (t) => {
    const ids = await sendAll(Array.from({ length: 25 }, (_, index) => [`a@s${index}.test`]));
    await db.query({ text: `DELETE FROM pgboss.job WHERE name = 'deliver'` });
    let freed = 0;
    let rounds = 0;
    for (let at: Awaited<ReturnType<typeof sweep>>['next'] = null; ; rounds += 1) {
      const result = await sweep(db, at, 10);
      freed += result.freed;
      at = result.next;
      if (!at) break;
    }
    t.equal(freed, ids.length);
    t.equal(rounds, 2);
    t.equal((await wakeDue(db, queue)).woken, ids.length);
    const taken = await take(await node());
    await write(...taken.map((entry) => outcome(entry, 0, 'delivered')));
  });

  t.test('a node considered dead changes nothing that others hold, but "delivered" stays true', async (t) => {
    const first = await send('a@zombie.test');
    const second = await send('b@zombie.test');
    const zombie = await node();
    const held = await take(zombie);
    await db.query({ text: `UPDATE nodes SET seen_at = now() - interval '1 hour' WHERE id = $1`, values: [zombie] });
    const living = await node();
    t.ok(await nodes.beat(db, living));
    await nodes.removeDead(db, unheard);
    t.notOk(await nodes.beat(db, zombie), 'it learns that it is considered dead');
    t.equal((await wakeDue(db, queue)).woken, 2);
    const taken = await take(living);
    t.equal(taken.length, 2);
    const of = (claims: Claim[], id: string) => claims.find((entry) => entry.emailId === id) as Claim;
    await write(outcome(of(held, first), 0, 'failed'));
    t.equal(await status(first), 'queued', 'what it believes failed is tried by a living node');
    await write(outcome(of(held, second), 0, 'delivered'));
    t.equal(await status(second), 'sent');
    await write(outcome(of(taken, first), 0, 'delivered'), outcome(of(taken, second), 0, 'failed'));
    t.equal(await status(first), 'sent');
    t.equal(await status(second), 'sent', 'and counts once');
  });

  t.test('what a node says of a claim that it no longer has changes nothing, though it has claimed anew', async (t) => {
    const id = await send('a@again.test');
    const [one, other] = [await node(), await node()];
    const [before] = await take(one);
    if (!before) throw new Error('nothing was taken');
    const deferred = outcome(before, 0, 'deferred', new Date(Date.now() - 1));
    await write(deferred);
    t.equal((await wakeDue(db, queue)).woken, 1);
    const [now] = await take(one);
    if (!now) throw new Error('nothing was taken');
    // As if the answer to the first COMMIT had been lost.
    await write(deferred, { ...outcome(before, 0, 'failed'), attempts: 2 });
    await write({ ...outcome(now, 0, 'failed'), nodeId: other });
    for (const gone of [before, { ...now, nodeId: other }]) {
      await giveBack(db, [gone]);
      await park(db, [gone], pausedUntil, 'another time');
    }
    t.match(await db.prisma.recipient.findFirst({ where: { emailId: id } }), {
      ...{ status: 'deferred', attempts: 1, claimedBy: one, jobId: now.jobId },
    });
    await write(outcome(now, 0, 'delivered'));
    t.equal(await status(id), 'sent');
  });

  t.test(
    'mail that crashes processes again and again is tried apart from other mail, and held in the end: QUE-02',
    async (t) => {
      const id = await send('a@poison.test');
      const find = () => db.prisma.recipient.findFirstOrThrow({ where: { emailId: id } });
      const held: { emailId: string; crashes: number }[] = [];
      /** A process takes it and crashes. */
      const crash = async () => {
        const dead = await node();
        t.match(await take(dead), [{ emailId: id }]);
        await db.query({ text: `UPDATE nodes SET seen_at = now() - interval '1 hour' WHERE id = $1`, values: [dead] });
        await nodes.removeDead(db, { onCrashes: (one) => held.push(one), onUnanswered: async () => undefined });
        return find();
      };
      const due = () =>
        db.query({
          text: `UPDATE recipients SET next_attempt_at = now() - interval '1 s' WHERE email_id = $1`,
          values: [id],
        });
      const apart: { fromMs: number; share: number }[] = [];
      for (let crashes = 1; crashes < 20; crashes += 1) {
        const before = Date.now();
        const { nextAttemptAt, ...left } = await crash();
        t.match(left, { crashes, waitingFor: null, claimedBy: null, jobId: null });
        const at = nextAttemptAt?.getTime() ?? 0;
        const waitsMs = at - Date.now();
        t.ok(waitsMs < (crashes < 3 ? 1 : crashes * 1_000), `${waitsMs} ms`);
        if (crashes >= 3) apart.push({ fromMs: at - before, share: waitsMs / (crashes * 1_000) });
        await due();
        t.equal((await wakeDue(db, queue)).woken, 1);
      }
      // By chance one of them happens less than once in a hundred thousand million runs.
      t.ok(Math.max(...apart.map(({ fromMs }) => fromMs)) > 2_000, 'from the third on it waits');
      t.ok(Math.min(...apart.map(({ share }) => share)) < 0.9, 'for a random time');
      t.strictSame(held, []);
      t.match(await crash(), { waitingFor: 'held: processes ended while they had it' });
      t.strictSame(held, [{ emailId: id, crashes: 20 }], 'it is reported');
      t.equal((await wakeDue(db, queue)).woken, 0, 'nobody takes it any more');
      const [email, recipients] = [await db.prisma.email.findUniqueOrThrow({ where: { id } }), [await find()]];
      const nothingElse = { returns: [], tls: new Map(), onHoldSince: null, delivers: true, objection: null };
      const told = explain({ email, recipients, attempts: [], ...nothingElse }, 3_600_000, new Date());
      t.match(told.summary, /until somebody decides: a process of this service ended 20 times in a row/);
      t.match(told.recipients, [{ cause: 'crashed', nextAttemptAt: null, advice: /release/ }]);

      const ids = [await send('a@held.test', 'b@held.test'), await send('c@held.test')];
      const holdAll = (emailId: string) =>
        db.query({
          text: 'UPDATE recipients SET waiting_for = $2, next_attempt_at = $3, job_id = NULL WHERE email_id = $1 AND position < 1',
          values: [emailId, heldNote, pausedUntil],
        });
      for (const one of ids) await holdAll(one);
      const states = async () => {
        const rows = await db.prisma.recipient.findMany({
          where: { emailId: { in: ids } },
          orderBy: { address: 'asc' },
        });
        return rows.map(({ status, waitingFor, lastResponse }) => `${status}, ${waitingFor ?? lastResponse}`);
      };
      t.match(await release(db, queue, holder, id, 'retry'), { released: 1 });
      const waits = `queued, ${heldNote}`;
      t.strictSame(await states(), [waits, 'queued, null', waits], 'others stay held');
      t.match(await release(db, queue, holder, ids[0] ?? '', 'failed'), { released: 1 });
      const failed = 'failed, taken for not delivered, as was decided';
      t.strictSame(await states(), [failed, 'queued, null', waits], 'what is not held is not decided about');
      t.match(await release(db, queue, holder, ids[1] ?? '', 'delivered'), { released: 1 });
      t.strictSame(await states(), [failed, 'queued, null', 'delivered, taken for delivered, as was decided']);
      await db.query({ text: 'DELETE FROM recipients WHERE email_id = ANY($1)', values: [ids] });
      await due();
      t.equal((await wakeDue(db, queue)).woken, 1);
      t.match(await crash(), { crashes: 1, waitingFor: null }, 'the count starts again');
      await due();
      await wakeDue(db, queue);
      const [last] = await take(await node());
      await write(outcome(last as Claim, 0, 'deferred', new Date(Date.now() + 60_000)));
      t.match(await find(), { crashes: 0 }, 'a finished attempt resets the count');
    },
  );

  t.test('subscribers are told of each step once, and of the end once every recipient is settled', async (t) => {
    const endpoint = await webhooks.create(
      db,
      account.id,
      { url: 'https://example.test/hook', events: [...webhooks.eventTypes] },
      new Keyring(Buffer.alloc(32)),
    );
    const told = async (emailId: string) =>
      (
        await db.query<{ event: string; payload: string }>({
          text: 'SELECT event, payload FROM webhook_deliveries WHERE webhook_id = $1 AND email_id = $2 ORDER BY id',
          values: [endpoint.webhook.id, emailId],
        })
      ).map(({ event, payload }) => ({ event, data: JSON.parse(payload).data }));
    const id = await send('a@told.test', 'b@told.test');
    t.match(await told(id), [
      { event: 'email.queued', data: { email_id: id, to: ['a@told.test', 'b@told.test'], status: 'queued' } },
    ]);
    const [held] = await take(await node());
    if (!held) throw new Error('nothing was taken');
    await write(outcome(held, 0, 'delivered'), outcome(held, 1, 'deferred', new Date()));
    t.match((await told(id)).slice(1), [
      {
        event: 'email.sent',
        data: { status: 'queued', recipients: [{ address: 'a@told.test', status: 'delivered' }] },
      },
      { event: 'email.delayed', data: { recipients: [{ address: 'b@told.test', response: 'answer to 1' }] } },
    ]);
    t.equal((await wakeDue(db, queue)).woken, 1);
    const [again] = await take(await node());
    if (!again) throw new Error('nothing was taken');
    await write({ ...outcome(again, 0, 'deferred', new Date()), attempts: 2 });
    t.equal((await told(id)).length, 3, 'a second deferral is not news');
    t.equal((await wakeDue(db, queue)).woken, 1);
    const [last] = await take(await node());
    if (!last) throw new Error('nothing was taken');
    await write(outcome(last, 0, 'delivered'));
    t.match((await told(id)).slice(3), [
      { event: 'email.sent', data: { recipients: [{ address: 'b@told.test' }] } },
      { event: 'email.delivered', data: { status: 'delivered' } },
    ]);

    const doubted = await send('a@held.test', 'b@retried.test');
    for (const one of await take(await node())) {
      const isHeld = one.destination === 'held.test';
      const due = isHeld ? pausedUntil : new Date(Date.now() + 3_600_000);
      await write({ ...outcome(one, 0, 'deferred', due), uncertain: true, waitingFor: isHeld ? heldNote : null });
    }
    t.match(
      (await told(doubted))
        .slice(1)
        .map(({ event, data }) => [event, data.recipients[0].address])
        .sort(),
      [
        ['email.delayed', 'b@retried.test'],
        ['email.uncertain', 'a@held.test'],
        ['email.uncertain', 'b@retried.test'],
      ],
      'one that is held for a decision is not delayed',
    );
    await webhooks.remove(db, account.id, endpoint.webhook.id);
  });

  t.test('a node that starts alone frees at once what dead nodes held', async (t) => {
    await send('a@alone.test');
    const dead = await node();
    await take(dead);
    await nodes.register(db, { id: newId(), hostname: 'test', roles: [] }, true, unheard);
    t.equal((await wakeDue(db, queue)).woken, 1);
  });

  t.test('a starting node frees what is held by nodes that are certainly dead, and by no others', async (t) => {
    const [dead, quiet] = [await node(), await node()];
    const ids = [await send('dead@one.test')];
    await take(dead);
    ids.push(await send('quiet@one.test'));
    await take(quiet);
    const unseen = (id: string, seconds: number) =>
      db.query({
        text: 'UPDATE nodes SET seen_at = now() - make_interval(secs => $2) WHERE id = $1',
        values: [id, seconds],
      });
    await unseen(dead, 70);
    // Perhaps no node could be seen until now.
    await unseen(quiet, 40);
    await node();
    const rows = await db.prisma.recipient.findMany({ where: { emailId: { in: ids } }, orderBy: { emailId: 'asc' } });
    t.same(
      rows.map(({ claimedBy }) => claimedBy),
      [null, quiet],
    );
  });
});
