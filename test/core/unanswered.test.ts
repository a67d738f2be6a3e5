import t, { type Test } from 'tap';
import * as nodes from '../../src/core/nodes/nodes.ts';
import { Unanswered } from '../../src/core/nodes/unanswered.ts';
import { type Claim, claim, release } from '../../src/core/recipients/recipients.ts';
import { type Settlement, settle } from '../../src/core/recipients/settlement.ts';
import { heldNote } from '../../src/core/recipients/waiting-for.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildNode, buildVerifiedDomain, holderOf, unheard } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { decided } from '../support/decided.ts';

/** A node that is sending an email to these addresses. */
async function prepare(t: Test, to: string[]) {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  const request = requestOf(`s@${domain}`, to, { onUncertain: 'hold' });
  await accept(db, queue, holderOf(account), [request]);
  const nodeId = newId();
  await buildNode(db, nodeId);
  const claims = await db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
  const rows = async () => {
    const recipients = await db.prisma.recipient.findMany({ orderBy: { position: 'asc' } });
    return recipients.map(({ status, attempts, waitingFor, claimedBy }) => [status, attempts, waitingFor, claimedBy]);
  };
  return { db, queue, nodeId, held: claims[0] as Claim, claims, unanswered: new Unanswered(db), rows };
}

t.test('when a node dies, recipients whose final dot may have been sent are held, and no others', async (t) => {
  const { db, queue, nodeId, held, unanswered, rows } = await prepare(t, ['a@a.test', 'b@a.test', 'c@a.test']);
  t.ok(await unanswered.note(held, ['c@a.test', 'a@a.test']));
  await nodes.removeCrashed(db, nodeId, nodes.reportHeld(silentLog, queue));
  t.same(await rows(), [
    ['deferred', 1, heldNote, null],
    ['queued', 0, null, null],
    ['deferred', 1, heldNote, null],
  ]);
  t.notOk(await unanswered.note(held, ['b@a.test']), 'from then on it may send none');
  t.notOk(await unanswered.note(held, ['a@a.test']));
  const late = { ...held, nodeId, emailId: held.emailId, position: 0, status: 'delivered', attempts: 1 } as const;
  const outcome = {
    nextAttemptAt: null,
    waitingFor: null,
    uncertain: false,
    lastResponse: '250 taken',
    suppress: null,
  };
  await db.transaction((tx) => settle(tx, queue, [{ ...late, ...outcome }], []));
  t.match((await rows())[0], ['delivered', 1, null, null], 'an acceptance is true, whoever reports it later');
});

t.test('the recorded outcome of an attempt replaces the note', async (t) => {
  const { db, queue, nodeId, held, unanswered, rows } = await prepare(t, ['a@a.test', 'b@a.test']);
  t.ok(await unanswered.note(held, ['a@a.test', 'b@a.test']));
  const outcomeOf = (position: number, status: Settlement['status']): Settlement => ({
    ...decided(status),
    ...{ nodeId, emailId: held.emailId, position, jobId: held.jobId, attempts: 1, waitingFor: null },
    ...{ uncertain: false, lastResponse: 'answered', suppress: null },
  });
  await db.transaction((tx) => settle(tx, queue, [outcomeOf(0, 'delivered'), outcomeOf(1, 'deferred')], []));
  await nodes.removeCrashed(db, nodeId, unheard);
  t.same(await rows(), [
    ['delivered', 1, null, null],
    ['deferred', 1, null, null],
  ]);
});

t.test('a node that stops before it can record an outcome leaves the email held', async (t) => {
  const { db, queue, nodeId, held, unanswered, rows } = await prepare(t, ['a@a.test']);
  t.ok(await unanswered.note(held, ['a@a.test']));
  await nodes.unregister(db, nodeId, nodes.reportHeld(silentLog, queue));
  t.same(await rows(), [['deferred', 1, heldNote, null]]);
});

t.test('nothing is noted for a claim that was given back', async (t) => {
  const { db, nodeId, held, unanswered, rows } = await prepare(t, ['a@a.test']);
  await release(db, [held]);
  t.notOk(await unanswered.note(held, ['a@a.test']));
  // The node may have the recipient again by then, in another claim, with an attempt of its own.
  await db.query({ text: 'UPDATE recipients SET job_id = $1, claimed_by = $2', values: [newId(), nodeId] });
  t.notOk(await unanswered.note(held, ['a@a.test']));
  await nodes.unregister(db, nodeId, unheard);
  t.same(await rows(), [['queued', 0, null, null]]);
});

t.test('no final dot is sent for some of the recipients that it was for', async (t) => {
  const { db, held, unanswered } = await prepare(t, ['a@a.test', 'b@a.test']);
  await db.query({ text: 'UPDATE recipients SET job_id = NULL, claimed_by = NULL WHERE position = 1' });
  t.notOk(await unanswered.note(held, ['a@a.test', 'b@a.test']), 'another node may have the other one');
  t.ok(await unanswered.note(held, ['a@a.test']));
});

t.test('a locked recipient does not block the others', async (t) => {
  const { db, claims, unanswered } = await prepare(t, ['a@a.test', 'a@b.test', 'a@c.test']);
  const [held, ...others] = claims as [Claim, Claim, Claim];
  const noted = (one: Claim) => unanswered.note(one, [one.recipients[0]?.address ?? '']).catch((error) => error.code);
  const first = noted(held);
  // While the first is noted, the others are collected.
  await db.transaction(async (tx) => {
    await tx.query({
      text: 'SELECT FROM recipients WHERE address = $1 FOR UPDATE',
      values: [others[0].recipients[0]?.address],
    });
    t.same(await Promise.all([first, ...others.map(noted)]), [true, '55P03', true]);
  });
  t.equal(await noted(others[0]), true, 'it is noted once it is free');
});

t.test('a silent database is not asked about each one separately', async (t) => {
  const { db, claims } = await prepare(t, ['a@a.test', 'a@b.test', 'a@c.test']);
  let asked = 0;
  const silent: typeof db.transaction = () => {
    asked += 1;
    return Promise.reject(new Error('Query read timeout'));
  };
  const unanswered = new Unanswered({ ...db, transaction: silent });
  const ends = await Promise.allSettled(claims.map((one) => unanswered.note(one, [one.recipients[0]?.address ?? ''])));
  for (const end of ends) t.match(end, { status: 'rejected', reason: { message: 'Query read timeout' } });
  t.ok(asked <= 3, `${asked} transactions for three`);
});
