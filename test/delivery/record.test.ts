import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/clock.ts';
import type { AttemptRow } from '../../src/core/recipients/attempts.ts';
import { type Claim, claim } from '../../src/core/recipients/recipients.ts';
import type { Settlement } from '../../src/core/recipients/settlement.ts';
import type { Database } from '../../src/db/client.ts';
import { recover } from '../../src/delivery/attempt/recovery.ts';
import { createRecorder } from '../../src/delivery/outcome/record.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import type { Queue } from '../../src/queue.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildNode, buildSender, holderOf } from '../support/build.ts';
import { buildClaim } from '../support/claim.ts';
import { openQueue } from '../support/db.ts';
import { decided } from '../support/decided.ts';
import { testKey } from '../support/keys.ts';
import { untilOneWaits } from '../support/locks.ts';

/** The same database, but the connection of the first transaction is lost before the server has committed it. */
function losingFirst(db: Database) {
  const [done, committing] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let commit: Promise<unknown> | null = null;
  const losing: Database = {
    ...db,
    async transaction(work) {
      if (commit !== null) return db.transaction(work);
      commit = db.transaction(async (tx) => {
        await work(tx);
        done.resolve();
        await committing.promise;
      });
      await done.promise;
      throw new Error('Connection terminated unexpectedly');
    },
  };
  const finish = () => {
    committing.resolve();
    return commit;
  };
  return { losing, finish };
}

/** An email that a node has claimed. */
async function prepare(t: Test) {
  const { db, queue } = await openQueue(t);
  const nodeId = newId();
  await buildNode(db, nodeId);
  return { db, queue, held: await claimed(db, queue, nodeId, 'b@x.test') };
}

/** An email of a new account. */
async function claimed(db: Database, queue: Queue, nodeId: string, to: string): Promise<Claim> {
  const sender = await buildSender(db, testKey(5));
  await accept(db, queue, holderOf(sender.account), [requestOf(sender.from, [to])]);
  const [held] = await db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
  if (!held) throw new Error('nothing was claimed');
  return held;
}

const told = { accountId: null, verdict: 'nothing', reply: null, host: null } as const;

const settlementOf = ({ nodeId, jobId, emailId }: Claim, status: 'delivered' | 'deferred'): Settlement => ({
  ...decided(status),
  ...{ nodeId, jobId, emailId, position: 0, attempts: 1, waitingFor: null, uncertain: false },
  ...{ lastResponse: 'said', suppress: null },
});

const attemptOf = (emailId: string, recipient: string, outcome: 'delivered' | 'deferred'): AttemptRow => ({
  ...{ emailId, recipient, number: 1, at: new Date(), durationMs: 5, mxHost: 'mx.x.test' },
  ...{ remoteAddress: null, localAddress: null, tlsVersion: null, tlsCipher: null, verification: 'none' },
  ...{ phase: 'dot', outcome, uncertain: false, replyCode: null, enhancedCode: null, reply: 'said' },
  ...{ reason: 'said', classification: null, conversation: null },
});

for (const { whose, status } of [
  { whose: 'of a recipient that still belongs to this node', status: 'delivered' },
  { whose: 'of a recipient that another node has taken over', status: 'deferred' },
] as const) {
  t.test(`an outcome ${whose} is logged once, even while its first COMMIT is still in progress`, async (t) => {
    const { db, queue, held } = await prepare(t);
    if (status === 'deferred') await db.query({ text: 'UPDATE recipients SET claimed_by = $1', values: [newId()] });
    const settlement = settlementOf(held, status);
    const attempt = attemptOf(held.emailId, 'b@x.test', status);
    const { losing, finish } = losingFirst(db);
    const recorder = createRecorder(losing, queue, silentLog);
    const written = recorder.add({ settlements: [settlement], attempts: [attempt], ...told });
    await Promise.race([written, untilOneWaits(db)]);
    await finish();
    t.equal(await written, true);
    t.equal(await db.prisma.attempt.count(), 1);
    t.match(await db.prisma.recipient.findFirst(), { status: status === 'deferred' ? 'queued' : status });
  });
}

t.test("an outcome that cannot be recorded holds up no other account's, and is not lost", async (t) => {
  const { db, queue, held } = await prepare(t);
  const other = await claimed(db, queue, held.nodeId, 'c@y.test');
  await db.query({ text: `ALTER TABLE attempts ADD CONSTRAINT not_b CHECK (recipient <> 'b@x.test')` });
  const recorder = createRecorder(db, queue, silentLog);
  const add = (one: Claim, recipient: string) => {
    const attempts = [attemptOf(one.emailId, recipient, 'delivered')];
    return recorder.add({ settlements: [settlementOf(one, 'delivered')], attempts, ...told });
  };
  const first = add(held, 'b@x.test');
  t.equal(await add(other, 'c@y.test'), true);
  t.match(await db.prisma.email.findMany({ where: { status: 'sent' } }), [{ id: other.emailId }]);
  await db.query({ text: 'ALTER TABLE attempts DROP CONSTRAINT not_b' });
  t.equal(await first, true);
  t.equal(await db.prisma.email.count({ where: { status: 'sent' } }), 2);
});

t.test("an account with many outcomes does not hold up another account's", async (t) => {
  const { db, queue } = await openQueue(t);
  const recorder = createRecorder(db, queue, silentLog);
  let written = 0;
  const add = (accountId: string) => {
    return recorder.add({ ...told, accountId, settlements: [settlementOf(buildClaim(), 'delivered')], attempts: [] });
  };
  const many = Array.from({ length: 1_000 }, () => add('many').then(() => (written += 1)));
  await add('one');
  t.ok(written < many.length / 2, `${written} of the others before it`);
  await Promise.all(many);
});

t.test(
  'if an email has many recipients, and events for each name all addresses, its outcomes are not written with those of others',
  async (t) => {
    const { db, queue } = await openQueue(t);
    const sizes: number[] = [];
    const counted: Database = {
      ...db,
      transaction: (work) =>
        db.transaction((tx) =>
          work({
            query: (statement) => {
              const [first] = statement.values ?? [];
              if (statement.name === 'recipients-settle' && Array.isArray(first)) sizes.push(first.length);
              return tx.query(statement);
            },
          }),
        ),
    };
    const recorder = createRecorder(counted, queue, silentLog);
    const claim = buildClaim();
    const add = (recipients: number) => {
      const settlements = Array.from({ length: recipients }, (_, position) => ({
        ...settlementOf(claim, 'delivered'),
        position,
      }));
      return recorder.add({ ...told, settlements, attempts: [] });
    };
    await Promise.all([
      ...Array.from({ length: 10 }, () => add(1)),
      add(100),
      add(100),
      ...Array.from({ length: 10 }, () => add(10)),
    ]);
    t.strictSame(sizes, [10, 100, 100, 100]);
  },
);

t.test("what a journal says is logged once, even while an earlier reader's COMMIT is still in progress", async (t) => {
  const { db, queue, held } = await prepare(t);
  const folder = mkdtempSync(join(tmpdir(), 'sendwright-record-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const session = {
    ...{ startedAt: new Date(), host: 'mx.x.test', remoteAddress: '127.0.0.1', localAddress: null },
    ...{ tls: null, verification: 'none', reused: false },
  };
  writeFileSync(join(folder, `1-${newId()}.jsonl`), `${JSON.stringify({ n: 0, dot: { claim: held, session } })}\n`);
  const policy = { scheduleMs: [60_000], forMs: 3_600_000 };
  const read = (from: Database) =>
    recover({ db: from, queue, policy, clock: systemClock, log: silentLog }, { folder, alone: true });
  const { losing, finish } = losingFirst(db);
  await t.rejects(read(losing), { message: /terminated/ });
  const again = read(db);
  await Promise.race([again, untilOneWaits(db)]);
  await finish();
  t.equal(await again, 0);
  t.equal(await db.prisma.attempt.count(), 1);
});
