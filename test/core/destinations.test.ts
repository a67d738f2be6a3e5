import t from 'tap';
import * as orders from '../../src/core/destinations/destination-orders.ts';
import { domainsOf, find, hasMail, list, type Report, report } from '../../src/core/destinations/destinations.ts';
import { findWaiting } from '../../src/core/destinations/giving-up.ts';
import * as lastDeliveries from '../../src/core/destinations/last-deliveries.ts';
import { watchDepth } from '../../src/core/operations/queue-depth.ts';
import { pausedUntil } from '../../src/core/recipients/waiting-for.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { buildNode, buildSender } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { scheduleMany } from '../support/scheduled.ts';

const quiet: Omit<Report, 'site' | 'destinations'> = {
  ...{ running: 0, waiting: 0, connections: 1, mostConnections: 5, perMinute: null },
  ...{ backoffUntil: null, reason: null, lastReply: null, lastSuccessAt: null },
};

t.test('what counts all that waits has more time than other statements', async (t) => {
  const db = await openDatabase(t);
  let limits: string[] = [];
  const showing: Database = {
    ...db,
    query: () => Promise.reject(new Error('it has no more time')),
    session: (work, statementMs) =>
      db.session(async (session) => {
        const [row] = await session.query<{ statement_timeout: string }>({ text: 'SHOW statement_timeout' });
        limits.push(row?.statement_timeout ?? '');
        return work(session);
      }, statementMs),
  };
  for (const [name, count] of Object.entries({
    'the list of destinations': () => list(showing, { limit: 1 }),
    'whether a destination has mail': () => hasMail(showing, 'a.test'),
    'what waits for a domain': () => findWaiting(showing, 'a.test'),
    'the metrics of the queue': watchDepth(showing),
  })) {
    t.ok(await count().then((counted) => counted !== null), name);
    t.strictSame(limits, ['30s'], name);
    limits = [];
  }
});

t.test('a site includes all mail that waits for its domains, and shows what most of it waits for', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const [here, there] = [newId(), newId()];
  for (const id of [here, there]) await buildNode(db, id, ['mta']);
  await report(db, here, [
    { ...quiet, site: 'Ours', destinations: ['a.test', 'b.test'] },
    { ...quiet, site: 'Empty', destinations: [] },
  ]);
  await report(db, there, [{ ...quiet, site: 'Ours', destinations: ['b.test', 'c.test'] }]);
  const at = new Date(Date.now() + 3_600_000);
  for (const to of ['a.test', 'b.test', 'other.test']) await scheduleMany(db, sender, { emails: 100, to, at });
  const change = (set: string, where: string, ...values: unknown[]) =>
    db.query({ text: `UPDATE recipients SET ${set} WHERE ${where}`, values });
  t.match(
    await find(db, 'a.test'),
    { site: 'Ours', queued: 0, deferred: 0, waitingFor: null },
    'scheduled mail does not count',
  );
  // In one domain most wait for "this", but in the whole site for "that".
  await change(`waiting_for = 'this'`, `address ~ '^r(1|2|3)\\d@a'`);
  await change(`waiting_for = 'that'`, `address ~ '^r(4|5)\\d@a' OR address ~ '^r(4|5)\\d@b'`);
  await change('next_attempt_at = $1', `address ~ '^r4\\d@'`, pausedUntil);
  await change('attempts = 1', `address ~ '^r6\\d@[ab]'`);
  await change('job_id = gen_random_uuid()', `address ~ '^r7\\d@a'`);
  await change(`next_attempt_at = now() - interval '1 ms'`, `address ~ '^r(7|8)\\d@[ab]'`);
  await change('next_attempt_at = NULL, job_id = NULL', `address ~ '^r9\\d@'`);
  const known = {
    site: 'Ours',
    queued: 40,
    deferred: 90,
    waitingFor: 'that',
    connections: 2,
    nextAttemptAt: at.toISOString(),
  };
  for (const name of ['a.test', 'c.test', 'Ours', 'A.TEST']) t.match(await find(db, name), known, name);
  t.same((await find(db, 'Ours')).destinations.toSorted(), ['a.test', 'b.test', 'c.test']);
  t.match(await find(db, 'other.test'), { site: 'other.test', queued: 0, deferred: 0, waitingFor: null });
});

t.test('the mail of a destination that one node treats as a site of its own counts there', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const [here, there] = [newId(), newId()];
  for (const id of [here, there]) await buildNode(db, id, ['mta']);
  await report(db, here, [{ ...quiet, site: 'Ours', destinations: ['x.test', 'y.test'] }]);
  await report(db, there, [{ ...quiet, site: 'x.test', destinations: ['x.test'] }]);
  for (const [to, emails] of [
    ['x.test', 3],
    ['y.test', 2],
  ] as const)
    await scheduleMany(db, sender, { emails, to, at: new Date(Date.now() - 1_000) });
  t.match(await find(db, 'x.test'), { site: 'x.test', queued: 3 });
  t.match(await find(db, 'Ours'), { site: 'Ours', queued: 2 });
  t.same(await domainsOf(db, 'x.test'), ['x.test'], 'nor is the other mail of that site ordered about');
  await report(db, here, [], ['x.test', 'Ours']);
  t.match(await find(db, 'x.test'), { site: 'x.test', connections: 1 }, 'what another node reports stays');
  t.match(await find(db, 'y.test'), { site: 'y.test', connections: 0 });
});

t.test('a paused destination is listed once, with its mail, and the site that takes its mail without it', async (t) => {
  const db = await openDatabase(t);
  const sender = await buildSender(db, Buffer.alloc(32));
  const id = newId();
  await buildNode(db, id, ['mta']);
  await report(db, id, [
    { ...quiet, site: 'Ours', destinations: ['a.test', 'b.test'] },
    { ...quiet, site: 'c.test', destinations: ['c.test', 'd.test'] },
  ]);
  for (const to of ['a.test', 'b.test']) await scheduleMany(db, sender, { emails: 10, to, at: new Date() });
  await db.query({
    text: `UPDATE recipients SET next_attempt_at = $1, waiting_for = 'a pause' WHERE destination = 'a.test'`,
    values: [pausedUntil],
  });
  await orders.pause(db, 'a.test');
  await orders.pause(db, 'c.test');
  const { destinations } = await list(db, { limit: 100 });
  t.match(
    destinations.toSorted((one, other) => (one.site < other.site ? -1 : 1)),
    [
      { site: 'Ours', destinations: ['b.test'], state: 'open', queued: 10, deferred: 0, waitingFor: null },
      { site: 'a.test', destinations: ['a.test'], state: 'paused', queued: 0, deferred: 10, waitingFor: 'a pause' },
      { site: 'c.test', destinations: ['c.test', 'd.test'], state: 'paused' },
    ],
  );
  t.equal(destinations.length, 3);
  t.match(await find(db, 'a.test'), { site: 'a.test', state: 'paused', deferred: 10, nextAttemptAt: null });
  await orders.resume(db, 'a.test');
  t.match(await find(db, 'a.test'), { site: 'Ours', destinations: ['a.test', 'b.test'], state: 'open' });
});

t.test('a name stands for all domains of its site', async (t) => {
  const db = await openDatabase(t);
  const id = newId();
  await buildNode(db, id, ['mta']);
  const sites = { Ours: ['a.test', 'b.test'], Empty: [], 'c.test': ['c.test', 'd.test'] };
  const reports = Object.entries(sites).map(([site, destinations]) => ({ ...quiet, site, destinations }));
  await report(db, id, reports);
  const sorted = async (name: string) => (await domainsOf(db, name)).toSorted();
  for (const name of ['Ours', 'b.test', 'B.test']) t.same(await sorted(name), ['a.test', 'b.test'], name);
  for (const name of ['c.test', 'd.test']) t.same(await sorted(name), ['c.test', 'd.test'], name);
  t.same(await sorted('Empty'), ['Empty']);
  t.same(await sorted('unknown.test'), ['unknown.test']);
  for (const name of ['unknown', 'no\0name', '\ud800'])
    await t.rejects(domainsOf(db, name), { message: 'not found' }, name);
  await orders.pause(db, 'Gone');
  t.same(await sorted('Gone'), ['Gone'], 'so that it can be resumed');
  t.same(await sorted('unknown.test'), ['unknown.test'], 'and not what else is paused');
  t.match(await orders.give(db, 'Gone', 'resume'), {
    standing: { site: 'Gone', pausedAt: null },
    woken: { recipients: 0 },
  });
  for (const order of orders.orderNames)
    await t.rejects(orders.give(db, 'Gone', order), { message: 'not found' }, order);
});

t.test('mail is known of the domains and sites that a node reports, and of those where it waits', async (t) => {
  const db = await openDatabase(t);
  const id = newId();
  await buildNode(db, id, ['mta']);
  await report(db, id, [{ ...quiet, site: 'Ours', destinations: ['a.test'] }]);
  const later = new Date(Date.now() + 3_600_000);
  await scheduleMany(db, await buildSender(db, Buffer.alloc(32)), { emails: 1, to: 'b.test', at: later });
  const known = { Ours: true, 'a.test': true, 'B.test': true, 'c.test': false, Theirs: false };
  for (const [name, isKnown] of Object.entries(known)) t.equal(await hasMail(db, name), isKnown, name);
  await db.query({ text: 'UPDATE recipients SET next_attempt_at = NULL' });
  t.equal(await hasMail(db, 'b.test'), false);
});

t.test('of what a site said to several nodes, the last is shown', async (t) => {
  const db = await openDatabase(t);
  const ids = [newId(), newId(), newId()];
  for (const id of ids) await buildNode(db, id, ['mta']);
  for (const [turn, last] of ids.entries()) {
    const ordered = [...ids.slice(turn + 1), ...ids.slice(0, turn), last];
    const said = new Map(ordered.map((id, place) => [id, place === 2 ? null : `250 ${place}`]));
    for (const [id, lastReply] of said) {
      // A minute passes before each: times are kept to the millisecond, in which a fast machine reports twice.
      await db.query({ text: `UPDATE destination_reports SET reported_at = reported_at - interval '1 minute'` });
      await report(db, id, [{ ...quiet, site: 'Ours', destinations: [], lastReply }]);
    }
    t.match(await find(db, 'Ours'), { lastReply: '250 1' });
  }
});

t.test('the list can be filtered by state and by part of a name, and counts the other pages too', async (t) => {
  const db = await openDatabase(t);
  const id = newId();
  await buildNode(db, id, ['mta']);
  const away = { backoffUntil: new Date(Date.now() + 60_000), reason: 'it is away', connections: 0 };
  await report(db, id, [
    { ...quiet, site: 'Big', destinations: ['a.test', 'b.test'], connections: 5, reason: 'what was said before' },
    { ...quiet, site: 'Small', destinations: ['c.test', 'xn--bcher-kva.test'], reason: 'the server wanted less' },
    { ...quiet, site: 'new.test', destinations: ['new.test'], backoffUntil: new Date(Date.now() - 60_000) },
    { ...quiet, site: 'away.test', destinations: [], ...away },
    { ...quiet, site: 'stopped.test', destinations: ['100%_.test'], ...away },
  ]);
  await orders.pause(db, 'stopped.test');
  await orders.pause(db, 'idle.test');
  const sites = async (wanted: Parameters<typeof list>[1]) => {
    const { destinations, count } = await list(db, wanted);
    return [destinations.map(({ site }) => site), count];
  };
  const all = ['Big', 'Small', 'away.test', 'idle.test', 'new.test', 'stopped.test'];
  const [everything, count] = await sites({ limit: 100 });
  t.same([(everything as string[]).toSorted(), count], [all, 6]);
  t.same(await sites({ limit: 2, offset: 4 }), [(everything as string[]).slice(4), 6]);
  t.same(await sites({ limit: 2, offset: 6 }), [[], 6], 'after the last page');
  t.same(await sites({ limit: 0 }), [[], 6]);
  t.same(await sites({ limit: 100, state: 'paused' }), [['idle.test', 'stopped.test'], 2]);
  t.same(await sites({ limit: 1, state: 'paused' }), [['idle.test'], 2]);
  t.same(await sites({ limit: 100, state: 'backing_off' }), [['away.test'], 1]);
  t.same(await sites({ limit: 100, state: 'slowed' }), [['Small'], 1]);
  t.same((await list(db, { limit: 100, state: 'open' })).destinations.map(({ site }) => site).toSorted(), [
    'Big',
    'new.test',
  ]);
  for (const [part, site] of [
    ['B.TES', 'Big'],
    ['mal', 'Small'],
    ['%_', 'stopped.test'],
    ['IDLE', 'idle.test'],
    ['Bücher', 'Small'],
    ['bücher.test', 'Small'],
  ] as const)
    t.same(await sites({ limit: 100, part }), [[site], 1], part);
  t.same(await sites({ limit: 100, part: 'stopped', state: 'open' }), [[], 0]);
  t.equal((await find(db, 'stopped.test')).state, 'paused');
  t.match(await find(db, 'new.test'), { state: 'open', backoffUntil: null }, 'its back-off is over');
  t.equal((await find(db, 'unknown.test')).state, 'open');
});

t.test('the sites that refuse our mail are found among those that take it', async (t) => {
  const db = await openDatabase(t);
  const id = newId();
  await buildNode(db, id, ['mta']);
  const ago = (minutes: number) => new Date(Date.now() - minutes * 60_000);
  const said = '550 5.7.1 this is unsolicited mail';
  const judged = (site: string, lastReply: string | null) => ({
    ...{ ...quiet, site, destinations: [site], lastReply },
    lastSuccessAt: ago(1),
  });
  await report(db, id, [
    judged('refuses.test', said),
    judged('knows-nobody.test', '550 5.1.1 no such user'),
    judged('refused-one.test', said),
    judged('takes.test', '250 2.0.0 ok'),
    judged('unknown.test', said),
    { ...judged('small-refuses.test', said), connections: 1 },
    { ...judged('wide.test', said), connections: 7 },
  ]);
  const arrived = {
    'wide.test': 60,
    'small-refuses.test': 60,
    'refuses.test': 60,
    'knows-nobody.test': 60,
    'refused-one.test': 5,
    'takes.test': 1,
  };
  await lastDeliveries.note(db, new Map(Object.entries(arrived).map(([name, minutes]) => [name, ago(minutes)])));
  const { destinations, count } = await list(db, { limit: 9, refusing: true });
  t.same([destinations.map(({ site }) => site), count], [['wide.test', 'refuses.test', 'small-refuses.test'], 3]);
  for (const other of [{ part: 'takes.test' }, { part: 'gone.test' }, { state: 'paused' as const }])
    t.same(await list(db, { limit: 9, refusing: true, ...other }), { destinations: [], count: 0 });
});

t.test('when mail last arrived is known of sites and domains that no node reports, for thirty days', async (t) => {
  const db = await openDatabase(t);
  const id = newId();
  await buildNode(db, id, ['mta']);
  await report(db, id, [{ ...quiet, site: 'Ours', destinations: ['a.test', 'b.test'] }]);
  const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000);
  const [earlier, later] = [ago(100), ago(50)];
  const note = (deliveries: Record<string, Date>) => lastDeliveries.note(db, new Map(Object.entries(deliveries)));
  await note({ Ours: later, 'a.test': later, 'gone.test': earlier });
  await note({ 'a.test': earlier, Ours: earlier, 'old.test': ago(31 * 86_400) });
  const { destinations } = await list(db, { limit: 9 });
  t.match(
    destinations,
    [{ site: 'Ours', lastSuccessAt: null, lastDeliveredAt: later.toISOString() }],
    'the later time stays',
  );
  const knownOf = async (name: string) => (await find(db, name)).lastDeliveredAt;
  t.same(await knownOf('b.test'), later, 'of its site');
  t.same(await knownOf('gone.test'), earlier, 'no node has to report it');
  t.equal(await knownOf('never.test'), null);
  const listed = {
    destinations: [{ site: 'gone.test', state: 'open', lastDeliveredAt: earlier.toISOString() }],
    count: 1,
  };
  t.match(await list(db, { limit: 9, part: 'GONE.test' }), listed, 'who asks for it by name finds it');
  t.match(await list(db, { limit: 9, part: 'gone.test', state: 'open' }), listed);
  const none = { destinations: [], count: 0 };
  t.same(await list(db, { limit: 9, part: 'gone.test', offset: 1 }), { ...none, count: 1 });
  for (const other of [{ part: 'gone' }, { part: 'gone.test', state: 'paused' as const }, { part: 'never.test' }])
    t.same(await list(db, { limit: 9, ...other }), none);
  t.type(await knownOf('old.test'), Date);
  await lastDeliveries.forgetOld(db);
  t.equal(await knownOf('old.test'), null);
  t.same(await knownOf('gone.test'), earlier);

  await db.query({ text: `UPDATE destination_deliveries SET last_delivered_at = now() + interval '1 year'` });
  await note({ 'gone.test': ago(10), 'new.test': ago(-3_600) });
  for (const name of ['gone.test', 'new.test'])
    t.ok(Number(await knownOf(name)) <= Date.now() + 1_000, `${name}: nothing arrived in the future`);

  const many = Array.from({ length: 6_000 }, (_, place): [string, Date] => [`s${place}.test`, later]);
  const turned = many.toReversed();
  await Promise.all([many, turned, many, turned].map((one) => lastDeliveries.note(db, new Map(one))));
  t.same(await knownOf('s5999.test'), later, 'nodes that note the same at once do not wait for each other in a circle');
});
