import t from 'tap';
import { systemClock } from '../../src/clock.ts';
import { flush } from '../../src/core/destinations/destination-orders.ts';
import { list } from '../../src/core/destinations/destinations.ts';
import type { Database } from '../../src/db/client.ts';
import type { AttemptRecord } from '../../src/delivery/outcome/attempt-record.ts';
import { Standing } from '../../src/delivery/outcome/standing.ts';
import { newId } from '../../src/ids.ts';
import { createTransport, type Transport } from '../../src/smtp/deliver.ts';
import { openDatabase } from '../support/db.ts';
import { startZone } from '../support/zone.ts';

t.test('of many sites, only those with news are reported', async (t) => {
  const db = await openDatabase(t);
  const nodeOf = async () => {
    const id = newId();
    await db.query({ text: `INSERT INTO nodes (id, hostname, roles) VALUES ($1, 'h', '{mta}')`, values: [id] });
    return id;
  };
  await db.query({ text: 'CREATE TABLE noted (what text)' });
  await db.query({
    text: `CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN INSERT INTO noted VALUES (lower(TG_OP) || ' ' || coalesce(NEW.site, OLD.site)); RETURN NULL; END $$`,
  });
  await db.query({
    text: `CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON destination_reports FOR EACH ROW EXECUTE FUNCTION note()`,
  });
  const noted = async () => {
    const rows = await db.query<{ what: string }>({ text: 'DELETE FROM noted RETURNING what' });
    return rows.map(({ what }) => what).sort();
  };

  let now = 1_000;
  const resolver = {
    resolve: async () => [],
    resolveMx: async (name: string) => [{ exchange: `mx.${name}`, priority: 10 }],
    resolve4: async () => ['127.0.0.1'],
    resolve6: async () => [],
    resolveTxt: async () => [],
    resolveTlsa: async () => [],
  };
  const transport = createTransport({ ehloName: 'a.test', resolver } as never);
  t.teardown(() => transport.close());
  const standing = new Standing(db, transport, [], { backoffMs: 1_000, longestMs: 1_000, now: () => now });
  const use = async (destination: string) => {
    const site = await standing.siteOf(destination);
    standing.throttle.end(standing.throttle.begin(site), 'fine', '250 taken');
  };
  const waiting = new Map<string, number>();
  const report = async (nodeId: string) => {
    await standing.report(nodeId, (site) => waiting.get(site) ?? 0);
    return noted();
  };

  const node = await nodeOf();
  await use('one.test');
  await use('two.test');
  t.strictSame(await report(node), ['insert one.test', 'insert two.test']);
  t.strictSame(await report(node), [], 'nothing is new');
  await use('two.test');
  waiting.set('one.test', 3);
  t.strictSame(await report(node), ['update one.test', 'update two.test']);
  const told = await db.query({
    text: 'SELECT site, destinations, waiting, last_reply FROM destination_reports ORDER BY 1',
  });
  t.match(told, [
    { site: 'one.test', destinations: ['one.test'], waiting: 3, last_reply: '250 taken' },
    { site: 'two.test', destinations: ['two.test'], waiting: 0 },
  ]);

  const renamed = await nodeOf();
  t.strictSame(await report(renamed), ['insert one.test', 'insert two.test'], 'under another name everything is');

  await db.query({ text: 'ALTER TABLE destination_reports RENAME TO elsewhere' });
  await use('three.test');
  await t.rejects(report(renamed));
  await db.query({ text: 'ALTER TABLE elsewhere RENAME TO destination_reports' });
  t.strictSame(await report(renamed), ['insert three.test'], 'what could not be reported is reported next time');

  now += 3_600_001;
  await use('two.test');
  t.strictSame(await report(renamed), ['delete one.test', 'delete three.test', 'update two.test']);
});

t.test(
  'if a second MX host of somebody else wants less mail, its destination slows down, not the provider',
  async (t) => {
    const db = await openDatabase(t);
    const zone = await startZone({
      'a.test': {
        MX: [
          [10, 'mx.provider.test'],
          [20, 'mx.other.test'],
        ],
      },
      'b.test': { MX: [[10, 'mx.provider.test']] },
    });
    const transport = createTransport({ ehloName: 'us.test', resolver: zone.resolver });
    t.teardown(async () => {
      await transport.close();
      await zone.close();
    });
    const provider = { name: 'Provider', mx: ['provider.test'], connections: 20, perMinute: null, perConnection: null };
    const standing = new Standing(db, transport, [provider], { backoffMs: 1_000, longestMs: 1_000 });
    const windowOf = (name: string) => standing.throttle.states().find(({ site }) => site.name === name)?.window;
    const say = async (destination: string, host: string) => {
      const site = await standing.siteOf(destination);
      const ticket = standing.throttle.begin(site);
      const attempts = [{ phase: 'mail' }] as AttemptRecord['attempts'];
      const judged = standing.judge(site, destination, { verdict: 'slower', reply: '421 too much', host, attempts });
      standing.throttle.end(ticket, judged.verdict, '421 too much');
      return judged;
    };

    const nodeId = newId();
    await db.query({ text: `INSERT INTO nodes (id, hostname, roles) VALUES ($1, 'h', '{mta}')`, values: [nodeId] });
    const shown = async () => {
      await standing.report(nodeId, () => 0);
      const { destinations } = await list(db, { limit: 9 });
      return destinations.map(({ site, destinations: own }) => [site, own.sort().join()]).sort();
    };
    for (const destination of ['a.test', 'b.test'])
      standing.throttle.end(standing.throttle.begin(await standing.siteOf(destination)), 'nothing', null);
    t.strictSame(await shown(), [['Provider', 'a.test,b.test']]);

    t.match(await say('a.test', 'mx.other.test'), { verdict: 'nothing', moved: true });
    t.strictSame(
      await shown(),
      [
        ['Provider', 'b.test'],
        ['a.test', 'a.test'],
      ],
      'its mail counts under its own name',
    );
    t.strictSame([windowOf('Provider'), windowOf('a.test')], [5, 2]);
    t.match(await standing.siteOf('a.test'), { name: 'a.test' });
    t.match(await say('b.test', 'mx.provider.test'), { verdict: 'slower', moved: false });
    t.equal(windowOf('Provider'), 2);
  },
);

t.test(
  'where mail arrived is noted once, for the domain and its site, and later on if the database is away',
  async (t) => {
    const db = await openDatabase(t);
    const zone = await startZone({ 'a.test': { MX: [[10, 'mx.provider.test']] }, 'b.test': { A: ['127.0.0.1'] } });
    const transport = createTransport({ ehloName: 'us.test', resolver: zone.resolver });
    t.teardown(async () => {
      await transport.close();
      await zone.close();
    });
    const provider = { name: 'Provider', mx: ['provider.test'], connections: 20, perMinute: null, perConnection: null };
    const standing = new Standing(db, transport, [provider], { backoffMs: 1_000, longestMs: 1_000 });
    const judge = async (destination: string, ...outcomes: string[]) => {
      const attempts = outcomes.map((outcome) => ({ phase: 'end', outcome })) as unknown as AttemptRecord['attempts'];
      standing.judge(await standing.siteOf(destination), destination, {
        verdict: 'fine',
        reply: '250 ok',
        host: null,
        attempts,
      });
    };
    const noted = async () => {
      const rows = await db.query<{ name: string; at: Date }>({
        text: 'DELETE FROM destination_deliveries RETURNING name, last_delivered_at AS at',
      });
      for (const { at } of rows) t.ok(Math.abs(Date.now() - at.getTime()) < 60_000);
      return rows.map(({ name }) => name).sort();
    };
    await standing.noteDeliveries();
    await judge('a.test', 'bounced', 'delivered');
    await judge('b.test', 'bounced', 'deferred');
    await standing.noteDeliveries();
    t.strictSame(await noted(), ['Provider', 'a.test'], 'mail that was refused has not arrived');
    await standing.noteDeliveries();
    t.strictSame(await noted(), []);
    await judge('b.test', 'delivered');
    await db.query({ text: 'ALTER TABLE destination_deliveries RENAME TO elsewhere' });
    await t.rejects(standing.noteDeliveries());
    await db.query({ text: 'ALTER TABLE elsewhere RENAME TO destination_deliveries' });
    await standing.noteDeliveries();
    t.strictSame(await noted(), ['b.test']);
  },
);

t.test('if the database goes away while a flush is read, the flush is made up for later', async (t) => {
  const db = await openDatabase(t);
  const zone = await startZone({});
  const transport = createTransport({ ehloName: 'us.test', resolver: zone.resolver });
  t.teardown(async () => {
    await transport.close();
    await zone.close();
  });
  const standing = new Standing(db, transport, [], { backoffMs: 600_000, longestMs: 600_000 });
  const names = ['one.test', 'two.test', 'three.test'];
  const sites = names.map((name) => ({ name, connections: 5, perMinute: null, perConnection: null }));
  for (const site of sites) standing.throttle.end(standing.throttle.begin(site), 'unreachable', 'gone');
  const turns = () => sites.map((site) => standing.throttle.turn(site).when);
  await standing.readOrders();
  for (const name of names) await flush(db, name, [name]);
  await db.query({ text: 'ALTER TABLE destination_wakings RENAME TO elsewhere' });
  await t.rejects(standing.readOrders());
  t.not(turns()[2], 'now', 'it did not get to the last');
  await db.query({ text: 'ALTER TABLE elsewhere RENAME TO destination_wakings' });
  await db.query({ text: 'DELETE FROM destination_wakings' });
  await standing.readOrders();
  t.strictSame(turns(), ['now', 'now', 'now']);
  const asked = async () => (await db.query({ text: 'SELECT name FROM destination_wakings' })).length;
  t.equal(await asked(), 3);
  await db.query({ text: 'DELETE FROM destination_wakings' });
  await standing.readOrders();
  t.equal(await asked(), 0, 'and each once');
  const earlier = `UPDATE destination_orders SET flushed_at = flushed_at - interval '1 hour' WHERE name = 'one.test'`;
  await db.query({ text: earlier });
  await standing.readOrders();
  t.equal(await asked(), 1, "one after the database's clock was set back is heard too");
});

t.test('a site that is used again while a report about very many yields keeps its destinations', async (t) => {
  const reports: unknown[][] = [];
  const db = { query: async ({ values }: { values: unknown[] }) => void reports.push(values) } as unknown as Database;
  const resolver = { resolveMx: async () => [{ exchange: 'mx.receiver.test', priority: 10 }] };
  const transport = { resolver, clock: systemClock } as unknown as Transport;
  let now = 0;
  const standing = new Standing(db, transport, [], { backoffMs: 1_000, longestMs: 1_000, now: () => now });
  const use = async () => {
    const site = await standing.siteOf('receiver.test');
    standing.throttle.end(standing.throttle.begin(site), 'fine', null);
  };
  await use();
  for (let n = 0; n < 2_500; n += 1)
    standing.throttle.begin({ name: `site${n}.test`, connections: 5, perMinute: null, perConnection: null });
  now = 3_600_001;
  const reporting = standing.report('node', () => 0);
  await use();
  await reporting;
  await standing.report('node', () => 0);
  t.match(reports[1]?.slice(1, 3), [['receiver.test'], ['["receiver.test"]']]);
});

t.test('a report about very many sites lets other work go on', async (t) => {
  const order: string[] = [];
  const db = {
    query: async () => {
      order.push('reported');
      return [];
    },
  } as unknown as Database;
  const standing = new Standing(db, {} as Transport, [], { backoffMs: 1_000, longestMs: 1_000 });
  for (let n = 0; n < 2_500; n += 1)
    standing.throttle.begin({ name: `site${n}.test`, connections: 5, perMinute: null, perConnection: null });
  setImmediate(() => order.push('other work'));
  await standing.report('node', () => 0);
  t.strictSame(order, ['other work', 'reported']);
});
