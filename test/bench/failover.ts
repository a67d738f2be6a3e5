import { appendFileSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { asked, wholeNumbers } from '../support/command-line.ts';
import { directEnv, mailHostname, prepareSender } from '../support/direct.ts';
import { testEnv } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { startSink } from '../support/sink.ts';
import { startZone } from '../support/zone.ts';
import { Load } from './failover/load.ts';
import { missing, Patroni } from './failover/patroni.ts';

/**
 * The primary of a PostgreSQL managed by Patroni is killed under load, over and over, and every 200 is compared with
 * what arrived: `npm run chaos:failover`. With `--async` commits do not wait for the standby, and it is cut off for two
 * seconds before each kill: then 200s must be lost, or this could not detect a loss.
 */

const usage = `npm run chaos:failover [-- options]: kills the primary of a PostgreSQL under Patroni, again and again

  --rounds N        kills (3)
  --seconds N       of load before each (10)
  --clients N       at once (8)
  --workers N       processes of the node (2)
  --ttl N           seconds until Patroni takes a primary for dead (20)
  --async           commits do not wait for the standby: 200s must be lost, or this could not find a loss
  --json FILE       the figures
  --keep            leaves its folder`;

const values = asked(usage, (args) => {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '10' },
      clients: { type: 'string', default: '8' },
      workers: { type: 'string', default: '2' },
      ttl: { type: 'string', default: '20' },
      async: { type: 'boolean', default: false },
      json: { type: 'string' },
      keep: { type: 'boolean', default: false },
    },
  });
  return { ...values, ...wholeNumbers(values, { rounds: 1, seconds: 1, clients: 1, workers: 1, ttl: 1 }) };
});
const seconds = values.seconds;
const cutMs = 2_000;
const settleMs = 180_000;

interface Round {
  killed: string;
  /** 200s before the kill, in this round. */
  acknowledged: number;
  /** The longest time without a 200 after it. */
  gapMs: number;
}

const say = (sentence: string) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${sentence}\n`);

async function main(): Promise<void> {
  const absent = missing();
  if (absent) throw new Error(`${absent} is missing: apt-get install patroni etcd-server haproxy postgresql-15`);
  const folder = await mkdtemp(join(tmpdir(), 'sendwright-failover-'));
  await chmod(folder, 0o755);
  const stops: (() => Promise<unknown>)[] = [];
  try {
    const result = await run(folder, stops);
    process.stdout.write(tableOf(result));
    if (values.json) await writeFile(values.json, `${JSON.stringify(result, null, 2)}\n`);
    const bad = result.lost.length > 0 || result.gone > 0 || result.unsettled > 0 || result.strange > 0;
    process.exitCode = bad !== values.async ? 1 : 0;
    if (bad && !values.async) say(`the ledgers are in ${folder}`);
  } finally {
    for (const stop of stops.toReversed()) await stop();
    if (!values.keep && process.exitCode !== 1) await rm(folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

async function run(folder: string, stops: (() => Promise<unknown>)[]) {
  const patroni = new Patroni({
    folder: join(folder, 'database'),
    synchronous: !values.async,
    ttl: values.ttl,
  });
  stops.push(() => patroni.stop());
  say('starting etcd, two PostgreSQL servers under Patroni, and HAProxy');
  await patroni.start();
  const databaseUrl = await patroni.createDatabase();

  const ledger = join(folder, 'arrived.jsonl');
  const arrived = new Map<string, number>();
  const sink = await startSink({
    onMessage({ raw }) {
      const subject = /^Subject: (.*)\r$/m.exec(raw.toString('latin1', 0, 4_000))?.[1] ?? '';
      // Before its 250.
      appendFileSync(ledger, `${JSON.stringify({ at: Date.now(), arrived: subject })}\n`);
      arrived.set(subject, (arrived.get(subject) ?? 0) + 1);
      return null;
    },
  });
  stops.push(() => sink.close());
  const names = Array.from({ length: 10 }, (_, index) => [`to${index}.test`, { A: ['127.0.0.1'] }] as const);
  const zone = await startZone({
    [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
    ...Object.fromEntries(names),
  });
  stops.push(() => zone.close());
  const env = testEnv(databaseUrl, {
    ...directEnv(zone, sink.port),
    ALLOW_UNSAFE_DATABASE: 'false',
    DATA_DIR: join(folder, 'data'),
    WORKERS: String(values.workers),
  });
  const app = await startSendwright(env);
  stops.push(async () => {
    await app.end('SIGTERM');
    await writeFile(join(folder, 'sendwright.log'), app.stdout() + app.stderr());
  });
  const key = await prepareSender(app, zone, 'failover.test');

  const load = new Load({
    ...{ baseUrl: app.baseUrl, key, from: 'a@failover.test' },
    ...{ ledger: join(folder, 'asked.jsonl'), clients: values.clients },
  });
  const rounds: Round[] = [];
  for (let number = 1; number <= values.rounds; number += 1) rounds.push(await kill(patroni, load, number));
  await load.stop();
  say(`${load.acknowledged} emails have a 200; waiting for the last of them to arrive`);
  const unsettled = await settle(databaseUrl);
  const gone = await goneFrom(databaseUrl, load);
  const lost = load.asked.filter(({ name, acknowledged }) => acknowledged !== null && !arrived.has(name));
  const names200 = new Set(load.asked.map(({ name }) => name));
  return {
    rounds,
    synchronous: !values.async,
    workers: values.workers,
    acknowledged: load.acknowledged,
    askedAgain: load.asked.filter(({ tries }) => tries > 1).length,
    arrived: arrived.size,
    again: [...arrived.values()].reduce((sum, copies) => sum + copies - 1, 0),
    strange: [...arrived.keys()].filter((name) => !names200.has(name)).length,
    gone,
    lost: lost.map(({ name }) => name),
    unsettled,
  };
}

async function kill(patroni: Patroni, load: Load, number: number): Promise<Round> {
  const before = load.acknowledged;
  await sleep(seconds * 1_000);
  if (values.async) {
    const kill = await patroni.cutStandby();
    await sleep(cutMs);
    kill();
  }
  const acknowledged = load.acknowledged - before;
  const killed = await patroni.killPrimary();
  const killedAt = Date.now();
  say(`round ${number}: ${acknowledged} emails acknowledged, ${killed} killed`);
  const known = load.acknowledged;
  // Much later: each client must have recovered.
  while (load.acknowledged < known + 50) await sleep(100);
  const gapMs = load.longestGapSince(killedAt);
  say(`round ${number}: no 200 for ${(gapMs / 1_000).toFixed(1)} s`);
  patroni.restart(killed);
  await patroni.redundant();
  return { killed, acknowledged, gapMs };
}

/**
 * Waits until nothing is open.
 *
 * @returns how many recipients still are after a long time
 */
async function settle(databaseUrl: string): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    for (const end = Date.now() + settleMs; ; await sleep(250)) {
      const { rows } = await client.query('SELECT count(*)::int AS open FROM recipients WHERE settled_at IS NULL');
      if (rows[0].open === 0 || Date.now() > end) return rows[0].open;
    }
  } finally {
    await client.end();
  }
}

/** How many emails with a 200 are unknown to the database. */
async function goneFrom(databaseUrl: string, load: Load): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const ids = load.asked.flatMap(({ acknowledged }) => (acknowledged ? [acknowledged.id] : []));
    const { rows } = await client.query('SELECT count(*)::int AS known FROM emails WHERE id = ANY($1)', [ids]);
    return ids.length - rows[0].known;
  } finally {
    await client.end();
  }
}

function tableOf(result: Awaited<ReturnType<typeof run>>): string {
  const gaps = result.rounds.map(({ gapMs }) => (gapMs / 1_000).toFixed(1));
  const rows: [string, string | number][] = [
    ['commits wait for the standby', result.synchronous ? 'yes' : 'no, and it was cut off'],
    ['kills of the primary', result.rounds.length],
    ['seconds without a 200, each', gaps.join(', ')],
    ['emails with a 200', result.acknowledged],
    ['of these, requested more than once', result.askedAgain],
    ['arrived', result.arrived],
    ['lost', result.lost.length],
    ['no longer in the database', result.gone],
    ['second copies', result.again],
    ['that nobody requested', result.strange],
    ['left open', result.unsettled],
  ];
  return `${['| | |', '|---|---|', ...rows.map(([name, value]) => `| ${name} | ${value} |`)].join('\n')}\n`;
}

main().catch((error: Error) => {
  console.error(error.stack);
  process.exitCode = 2;
});
