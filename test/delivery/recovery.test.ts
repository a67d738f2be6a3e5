import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/clock.ts';
import { Unanswered } from '../../src/core/nodes/unanswered.ts';
import { type Claim, claim } from '../../src/core/recipients/recipients.ts';
import { settledAtOnce } from '../../src/core/recipients/settlement-events.ts';
import { heldNote } from '../../src/core/recipients/waiting-for.ts';
import { recover } from '../../src/delivery/attempt/recovery.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildNode, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';

const policy = { scheduleMs: [60_000], forMs: 3_600_000 };

/** A sender, a node that can hold claims, and a folder of journals. */
async function prepare(t: Test) {
  const { db, queue } = await openQueue(t);
  const folder = mkdtempSync(join(tmpdir(), 'sendwright-recovery-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  const nodeId = newId();
  await buildNode(db, nodeId);
  return { db, queue, folder, account, domain, nodeId };
}

t.test('of several dots for one recipient, the one that was accepted counts, or else the last', async (t) => {
  const { db, queue, folder, account, domain, nodeId } = await prepare(t);

  const answered = (recipient: string, code: number) => ({
    ...{ recipient, outcome: code === 250 ? 'delivered' : 'deferred', phase: 'dot', reason: `said ${code}` },
    ...{ reply: { code, enhanced: null, text: `said ${code}` }, enhanced: null, class: 'other', uncertain: false },
  });
  /** A claim whose dots had these outcomes, in order; null means that no answer arrived. */
  const recoverAfter = async (codes: (number | null)[]) => {
    const request = requestOf(`s@${domain}`, [`${newId()}@a.test`]);
    await accept(db, queue, holderOf(account), [request]);
    const [held] = await db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
    const address = held?.recipients[0]?.address ?? '';
    const lines = codes.flatMap((code, n) => {
      const session = {
        ...{ startedAt: new Date(Date.now() + n), host: `mx${n}.test`, remoteAddress: '127.0.0.1', localAddress: null },
        ...{ tls: null, verification: 'none', reused: false },
      };
      const dot = { n, dot: { claim: held, session } };
      return code === null ? [dot] : [dot, { n, results: [answered(address, code)] }];
    });
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    writeFileSync(join(folder, `1-${newId()}.jsonl`), text);
    const found = await recover({ db, queue, policy, clock: systemClock, log: silentLog }, { folder, alone: true });
    t.same(readdirSync(folder), []);
    const { status, lastResponse } = await db.prisma.recipient.findFirstOrThrow({ where: { address } });
    return { found, status, lastResponse };
  };

  t.match(await recoverAfter([null, 250]), { found: 2, status: 'delivered', lastResponse: /said 250/ });
  t.match(await recoverAfter([250, null]), { found: 2, status: 'delivered', lastResponse: /said 250/ });
  t.match(await recoverAfter([null, 451]), { found: 2, status: 'deferred', lastResponse: /said 451/ });
});

t.test(
  'what must not go out twice is held after a dot without an answer, and not after one that was not written',
  async (t) => {
    const { db, queue, folder, account, domain, nodeId } = await prepare(t);
    const recoverAfter = async (results: (recipient: string) => object[] | null) => {
      const request = { ...requestOf(`s@${domain}`, [`${newId()}@a.test`]), onUncertain: 'hold' as const };
      await accept(db, queue, holderOf(account), [request]);
      const [held] = await db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
      if (!held) throw new Error('it was not claimed');
      const address = held.recipients[0]?.address ?? '';
      t.ok(await new Unanswered(db).note(held, [address]));
      const session = {
        ...{ startedAt: new Date(), host: 'mx.test', remoteAddress: '127.0.0.1', localAddress: null },
        ...{ tls: null, verification: 'none', reused: false },
      };
      const answer = results(address);
      const lines = [{ n: 0, dot: { claim: held, session } }, ...(answer ? [{ n: 0, results: answer }] : [])];
      writeFileSync(join(folder, `1-${newId()}.jsonl`), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
      await recover({ db, queue, policy, clock: systemClock, log: silentLog }, { folder, alone: true });
      const { status, waitingFor, attempts } = await db.prisma.recipient.findFirstOrThrow({ where: { address } });
      return { status, waitingFor, attempts };
    };
    t.strictSame(await recoverAfter(() => null), { status: 'deferred', waitingFor: heldNote, attempts: 1 });
    const notWritten = { outcome: 'deferred', phase: 'local', reply: null, enhanced: null, class: 'other' };
    t.strictSame(
      await recoverAfter((recipient) => [{ recipient, ...notWritten, reason: 'stopped', uncertain: false }]),
      { status: 'deferred', waitingFor: null, attempts: 1 },
    );
  },
);

t.test('what is wrong with the database and not with an email ends the start, and the journal stays', async (t) => {
  const { db, queue, folder, account, domain, nodeId } = await prepare(t);
  await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['a@a.test'])]);
  const [held] = await db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
  const session = {
    ...{ startedAt: new Date(), host: 'mx.test', remoteAddress: '127.0.0.1', localAddress: null },
    ...{ tls: null, verification: 'none', reused: false },
  };
  writeFileSync(join(folder, `1-${newId()}.jsonl`), `${JSON.stringify({ n: 0, dot: { claim: held, session } })}\n`);
  const start = () => recover({ db, queue, policy, clock: systemClock, log: silentLog }, { folder, alone: true });
  await db.query({ text: 'ALTER TABLE attempts RENAME COLUMN recipient TO of_a_later_release' });
  await t.rejects(start(), { code: '42703' }, 'going on would send all of the mail twice');
  t.equal(readdirSync(folder).length, 1);
  await db.query({ text: 'ALTER TABLE attempts RENAME COLUMN of_a_later_release TO recipient' });
  const gone = Object.assign(new Error('the connection was lost'), { code: '08006' });
  const away = { ...db, transaction: () => Promise.reject(gone) };
  await t.rejects(
    recover({ db: away, queue, policy, clock: systemClock, log: silentLog }, { folder, alone: true }),
    gone,
  );
  t.equal(readdirSync(folder).length, 1, 'so does a database that is away');
  t.equal(await start(), 1);
  t.same(readdirSync(folder), []);
});

t.test('an email whose journal cannot be recorded stops neither a start nor other emails, and is kept', async (t) => {
  const { db, queue, folder, account, domain, nodeId } = await prepare(t);
  const to = ['a@a.test', 'b@b.test', 'c@c.test'];
  const requests = to.map((address) => requestOf(`s@${domain}`, [address]));
  await accept(db, queue, holderOf(account), requests);
  const claims = await db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
  const session = {
    ...{ startedAt: new Date(), host: 'mx.test', remoteAddress: '127.0.0.1', localAddress: null },
    ...{ tls: null, verification: 'none', reused: false },
  };
  const results = (held: Claim) =>
    held.recipients.map(({ address: recipient }) => ({
      ...{ recipient, outcome: 'delivered', phase: 'dot', reason: 'taken', reply: null, enhanced: null },
      ...{ class: 'other', uncertain: false },
    }));
  const isOfB = (held: Claim) => held.recipients[0]?.address === 'b@b.test';
  // As many as are recorded together, so that those after it are recorded apart.
  const many = Array.from({ length: settledAtOnce }, (_, n) => ({
    position: n + 1,
    address: `${n}@b.test`,
    attempts: 0,
  }));
  const ofB = claims.filter(isOfB).map((held) => ({ ...held, recipients: [...held.recipients, ...many] }));
  const lines = [...ofB, ...claims.filter((held) => !isOfB(held))].flatMap((held, n) => [
    { n, dot: { claim: held, session } },
    { n, results: results(held) },
  ]);
  writeFileSync(join(folder, `1-${newId()}.jsonl`), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const start = () => recover({ db, queue, policy, clock: systemClock, log: silentLog }, { folder, alone: true });
  const delivered = async () => {
    const recipients = await db.prisma.recipient.findMany({ where: { status: 'delivered' } });
    return recipients.map(({ address }) => address).sort();
  };

  await db.query({ text: `ALTER TABLE attempts ADD CONSTRAINT not_b CHECK (recipient <> 'b@b.test')` });
  t.equal(await start(), 2);
  t.strictSame(await delivered(), ['a@a.test', 'c@c.test']);
  t.equal(readdirSync(folder).length, 1);
  await db.query({ text: 'ALTER TABLE attempts DROP CONSTRAINT not_b' });
  t.equal(await start(), 1 + many.length);
  t.strictSame(await delivered(), to);
  t.same(readdirSync(folder), []);
});

t.test('a journal that cannot be read, or only in part, costs nothing of what can be read, and no start', async (t) => {
  const { db, queue, folder, account, domain, nodeId } = await prepare(t);
  const to = ['a@a.test', 'b@b.test'];
  await accept(
    db,
    queue,
    holderOf(account),
    to.map((address) => requestOf(`s@${domain}`, [address])),
  );
  const claims = await db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
  const session = {
    ...{ startedAt: new Date(), host: 'mx.test', remoteAddress: '127.0.0.1', localAddress: null },
    ...{ tls: null, verification: 'none', reused: false },
  };
  const taken = { outcome: 'delivered', phase: 'dot', reason: 'taken', reply: null, enhanced: null, class: 'other' };
  const lines = claims.map((held, n) => {
    const results = held.recipients.map(({ address: recipient }) => ({ recipient, ...taken, uncertain: false }));
    return `${JSON.stringify({ n, dot: { claim: held, session } })}\n${JSON.stringify({ n, results })}\n`;
  });
  // The disk was full once, and the process was killed within a line.
  const torn = '{"n":7,"dot":{"cla';
  writeFileSync(join(folder, `1-${newId()}.jsonl`), `${lines.join(`${torn}\n`)}${torn}`);
  const unreadable = `1-${newId()}.jsonl`;
  mkdirSync(join(folder, unreadable));
  const found = await recover({ db, queue, policy, clock: systemClock, log: silentLog }, { folder, alone: true });
  t.equal(found, 2);
  t.equal(await db.prisma.recipient.count({ where: { status: 'delivered' } }), 2);
  t.strictSame(readdirSync(folder), [unreadable], 'which somebody can look at');
});

t.test(
  'two processes that start at once in the same folder both cope with a journal that one of them removes',
  async (t) => {
    const { db, queue } = await openQueue(t);
    const folder = mkdtempSync(join(tmpdir(), 'sendwright-recovery-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, `1-${newId()}.jsonl`), '');
    const start = () => recover({ db, queue, policy, clock: systemClock, log: silentLog }, { folder, alone: true });
    t.same(await Promise.all([start(), start()]), [0, 0]);
    t.same(readdirSync(folder), []);
  },
);
