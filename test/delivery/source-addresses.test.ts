import t, { type Test } from 'tap';
import { parsePlan, parseSendingIps, parseWarmUp, withWarmUp } from '../../src/config/sending-ips.ts';
import { forgetOld, giveBack, list, listOnce, report, reserve } from '../../src/core/sources/warm-up.ts';
import type { Database, Statement } from '../../src/db/client.ts';
import { type Choice, type Source, SourceAddresses, type Want } from '../../src/delivery/pools/source-addresses.ts';
import { WarmUpBudget } from '../../src/delivery/pools/warm-up-budget.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import type { SendingPools } from '../../src/smtp/connections/sending-pools.ts';
import { buildNode } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';

const pools = (ips: string, fresh: string, plan: string): SendingPools => ({
  addresses: withWarmUp(parseSendingIps(ips), fresh === '' ? new Map() : parseWarmUp(fresh)),
  plan: parsePlan(plan),
});

/** Counts statements, and lets the test move the clock. */
async function scene(t: Test) {
  const db = await openDatabase(t);
  const told = { statements: 0, now: new Date('2026-11-20T12:00:00Z') };
  const counting: Database = {
    ...db,
    query: (statement) => {
      told.statements += 1;
      return db.query(statement);
    },
  };
  const node = (config: SendingPools) => new SourceAddresses(counting, config, silentLog, { now: () => told.now });
  return { db, told, node };
}

const wants = (count: number, { messages = 1, pool = null as string | null, marketing = false } = {}): Want[] =>
  Array.from({ length: count }, () => ({
    stream: { type: marketing ? 'marketing' : 'transactional', pool },
    messages,
  }));

const sources = (choices: Choice[]): Source[] =>
  choices.flatMap((one) => ('source' in one && one.source !== null ? [one.source] : []));
const closings = (choices: Choice[]) => choices.flatMap((one) => ('closed' in one ? [one.closed] : []));
const from = (choices: Choice[]) => sources(choices).map(({ addresses }) => addresses.join(' '));

const delivered = (localAddress: string, recipient = 'a@b.test') => ({
  phase: 'dot' as const,
  localAddress,
  recipient,
});

t.test('the pool is that of the domain, or else of the type of mail', async (t) => {
  const { node, told } = await scene(t);
  const all = node(pools('127.0.0.1,marketing=127.0.0.6,bulk=127.0.0.7', '', '1'));
  const ask = async (of: SourceAddresses, want: Want[]) => sources(await of.choose(want))[0];
  t.match(await ask(all, wants(1)), { addresses: ['127.0.0.1'], note: 'pool default: from 127.0.0.1' });
  t.match(await ask(all, wants(1, { marketing: true })), { addresses: ['127.0.0.6'] });
  t.match(await ask(all, wants(1, { marketing: true, pool: 'bulk' })), { addresses: ['127.0.0.7'] });
  t.match(await ask(all, wants(1, { pool: 'gone' })), {
    addresses: ['127.0.0.1'],
    note: 'The pool gone of the domain is not configured on this node; pool default: from 127.0.0.1',
  });
  const none = node(pools('b=127.0.0.8,a=127.0.0.9', '', '1'));
  t.match(await ask(none, wants(1, { marketing: true })), { addresses: ['127.0.0.8'] }, 'the first');
  t.same(await node({ addresses: [], plan: [] }).choose(wants(2)), [{ source: null }, { source: null }]);
  t.equal(told.statements, 0, 'nothing is asked while no address is new');
});

t.test(
  'if there is one pool with at most one address per family, all mail leaves from the same addresses',
  async (t) => {
    const { node } = await scene(t);
    t.ok(node({ addresses: [], plan: [] }).areOne);
    const ones: Record<string, boolean> = { '127.0.0.1': true, '127.0.0.1,::1': true, '127.0.0.1,127.0.0.2': false };
    const two = { '127.0.0.1,marketing=127.0.0.6': false, '127.0.0.1,marketing=::1': false };
    for (const [ips, areOne] of Object.entries({ ...ones, ...two }))
      t.equal(node(pools(ips, '', '1')).areOne, areOne, ips);
  },
);

t.test('a new address is used first, up to its cap; the others take the rest', async (t) => {
  const { node, told } = await scene(t);
  const mixed = node(pools('127.0.0.1,127.0.0.6,2001:db8::6', '127.0.0.6=2026-11-19', '1,4,9'));
  const first = await mixed.choose(wants(3));
  t.same(new Set(from(first)), new Set(['127.0.0.6 2001:db8::6']));
  t.equal(
    sources(first)[1]?.note,
    'pool default: from 127.0.0.6, day 2 of its warm-up, message 2 of 4 today or 2001:db8::6',
  );
  t.same(from(await mixed.choose(wants(3))), [
    '127.0.0.6 2001:db8::6',
    '127.0.0.1 2001:db8::6',
    '127.0.0.1 2001:db8::6',
  ]);
  t.equal(told.statements, 2, 'one per batch, and another when it ran short: it knew what was left');
  await mixed.choose(wants(50));
  t.equal(told.statements, 2, 'none once it is full');
  t.equal(mixed.someClosed, false);

  told.now = new Date('2026-11-21T00:00:00Z');
  t.same(
    from(await mixed.choose(wants(10))).filter((one) => one.startsWith('127.0.0.6')).length,
    9,
    'the next day has its own cap',
  );
  told.now = new Date('2026-11-22T00:00:00Z');
  t.same(
    new Set(from(await mixed.choose(wants(10)))),
    new Set(['127.0.0.1 127.0.0.6 2001:db8::6']),
    'the plan is over',
  );
});

t.test('mail without room waits, and says for what', async (t) => {
  const { node, told } = await scene(t);
  const fresh = node(pools('bulk=127.0.0.6', '127.0.0.6=2026-11-20', '3,3'));
  const stream: Want['stream'] = { type: 'transactional', pool: 'bulk' };
  t.equal(fresh.closedFor(stream), null);
  const choices = await fresh.choose(wants(10));
  t.equal(sources(choices).length, 3);
  const waits = {
    opensAt: new Date('2026-11-21T00:00:00Z'),
    reason: 'warm-up of pool bulk: 127.0.0.6 has had 3 of the 3 messages of day 1; more on 2026-11-21 (UTC)',
  };
  t.same(closings(choices), Array(7).fill(waits));
  t.equal(fresh.someClosed, true);
  t.same(fresh.closedFor(stream), waits);
  told.now = new Date('2026-11-21T00:00:00Z');
  t.equal(fresh.someClosed, false);

  const later = node(pools('127.0.0.9', '127.0.0.9=2026-12-24', '3'));
  t.same(closings(await later.choose(wants(1))), [
    {
      opensAt: new Date('2026-12-24T00:00:00Z'),
      reason: 'warm-up of pool default: 127.0.0.9 begins on 2026-12-24; more on 2026-12-24 (UTC)',
    },
  ]);
});

t.test('a family that is full is left out, and the report says so', async (t) => {
  const { node } = await scene(t);
  const both = node(pools('127.0.0.6,::1', '127.0.0.6=2026-11-20,::1=2026-11-19', '1,2'));
  const choices = await both.choose(wants(3));
  t.same(from(choices), ['127.0.0.6 ::1', '::1']);
  t.match(sources(choices)[1]?.closed, { reason: /127\.0\.0\.6 has had 1 of the 1 messages of day 1/ });
  t.equal(closings(choices).length, 1);
});

t.test('nodes that ask at the same time never get more than the cap', async (t) => {
  const { db, node } = await scene(t);
  const config = pools('127.0.0.6,127.0.0.7', '127.0.0.6=2026-11-20,127.0.0.7=2026-11-20', '70');
  const both = [node(config), node(config), node(config)];
  let got = 0;
  const number = new Set<string>();
  await Promise.all(
    both.map(async (one) => {
      for (let round = 0; round < 12; round += 1) {
        const choices = await one.choose(wants(7));
        got += sources(choices).length;
        for (const { note } of sources(choices)) number.add(note);
      }
    }),
  );
  t.equal(got, 140, 'all of both caps');
  t.equal(number.size, 140, 'each message has its own number');
  const rows = await db.query({ text: 'SELECT ip, messages FROM warm_up_days ORDER BY ip' });
  t.same(rows, [
    { ip: '127.0.0.6', messages: 70 },
    { ip: '127.0.0.7', messages: 70 },
  ]);
});

t.test('reserved places that were not used go to others', async (t) => {
  const { node, db } = await scene(t);
  const config = pools('127.0.0.6', '127.0.0.6=2026-11-20', '10');
  const [one, other] = [node(config), node(config)];
  const chosen = sources(await one.choose([...wants(2), ...wants(1, { messages: 5 }), ...wants(1, { messages: 4 })]));
  t.equal(chosen.length, 3, 'each copy is a message; an email gets room for all of them or none');
  const [first, second, third] = chosen as [Source, Source, Source];
  one.noteUnused(first, [delivered('127.0.0.6')]);
  one.noteUnused(second, [
    { phase: 'connect', localAddress: null, recipient: 'a@b.test' },
    { phase: 'starttls', localAddress: '127.0.0.6', recipient: 'a@b.test' },
  ]);
  one.noteUnused(third, [delivered('127.0.0.6', 'x@b.test'), { ...delivered('127.0.0.6', 'y@b.test'), phase: 'rcpt' }]);
  t.equal(sources(await other.choose(wants(9))).length, 3, 'seven are still reserved');
  await one.giveBack();
  t.match(await db.query({ text: 'SELECT messages FROM warm_up_days' }), [{ messages: 6 }]);
  await other.exchange(await register(db));
  t.equal(sources(await other.choose(wants(9))).length, 4);
});

t.test('what was reserved is given back to its day and its address, and never more than that', async (t) => {
  const { db } = await scene(t);
  const [one, other] = ['127.0.0.6', '127.0.0.7'];
  const [before, today] = ['2026-11-20', '2026-11-21'];
  for (const day of [before, today])
    await reserve(
      db,
      day,
      [one, other].map((ip) => ({ ip, cap: 10, messages: 10 })),
    );
  await giveBack(db, [
    { ip: one, day: before, messages: 3 },
    { ip: other, day: today, messages: 11 },
  ]);
  t.strictSame(await db.query({ text: 'SELECT ip, day::text, messages FROM warm_up_days ORDER BY ip, day' }), [
    { ip: one, day: before, messages: 7 },
    { ip: one, day: today, messages: 10 },
    { ip: other, day: before, messages: 10 },
    { ip: other, day: today, messages: 0 },
  ]);
  await report(db, await register(db), [{ ip: one, pool: 'default', firstDay: before }], [10, 20]);
  const sentOn = async (day: string) => (await list(db, day)).map(({ warmUp }) => warmUp?.sent);
  t.strictSame([await sentOn(before), await sentOn(today)], [[7], [10]], 'people see those of the day');
  await report(db, await register(db), [{ ip: one, pool: 'default', firstDay: before }], [10, 20]);
  t.strictSame([(await list(db, today)).length, (await listOnce(db, today)).length], [2, 1], 'two nodes have one');
  const gone = await report(db, newId(), [{ ip: other, pool: 'default', firstDay: before }], [10, 20]);
  t.strictSame([gone, (await list(db, today)).length], [false, 2], 'a node that is not on the list has to try again');
});

t.test('a plan that is changed during a day holds from the next reservation on', async (t) => {
  const { db } = await scene(t);
  const grants = [];
  for (const cap of [10, 10, 15, 5, 30])
    grants.push(...(await reserve(db, '2026-11-20', [{ ip: '127.0.0.6', cap, messages: 10 }])));
  t.strictSame(
    grants.map(({ granted, messages }) => [granted, messages]),
    [
      [10, 10],
      [0, 10],
      [5, 15],
      [0, 15],
      [10, 25],
    ],
  );
  t.strictSame(await db.query({ text: 'SELECT cap FROM warm_up_days' }), [{ cap: 30 }]);
});

t.test('a return that may have succeeded is not repeated', async (t) => {
  const { db } = await scene(t);
  let answer: 'heard' | 'lost' | 'no' = 'lost';
  const failing: Database = {
    ...db,
    async query<Row>(statement: Statement) {
      if (statement.name !== 'warm-up-give-back') return db.query<Row>(statement);
      const failed = answer;
      answer = 'heard';
      if (failed === 'no') throw Object.assign(new Error('deadlock detected'), { code: '40P01' });
      const rows = await db.query<Row>(statement);
      if (failed === 'lost') throw new Error('Connection terminated unexpectedly');
      return rows;
    },
  };
  const budget = new WarmUpBudget(failing);
  const [ip, day] = ['127.0.0.6', '2026-11-20'];
  budget.startDay(day);
  await budget.reserve([{ ip, cap: 10, messages: 10 }]);
  const counted = async () => (await db.query<{ messages: number }>({ text: 'SELECT messages FROM warm_up_days' }))[0];
  for (const [how, left] of [
    ['lost', 7],
    ['no', 4],
  ] as const) {
    answer = how;
    budget.noteUnused({ ip, day, messages: 3 });
    await t.rejects(budget.giveBack());
    await budget.giveBack();
    t.match(await counted(), { messages: left }, `${how}: three are given back, once`);
  }
});

async function register(db: Database): Promise<string> {
  const id = newId();
  await buildNode(db, id, ['mta']);
  return id;
}

t.test('a full node does not count on the room that its own addresses had when it last looked', async (t) => {
  const { node, db } = await scene(t);
  const fresh = node(pools('127.0.0.6', '127.0.0.6=2026-11-20', '1'));
  const nodeId = await register(db);
  for (let n = 0; n < 2; n++) await fresh.exchange(nodeId);
  const [closed] = closings(await fresh.choose(wants(2)));
  t.match(closed, { opensAt: '2026-11-21T00:00:00Z', reason: /more on 2026-11-21 \(UTC\)$/ });
});

t.test('a full node leaves the rest to a node that has room', async (t) => {
  const { node, db, told } = await scene(t);
  const fresh = node(pools('127.0.0.6', '127.0.0.6=2026-11-20', '1'));
  const nodeId = await register(db);
  await node(pools('127.0.0.1,bulk=127.0.0.2', '', '1')).exchange(await register(db));
  await fresh.exchange(nodeId);
  await fresh.exchange(nodeId);
  const [closed] = closings(await fresh.choose(wants(2)));
  t.match(closed, { opensAt: '2026-11-20T12:00:20Z', reason: /another node has room$/ });
  t.match(await list(db, '2026-11-20'), [
    { ip: '127.0.0.2', pool: 'bulk', warmUp: null },
    { ip: '127.0.0.1', pool: 'default', warmUp: null },
    { ip: '127.0.0.6', pool: 'default', warmUp: { day: 1, cap: 1, sent: 1, endsAt: '2026-11-21T00:00:00Z' } },
  ]);
  await db.query({ text: 'DELETE FROM nodes WHERE id <> $1', values: [nodeId] });
  told.now = new Date(told.now.getTime() + 6_000);
  await fresh.exchange(nodeId);
  t.match(closings(await fresh.choose(wants(1))), [{ opensAt: '2026-11-21T00:00:00Z' }]);
});

t.test('a node whose clock is a year ahead does not start a new day', async (t) => {
  const { db, told, node } = await scene(t);
  told.now = new Date();
  const today = told.now.toISOString().slice(0, 10);
  const config = pools('127.0.0.6', `127.0.0.6=${today}`, '3');
  t.equal(sources(await node(config).choose(wants(3))).length, 3);
  await db.query({
    text: `INSERT INTO warm_up_days (ip, day, cap, messages, granted)
           SELECT '127.0.0.6', now() - make_interval(days => days), 3, 3, 3 FROM unnest(ARRAY[1, 29, 40]) days`,
  });
  await forgetOld(db, new Date(Date.now() + 365 * 86_400_000));
  t.equal(sources(await node(config).choose(wants(1))).length, 0);
  t.equal((await db.query({ text: 'SELECT FROM warm_up_days' })).length, 3, 'those of the last month stay, for people');
});
