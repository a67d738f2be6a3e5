import { rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { connect } from '../../src/db/client.ts';
import { floorId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { asked, wholeNumbers } from '../support/command-line.ts';
import { drain } from './growth/drain.ts';
import { addDelivered, takeModel } from './growth/fill.ts';
import { timeLog } from './growth/log-times.ts';
import { reportOf } from './growth/report.ts';
import { dropWeeks } from './growth/retention.ts';
import { type Seen, seenSince } from './growth/watching.ts';
import { describeMachine } from './throughput/machine.ts';
import { medianOf, nextRound } from './throughput/measure.ts';
import type { Recipe } from './throughput/recipe.ts';
import { type Measured, type RoundOptions, runRound, startTools, stopTools, type Tools } from './throughput/round.ts';
import { type Sendwright, startBenchedSendwright } from './throughput/sendwright.ts';
import type { System } from './throughput/system.ts';

/**
 * What happens to accepting, delivering and looking up when the tables hold millions of emails: the real process with
 * an empty database, and with the same one once it is filled. `npm run bench:growth`, with `-- --help` for the options.
 * Ten million take about 45 GB in the folder.
 */

const usage = `npm run bench:growth -- [options]
  --emails N      delivered emails of the past four weeks (10000000)
  --backlog N     queued emails of one account that are to go out (1000000; 0: none)
  --messages N    in a round of batches (10000)
  --rounds N      medians of so many (3)
  --json FILE     the figures
  --folder DIR    where the database goes (the system's temporary folder)`;

const options = asked(usage, (args) => {
  const { values } = parseArgs({
    args,
    options: {
      emails: { type: 'string', default: '10000000' },
      backlog: { type: 'string', default: '1000000' },
      messages: { type: 'string', default: '10000' },
      rounds: { type: 'string', default: '3' },
      json: { type: 'string', default: 'growth.json' },
      folder: { type: 'string', default: tmpdir() },
      env: { type: 'string', multiple: true, default: [] },
    },
  });
  return { ...values, ...wholeNumbers(values, { emails: 1, backlog: 0, messages: 2, rounds: 1 }) };
});
const tell = (line: string) => process.stderr.write(`${line}\n`);
const dayMs = 24 * 3_600_000;
const pastDays = 28;
const domains = 20;
const logRounds = 30;
/** At most, of a week that is dropped: filling it takes as long as the rest. */
const mostInOldWeek = 1_000_000;

export interface Measurement {
  batches: Measured;
  singles: Measured;
  seen: Seen;
}

function roundOf(how: 'batches' | 'singles', count: number, from: string): RoundOptions {
  const recipe: Recipe = {
    round: nextRound(),
    count,
    bytes: 2_048,
    from,
    tls: false,
    domains,
    sites: 1,
    sameBody: false,
  };
  return { recipe, how, clients: how === 'batches' ? 2 : 50, perSession: 1, oneByOne: false };
}

/** The usual audit reads all recipients; this one only those since the request. */
function auditingLate(app: Sendwright, db: pg.Client): System {
  const begun = new Date();
  return {
    ...app,
    async audit({ round, count }) {
      const { rows } = await db.query({
        text: `SELECT /* bench */ count(*)::int AS delivered,
                      coalesce(sum((SELECT count(*) FROM attempts a WHERE a.email_id = r.email_id AND a.outcome = 'delivered')), 0)::int AS attempts
                 FROM recipients r WHERE r.email_id >= $1 AND r.status = 'delivered' AND r.address LIKE $2`,
        values: [floorId(begun), `r${round}.u%`],
      });
      const { delivered, attempts } = rows[0];
      if (delivered !== count || attempts !== count)
        throw new Error(`of ${count} emails ${delivered} are recorded as delivered, with ${attempts} attempts`);
    },
  };
}

async function measure(app: Sendwright, db: pg.Client, tools: Tools, probe: string): Promise<Measurement> {
  const messages = options.messages;
  const system = auditingLate(app, db);
  await runRound(system, tools, roundOf('batches', 2_000, app.from));
  const began = Date.now();
  const several = async (how: 'batches' | 'singles', count: number) => {
    const rounds: Measured[] = [];
    while (rounds.length < options.rounds) {
      const round = await runRound(system, tools, roundOf(how, count, app.from));
      rounds.push(round);
      const { server, database } = round.cpu;
      tell(
        `  ${how}: ${round.deliveredPerSecond.toFixed(0)}/s, ${(server + database).toFixed(2)} CPU-s per 1,000 (server ${server.toFixed(2)}, database ${database.toFixed(2)}), ${(round.peakMemory / 1e6).toFixed(0)} MB`,
      );
    }
    return medianOf(rounds);
  };
  const batches = await several('batches', messages);
  const singles = await several('singles', Math.ceil(messages / 5));
  return { batches, singles, seen: seenSince(probe, began) };
}

async function main(): Promise<void> {
  const [emails, backlog] = [options.emails, options.backlog];
  const probe = join(options.folder, `sendwright-growth-${process.pid}.jsonl`);
  const tools = await startTools();
  const load = `--import=${new URL('./growth/probe.ts', import.meta.url).href}`;
  const more = Object.fromEntries(options.env.map((each) => each.split(/=(.*)/s).slice(0, 2)));
  const app = await startBenchedSendwright({
    ...{ folder: options.folder, sinkPort: tools.sinkPort, domains, sites: 1, webhookPort: null },
    env: { GROWTH_PROBE: probe, ...more, NODE_OPTIONS: `${load} ${more.NODE_OPTIONS ?? ''}` },
  });
  const url = app.databaseUrl('sendwright');
  const client = new pg.Client({ connectionString: url });
  const db = connect(url, silentLog, 8);
  try {
    await client.connect();
    tell('On an empty database');
    const empty = await measure(app, client, tools, probe);
    tell(`Filling in ${emails} emails of ${pastDays} days, with short bodies`);
    await takeModel(client);
    const filling = performance.now();
    const now = Date.now();
    await addDelivered(client, { emails, from: new Date(now - pastDays * dayMs), to: new Date(now) }, tell);
    const fillSeconds = (performance.now() - filling) / 1_000;
    tell('Before statistics are gathered for the new rows');
    const unanalyzed = await measure(app, client, tools, probe);
    tell('Vacuuming, as autovacuum does in time');
    await client.query('VACUUM (ANALYZE)');
    await client.query('CHECKPOINT');
    tell('With the tables full');
    const full = await measure(app, client, tools, probe);
    tell('The log');
    const { host, port, key } = app.target({ ...roundOf('singles', 1, app.from).recipe }, 'singles');
    const log = await timeLog(`http://${host}:${port}`, key ?? '', logRounds);
    const recipe = { ...roundOf('batches', Math.max(1, backlog), app.from).recipe };
    if (backlog > 0) tell(`A backlog of ${backlog}`);
    const withinMs = 120_000 + backlog * 20;
    const drained = backlog > 0 ? await drain(app, client, tools, recipe, { probe, withinMs, tell }) : null;
    tell('Two weeks that are over');
    const old = Math.min(Math.ceil(emails / 4), mostInOldWeek);
    const single = () => roundOf('singles', options.messages / 2, app.from);
    const dropped = await dropWeeks(auditingLate(app, client), { client, db }, tools, {
      emails: old,
      round: single,
      tell,
    });
    const { rows } = await client.query(`SELECT pg_database_size(current_database())::float8 AS bytes`);
    const figures = {
      ...describeMachine(),
      emails,
      fillSeconds,
      databaseBytes: rows[0].bytes,
      empty,
      unanalyzed,
      full,
      log,
      drained,
      dropped,
    };
    console.log(reportOf(figures));
    await writeFile(options.json, `${JSON.stringify(figures, null, 1)}\n`);
  } finally {
    await client.end();
    await db.close();
    await app.stop();
    stopTools(tools);
    rmSync(probe, { force: true });
  }
}

try {
  await main();
} catch (error) {
  tell(`The benchmark failed: ${(error as Error).message}`);
  process.exitCode = 1;
}
