import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import t, { type Test } from 'tap';
import { sendwright } from '../cli/terminal.ts';
import { createDatabase } from '../support/db.ts';
import { directEnv, mailHostname, prepareSender } from '../support/direct.ts';
import { eventually, testEnv } from '../support/node.ts';
import { ownEnv, type SendwrightProcess, startSendwright } from '../support/process.ts';
import { startSink } from '../support/sink.ts';
import { administer, makeFolder } from '../support/start.ts';
import { startZone } from '../support/zone.ts';

const repository = resolve(import.meta.dirname, '../..');

/** The current code as a new release, whose migrations add a column to each table, a table and an index. */
async function makeNextRelease(t: Test): Promise<{ folder: string; names: string[] }> {
  const folder = await makeFolder(t);
  for (const part of ['src', 'prisma', 'package.json'])
    await cp(join(repository, part), join(folder, part), { recursive: true });
  await symlink(join(repository, 'node_modules'), join(folder, 'node_modules'));
  const schema = await readFile(join(repository, 'prisma/schema.prisma'), 'utf8');
  const tables = [...schema.matchAll(/^model \w+ \{[\s\S]*?@@map\("(\w+)"\)/gm)].map(([, table]) => table ?? '');
  const statements = [
    ...tables.map((table) => `ALTER TABLE ${table} ADD COLUMN of_next_release integer NOT NULL DEFAULT 0`),
    'CREATE TABLE of_next_release (id uuid PRIMARY KEY); CREATE INDEX of_next_release_emails ON emails (of_next_release)',
  ];
  const names = statements.map((_, index) => `29991231${String(index).padStart(6, '0')}_next_release`);
  for (const [index, statement] of statements.entries()) {
    const place = join(folder, 'prisma/migrations', names[index] ?? '');
    await mkdir(place);
    await writeFile(join(place, 'migration.sql'), `SET LOCAL lock_timeout = '5s';\n${statement};\n`);
  }
  return { folder, names };
}

/** The command of a release, as its operator runs it. */
const migrateBy = (folder: string) => [
  '--disable-warning=ExperimentalWarning',
  join(folder, 'src/cli.ts'),
  'migrate',
  '--json',
];

/** Kills the command in the middle: it waits for a table that somebody is reading. */
async function migrateHalf(folder: string, env: Record<string, string>, table: string): Promise<void> {
  const reader = new pg.Client({ connectionString: env.DATABASE_URL });
  await reader.connect();
  await reader.query(`BEGIN; LOCK TABLE ${table} IN ACCESS SHARE MODE`);
  const child = spawn(process.execPath, migrateBy(folder), {
    env: { ...env, ...ownEnv() },
    stdio: 'ignore',
  });
  await eventually(async () => {
    const { rowCount } = await reader.query(
      `SELECT FROM pg_locks WHERE relation = '${table}'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND mode = 'AccessExclusiveLock' AND NOT granted`,
    );
    return rowCount === 1;
  });
  child.kill('SIGKILL');
  await once(child, 'exit');
  await reader.end();
}

/** Sends up to two hundred emails a second through the given nodes, until it is stopped. */
function startTraffic(key: string, first: SendwrightProcess) {
  const accepted: number[] = [];
  const refused: string[] = [];
  let nodes = [first];
  let stopped = false;
  let next = 0;
  const send = async () => {
    while (!stopped) {
      const number = next++;
      const body = { from: 'a@many.test', to: `b${number}@to${number % 5}.test`, subject: `${number}`, text: 't' };
      const node = nodes[number % nodes.length] ?? first;
      const { status } = await node.call('POST', '/api/v1/emails', { key, body });
      if (status === 200) accepted.push(number);
      else refused.push(`${number}: ${status}`);
      // Nodes that start meanwhile need the processor as well.
      await sleep(20);
    }
  };
  const senders = Array.from({ length: 4 }, send);
  return {
    accepted,
    refused,
    /** As a load balancer does before a node is stopped: it gets nothing new, and finishes what is in progress. */
    async goTo(...given: SendwrightProcess[]) {
      nodes = given;
      const from = accepted.length;
      await eventually(async () => accepted.length >= from + 30);
    },
    async stop() {
      stopped = true;
      await Promise.all(senders);
    },
  };
}

t.test(
  'QUE-22: nodes of two releases on one database: migrated with a kill, joined, left and rolled back under load',
  async (t) => {
    const sink = await startSink();
    t.teardown(() => sink.close());
    const domains = Array.from({ length: 5 }, (_, index) => [`to${index}.test`, { A: ['127.0.0.1'] }] as const);
    const zone = await startZone({
      [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
      ...Object.fromEntries(domains),
    });
    t.teardown(() => zone.close());
    const url = await createDatabase();
    const env = testEnv(url, directEnv(zone, sink.port));
    const release = await makeNextRelease(t);
    const start = async (program?: string) => {
      const app = await startSendwright({ ...env, DATA_DIR: await makeFolder(t) }, program);
      t.teardown(() => app.end('SIGKILL'));
      return app;
    };

    const old = await start();
    const key = await prepareSender(old, zone, 'many.test');
    const traffic = startTraffic(key, old);
    await traffic.goTo(old);
    const before = traffic.accepted.length;
    await migrateHalf(release.folder, env, 'templates');
    const run = { env: { ...env, ...ownEnv() } };
    const { applied } = JSON.parse(
      (await promisify(execFile)(process.execPath, migrateBy(release.folder), run)).stdout,
    );
    t.ok(applied.length < release.names.length, 'some were applied before the kill, and remain');
    t.same(applied, release.names.slice(-applied.length), 'the one that it was killed in, and those after it');
    t.ok(traffic.accepted.length > before, 'the old node accepts mail while its database changes');
    await traffic.goTo(old);

    const next = await start(join(release.folder, 'src/main.ts'));
    await traffic.goTo(old, next);
    await traffic.goTo(next);
    t.equal(await old.end('SIGTERM'), 0);
    await traffic.goTo(next);

    t.match(await sendwright(env, 'accounts', 'list'), { code: 1, said: /belongs to a newer version/ });
    const back = await start();
    await traffic.goTo(back);
    t.equal(await next.end('SIGTERM'), 0);
    await traffic.goTo(back);
    await traffic.stop();

    t.same(traffic.refused, []);
    const sent = async () => (await back.call('GET', '/api/v1/emails?status=sent&limit=1', { key })).body.count;
    await eventually(async () => (await sent()) === traffic.accepted.length);
    const subjects = sink.messages.map(({ raw }) => Number(/^Subject: (\d+)\r$/m.exec(raw.toString('latin1'))?.[1]));
    const sorted = (numbers: number[]) => numbers.toSorted((a, b) => a - b);
    t.same(sorted(subjects), sorted(traffic.accepted), 'each arrived once');
    t.equal(await back.end('SIGTERM'), 0);
    for (const app of [old, next, back]) t.notMatch(app.stdout(), /"level":"?(error|50)/, 'no failure went unreported');
    await administer(['SELECT of_next_release FROM emails LIMIT 1'], new URL(url).pathname.slice(1));
  },
);
