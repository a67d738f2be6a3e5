import pg from 'pg';
import t, { type Test } from 'tap';
import { createDatabase } from '../support/db.ts';
import { eventually } from '../support/node.ts';
import { type Matches, Wire } from './wire.ts';

/** A table, a wire, and a client that uses it. */
async function startWire(t: Test) {
  const url = await createDatabase();
  const direct = await connect(t, url);
  await direct.query('CREATE TABLE kept (n int)');
  const wire = await Wire.open(url);
  t.teardown(() => wire.close());
  const client = await connect(t, wire.url);
  const rows = async () => (await direct.query('SELECT n FROM kept ORDER BY n')).rows.map(({ n }) => n);
  const insert = (n: number) => client.query({ name: 'insert', text: 'INSERT INTO kept VALUES ($1)', values: [n] });
  return { url, wire, client, rows, insert };
}

async function connect(t: Test, connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString });
  client.on('error', () => undefined);
  await client.connect();
  t.teardown(() => client.end().catch(() => undefined));
  return client;
}

const commitOfInsert: Matches = ({ text, before }) =>
  text === 'COMMIT' && before.some((one) => one.text.startsWith('INSERT INTO kept'));

t.test('a prepared statement is recognized by its text each time, and held before the database sees it', async (t) => {
  const { wire, rows, insert } = await startWire(t);
  await insert(1);
  const trap = wire.hold(({ name, text }) => name === 'insert' && /^INSERT/.test(text), 'before');
  const second = insert(2);
  await trap.hit;
  t.strictSame(await rows(), [1]);
  trap.lift();
  await second;
  t.strictSame(await rows(), [1, 2]);
});

t.test('a COMMIT is recognized by what its transaction did, and can be held with its answer', async (t) => {
  const { wire, client, rows, insert } = await startWire(t);
  const trap = wire.hold(commitOfInsert, 'after');
  await client.query('BEGIN');
  await client.query('COMMIT');
  await client.query('BEGIN');
  await insert(1);
  let answered = false;
  const commit = client.query('COMMIT').then(() => (answered = true));
  await trap.hit;
  t.strictSame(await rows(), [1], 'it is committed');
  t.equal(answered, false, 'and nobody knows yet');
  trap.lift();
  await commit;
});

t.test(
  'a connection can be cut at the answer to a COMMIT, and held messages of a dead client are never sent',
  async (t) => {
    const { url, wire, client, rows, insert } = await startWire(t);
    wire.hold(commitOfInsert, 'cut');
    await client.query('BEGIN');
    await insert(1);
    await t.rejects(client.query('COMMIT'));
    t.strictSame(await rows(), [1]);

    const next = new pg.Client({ connectionString: wire.url });
    next.on('error', () => undefined);
    await next.connect();
    const trap = wire.hold(({ text }) => /VALUES \(3\)/.test(text), 'before');
    const lost = next.query('INSERT INTO kept VALUES (3)').catch(() => 'lost');
    await trap.hit;
    wire.cut();
    trap.lift();
    t.equal(await lost, 'lost');
    const direct = await connect(t, url);
    await eventually(async () => {
      const { rows: sessions } = await direct.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%(3)%'`,
      );
      return sessions.length === 0;
    });
    t.strictSame(await rows(), [1]);
  },
);
