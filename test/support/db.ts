import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import pg from 'pg';
import { connect, type Database } from '../../src/db/client.ts';
import { migrate } from '../../src/db/migrate.ts';
import { silentLog } from '../../src/log.ts';
import { createQueue, type Queue } from '../../src/queue.ts';
import { testServerUrl } from './postgres.ts';

interface Origin {
  server: string;
  admin: pg.Pool;
  template: string;
}

let origin: Promise<Origin> | undefined;

/** The test's own database with the whole schema, cloned from a template that is created once per run. */
export async function createDatabase(): Promise<string> {
  origin ??= findOrigin();
  const { server, admin, template } = await origin;
  const name = `t_${randomBytes(6).toString('hex')}`;
  // The usual strategy goes through the server's buffers, and twenty clones would use them all up.
  await admin.query(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy`);
  return withName(server, name);
}

/** Once per process, over one connection that blocks nothing: a new connection costs the server as much as a clone. */
async function findOrigin(): Promise<Origin> {
  const server = await testServerUrl();
  const admin = new pg.Pool({ connectionString: server, max: 1, idleTimeoutMillis: 0, allowExitOnIdle: true });
  admin.on('error', () => undefined);
  return { server, admin, template: await makeTemplate(admin, server) };
}

/** The test's own database, connected; it is closed when the test ends. */
export async function openDatabase(t: { teardown(work: () => Promise<void>): void }): Promise<Database> {
  const db = connect(await createDatabase(), silentLog, 10);
  t.teardown(() => db.close());
  return db;
}

/** The same with its queue. */
export async function openQueue(t: {
  teardown(work: () => Promise<void>): void;
}): Promise<{ db: Database; queue: Queue }> {
  const url = await createDatabase();
  const db = connect(url, silentLog, 10);
  const queue = createQueue(url, silentLog);
  await queue.start();
  t.teardown(async () => {
    await queue.stop();
    await db.close();
  });
  return { db, queue };
}

async function makeTemplate(admin: pg.Pool, server: string): Promise<string> {
  const name = `template_${schemaHash()}`;
  // Test files run at the same time: the first creates it, the others wait.
  await admin.query(`SELECT pg_advisory_lock(hashtext('template'))`);
  try {
    const { rowCount } = await admin.query('SELECT FROM pg_database WHERE datname = $1', [name]);
    if (rowCount) return name;
    const draft = `${name}_draft`;
    await admin.query(`DROP DATABASE IF EXISTS ${draft}`);
    await admin.query(`CREATE DATABASE ${draft}`);
    const url = withName(server, draft);
    await migrate(url);
    const queue = createQueue(url, silentLog);
    await queue.start();
    await queue.stop();
    await guard(url);
    await admin.query(`ALTER DATABASE ${draft} RENAME TO ${name}`);
    return name;
  } finally {
    await admin.query(`SELECT pg_advisory_unlock(hashtext('template'))`);
  }
}

/** Settled emails stay as they are: if a test makes the service try to change one, the statement fails. */
const legalMoves = `
  CREATE FUNCTION refuse_move() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION '% may not become %: QUE-19', OLD.status, NEW.status; END $$;
  CREATE TRIGGER legal_moves BEFORE UPDATE OF status ON emails FOR EACH ROW
    WHEN (NEW.status <> OLD.status AND OLD.status <> 'queued') EXECUTE FUNCTION refuse_move();
  CREATE TRIGGER legal_moves BEFORE UPDATE OF status ON recipients FOR EACH ROW
    WHEN (NEW.status <> OLD.status AND (OLD.status NOT IN ('queued', 'deferred') OR NEW.status = 'queued'))
    EXECUTE FUNCTION refuse_move()`;

/** What servers before version 18 lack, for what tests fill in. */
const uuidOfTime = `
  CREATE FUNCTION uuidv7(shift interval DEFAULT '0') RETURNS uuid LANGUAGE sql AS
  $$ SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp() + shift) * 1000)::bigint), 12, '0') || '7' || substr(gen_random_uuid()::text, 16))::uuid $$`;

async function guard(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(legalMoves);
  const { rows } = await client.query(`SELECT FROM pg_proc WHERE proname = 'uuidv7'`);
  if (rows.length === 0) await client.query(uuidOfTime);
  await client.end();
}

function withName(server: string, name: string): string {
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

function schemaHash(): string {
  const folder = new URL('../../prisma/migrations/', import.meta.url);
  const hash = createHash('sha256');
  for (const name of readdirSync(folder).sort()) hash.update(readFileSync(new URL(`${name}/migration.sql`, folder)));
  return hash.digest('hex').slice(0, 12);
}
