import t from 'tap';
import { Standing } from '../../src/delivery/standing.ts';
import { newId } from '../../src/ids.ts';
import { createTransport } from '../../src/smtp/deliver.ts';
import { openDatabase } from '../support/db.ts';

t.test('of many sites, those are told of which something is new', async (t) => {
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
  t.strictSame(await report(renamed), ['insert one.test', 'insert two.test'], 'under another name all of it is');

  await db.query({ text: 'ALTER TABLE destination_reports RENAME TO elsewhere' });
  await use('three.test');
  await t.rejects(report(renamed));
  await db.query({ text: 'ALTER TABLE elsewhere RENAME TO destination_reports' });
  t.strictSame(await report(renamed), ['insert three.test'], 'what could not be told is told next time');

  now += 3_600_001;
  await use('two.test');
  t.strictSame(await report(renamed), ['delete one.test', 'delete three.test', 'update two.test']);
});
