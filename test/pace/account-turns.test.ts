import { mock } from 'node:test';
import t from 'tap';
import { AccountTurns } from '../../src/pace/account-turns.ts';
import { Tally } from '../../src/pace/tally.ts';
import { served } from '../http/scene.ts';
import { buildSender } from '../support/build.ts';
import { eventually, startTestNode } from '../support/node.ts';
import { encryptionKey } from '../support/shared-node.ts';

/** Work of accounts that goes on until it is ended. */
function workOf(turns: AccountTurns) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    begun,
    /** `a1` belongs to the account `a`. */
    begin: (name: string) =>
      turns.take(name.charAt(0), () => {
        begun.push(name);
        return new Promise<string>((resolve) => ends.set(name, () => resolve(name)));
      }),
    end: (name: string) => ends.get(name)?.(),
  };
}

const unavailable = { status: 503, headers: { 'Retry-After': '1' } };

const settled = () => new Promise(setImmediate);

/** That of the transaction that locks what the requests need. */
const ownConnection = 1;

t.test('an account has a limited number at once, and accounts take turns', async (t) => {
  const turns = new AccountTurns({ most: 3, mostOfAccount: 2, mostWaiting: 3, patienceMs: 60_000 });
  const { begun, begin, end } = workOf(turns);
  const all = ['a1', 'a2', 'a3', 'a4', 'a5', 'b1', 'b2', 'b3', 'c1'].map(begin);
  const tooMany = { ...unavailable, cause: { message: '3 such calls of one account wait already' } };
  t.match(await begin('a6').catch((error) => error), tooMany, 'no more of one account may wait');
  t.strictSame(begun.splice(0), ['a1', 'a2', 'b1'], 'two of one account, three in total');
  for (const [ended, next] of [
    ['a1', 'a3'],
    ['a2', 'b2'],
    ['b1', 'c1'],
    ['c1', 'a4'],
    ['a3', 'b3'],
    ['b2', 'a5'],
  ] as const) {
    end(ended);
    await settled();
    t.strictSame(begun.splice(0), [next], `after ${ended}`);
  }
  for (const name of ['a4', 'a5', 'b3']) end(name);
  t.strictSame(await Promise.all(all), ['a1', 'a2', 'a3', 'a4', 'a5', 'b1', 'b2', 'b3', 'c1']);
  const later = begin('d1');
  end('d1');
  t.equal(await later, 'd1');
});

t.test('work that gets no turn in time is refused, and work that fails gives its turn back', async (t) => {
  const turns = new AccountTurns({ most: 1, mostOfAccount: 1, mostWaiting: 3, patienceMs: 50 });
  const { begun, begin, end } = workOf(turns);
  const first = begin('a1');
  t.match(await begin('b1').catch((error) => error), unavailable);
  end('a1');
  t.equal(await first, 'a1');
  await t.rejects(
    turns.take('a', () => Promise.reject(new Error('failed'))),
    { message: 'failed' },
  );
  const last = begin('b2');
  end('b2');
  t.equal(await last, 'b2');
  t.strictSame(begun, ['a1', 'b2'], 'refused work is not done later');
});

t.test('one that gets no turn in time leaves the others of its account in line', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const turns = new AccountTurns({ most: 1, mostOfAccount: 1, mostWaiting: 3, patienceMs: 1_500 });
  const { begun, begin, end } = workOf(turns);
  const first = begin('a1');
  const late = begin('a2');
  mock.timers.tick(500);
  const others = [begin('a3'), begin('a4')];
  mock.timers.tick(1_000);
  const cause = { message: 'no turn among the calls that wait for the database within 1.5 s' };
  t.match(await late.catch((error) => error), { ...unavailable, cause });
  for (const name of ['a1', 'a3', 'a4']) {
    end(name);
    await settled();
  }
  t.strictSame(await Promise.all([first, ...others]), ['a1', 'a3', 'a4']);
  t.strictSame(begun, ['a1', 'a3', 'a4']);
});

t.test('DOS: accounts that have nothing under way cost those that have something no look', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  let looks = 0;
  const turns = new AccountTurns({
    most: 1,
    get mostOfAccount() {
      looks += 1;
      return 1;
    },
    mostWaiting: 3,
    patienceMs: 1_000,
  });
  const names = (kind: string) => Array.from({ length: 500 }, (_, index) => `${kind}${index}`);
  const looksOf = async () => {
    looks = 0;
    await turns.take('last', async () => undefined);
    return looks;
  };
  for (const name of names('served')) await turns.take(name, async () => undefined);
  t.ok((await looksOf()) < 10, `${looks} looks, after many were served`);
  const held = Promise.withResolvers<void>();
  const first = turns.take('first', () => held.promise);
  const refused = names('refused').map((name) => turns.take(name, async () => undefined));
  mock.timers.tick(1_000);
  for (const { status } of await Promise.allSettled(refused)) if (status !== 'rejected') t.fail('it had no turn');
  held.resolve();
  await first;
  t.ok((await looksOf()) < 10, `${looks} looks, after many were refused`);
});

t.test('the limits hold, and are used up again, however often work has waited or failed', async (t) => {
  const turns = new AccountTurns({ most: 5, mostOfAccount: 2, mostWaiting: 30, patienceMs: 60_000 });
  for (const wave of ['first', 'second', 'third']) {
    const running = new Tally<string>();
    const most = { together: 0, ofAccount: 0 };
    const take = (account: string, index: number) =>
      turns.take(account, async () => {
        for (const count of ['all', account]) running.add(count, 1);
        most.together = Math.max(most.together, running.of('all'));
        most.ofAccount = Math.max(most.ofAccount, running.of(account));
        for (let turn = (index % 4) * 2; turn > 0; turn--) await settled();
        for (const count of ['all', account]) running.add(count, -1);
        if (index % 7 === 0) throw new Error('failed');
      });
    const crowd = [...'a'.repeat(30), ...'b'.repeat(15), ...'c'.repeat(8), ...'d'.repeat(3)].map(take);
    await Promise.allSettled(crowd);
    // One after the other, while the one before is under way.
    const few: Promise<void>[] = [];
    for (let index = 0; index < 12; index++) {
      few.push(take('e', index).catch(() => undefined));
      await settled();
    }
    await Promise.all(few);
    t.strictSame(most, { together: 5, ofAccount: 2 }, `${wave} wave`);
  }
});

t.test('an account that reads slowly leaves the others their connections: DOS-15', async (t) => {
  const node = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const [slow, second, third, other] = [
    await buildSender(node.db, encryptionKey),
    await buildSender(node.db, encryptionKey),
    await buildSender(node.db, encryptionKey),
    await buildSender(node.db, encryptionKey),
  ];
  const logIn = async (account: object) =>
    (await node.call('POST', '/api/v1/auth/login', { body: account })).body.token as string;
  const [slowToken, otherToken] = [await logIn(slow.account), await logIn(other.account)];
  const reads = await node.db.transaction(async (tx) => {
    // A full machine takes longer than a transaction may be idle.
    await tx.query({ text: 'SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE templates' });
    const read = (many: number, by: { key: string } | { token: string }) =>
      Array.from({ length: many }, () => served(() => node.call('GET', '/api/v1/templates', by)));
    const begun = [...read(20, slow), ...read(60, { token: slowToken }), ...read(20, second)];
    await eventually(async () => node.db.connections().busy >= ownConnection + 6);
    t.equal((await node.call('GET', '/api/v1/emails', { token: otherToken })).status, 200, 'a third account reads');
    begun.push(...read(20, third));
    await eventually(async () => node.db.connections().busy >= ownConnection + 7);
    const body = { from: other.from, to: ['a@b.test'], subject: 's', text: 't' };
    t.equal((await node.call('POST', '/api/v1/emails', { key: other.key, body })).status, 200);
    const own = { ...body, from: slow.from };
    t.equal((await node.call('POST', '/api/v1/emails', { key: slow.key, body: own })).status, 200, 'its own as well');
    const batch = { emails: [own, own] };
    t.equal(
      (await node.call('POST', '/api/v1/emails/batch', { key: slow.key, body: batch })).status,
      200,
      'a batch too',
    );
    t.ok(node.db.connections().waiting === 0, 'nobody waits for a connection');
    return begun;
  });
  const answers = await Promise.all(reads);
  t.strictSame([...new Set(answers.map(({ status }) => status))], [200], 'all that waited are answered');
});

t.test('for repeated requests, at most two answers per account are in memory', async (t) => {
  const node = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const [slow, other] = [await buildSender(node.db, encryptionKey), await buildSender(node.db, encryptionKey)];
  const body = { from: slow.from, to: ['a@b.test'], subject: 's', text: 't' };
  const attachments = [{ filename: 'a.txt', content: 'eA==' }];
  const sent = await node.call('POST', '/api/v1/emails', { key: slow.key, body: { ...body, attachments } });
  const resends = await node.db.transaction(async (tx) => {
    await tx.query({ text: 'SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE attachments' });
    const path = `/api/v1/emails/${sent.body.email.id}/resend`;
    const all = Array.from({ length: 40 }, () => served(() => node.call('POST', path, { key: slow.key })));
    await eventually(async () => node.db.connections().busy >= ownConnection + 2);
    const others = { ...body, from: other.from };
    t.equal((await node.call('POST', '/api/v1/emails', { key: other.key, body: others })).status, 200);
    t.equal(node.db.connections().waiting, 0);
    return all;
  });
  const answers = await Promise.all(resends);
  t.strictSame([...new Set(answers.map(({ status }) => status))], [200]);
});
