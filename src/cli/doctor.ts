import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { readConfig } from '../config.ts';
import type { Surroundings } from '../core/domains/record-checks.ts';
import { examine, isWell } from '../core/operations/doctor.ts';
import { checkNames, type Finding } from '../core/operations/finding.ts';
import { connectionsOf } from '../database.ts';
import { refuseDatabase } from '../db/check.ts';
import type { Database } from '../db/client.ts';
import { doctorQuery } from '../http/routes/doctor.ts';
import { type Internet, installationOf, lookUpOf } from '../internet.ts';
import { keyringOf } from '../seal.ts';
import type { Command, Told } from './command.ts';
import { hasEmbedded, type Opened, withDatabase } from './database.ts';
import { read, textOf } from './given.ts';
import { lookedUpBeside, lookedUpFrom } from './surroundings.ts';

const signs = { ok: 'ok', problem: 'PROBLEM', unknown: 'unknown' };

function linesOf({ check, subject, health, found, advice }: Finding): string[] {
  const name = check.replaceAll('_', ' ');
  return [`${signs[health].padEnd(7)}  ${name}, ${subject}: ${found}`, ...(advice ? [`         -> ${advice}`] : [])];
}

export const doctor: Command = {
  summary: 'checks everything that mail depends on, and says what to fix',
  help: [
    'Usage: sendwright doctor [--mx <host>]',
    '',
    `Checks ${checkNames.map((name) => name.replaceAll('_', ' ')).join(', ')}.`,
    'It takes up to 25 seconds. The exit code is 0 if all is well, and 1 if there is something to do. Each finding says what:',
    'a problem to fix, or something unknown to find out. You can run it before the first start.',
    '',
    '  --mx <host>  the MX host to try port 25 on, such as that of your own mailbox; the default is that of a verified domain.',
    '               The doctor connects to no other host. DNS_BLOCKLISTS sets the blocklists that it queries.',
  ].join('\n'),
  options: { mx: { type: 'string' } },
  async run(env, say, given) {
    const { mx = null } = read(doctorQuery, { mx: textOf(given, 'mx') });
    const onProgress = (done: number, all: number) => given.progress(`${done} of ${all} checks done`);
    const look = ({ config, db }: Room, { internet, surroundings }: From) =>
      examine(
        { db, surroundings, lookUp: lookUpOf(config, internet), installation: installationOf(config, internet) },
        mx,
        { onProgress },
      );
    const before = (room: Room) => lookedUpBeside(room, (from) => look(room, from));

    const config = readConfig(env);
    if (config.databaseUrl === null && !hasEmbedded(config.dataDir)) return examineWithoutServer(config, before);
    return withDatabase(
      env,
      say,
      async (opened) => tell(await lookedUpFrom(opened, (from) => look(opened, from)), null),
      async (opened) => examineWithoutTables(opened, before),
    );
  },
};

type Room = Pick<Opened, 'config' | 'db' | 'keyring'>;
interface From {
  internet: Internet;
  surroundings: Surroundings;
}
type Look = (room: Room) => Promise<Finding[]>;

/** What a start would make of a database that has no tables yet. */
interface Unprepared {
  sentence: string;
  /** Why a start would not take it. */
  refusal: string | null;
}

function tell(findings: Finding[], unprepared: Unprepared | null): Told {
  const count = (kind: Finding['health']) => findings.filter(({ health }) => health === kind).length;
  const refusal = unprepared?.refusal ?? null;
  const well = isWell(findings) && refusal === null;
  const [problems, unknown] = [count('problem') + (refusal === null ? 0 : 1), count('unknown')];
  const first = unprepared ? [unprepared.sentence, ...(refusal ? [`PROBLEM  database: ${refusal}`] : [])] : [];
  return {
    json: { well, prepared: unprepared === null, database_refusal: refusal, findings },
    text: [
      ...first,
      ...findings.flatMap(linesOf),
      well ? 'All is well.' : `Problems: ${problems}, unknown: ${unknown}.`,
    ].join('\n'),
    failed: !well,
  };
}

async function examineWithoutTables(opened: Opened, look: Look): Promise<Told> {
  const { config, db } = opened;
  const demands = { connections: connectionsOf(config.workers), allowUnsafe: config.allowUnsafeDatabase };
  const refusal = await refuseDatabase(db, demands);
  const findings = await withoutDataDir(config, (here) => look({ ...opened, config: here, db: withoutDomains(db) }));
  const sentence =
    'The database has no Sendwright tables yet: the first start creates them. Everything else is checked now.';
  return tell(findings, { sentence, refusal });
}

/** The embedded database is made by the first start, on this machine and by its clock. */
async function examineWithoutServer(config: Opened['config'], look: Look): Promise<Told> {
  const nobody = { query: () => Promise.reject(new Error('there is no database yet')) };
  const room = { db: withoutDomains(nobody), keyring: keyringOf(randomBytes(32), null) };
  const findings = await withoutDataDir(config, (here) => look({ ...room, config: here }));
  const sentence = `DATA_DIR ${config.dataDir} has no database yet: the first start creates it. Everything else is checked now.`;
  return tell(
    findings.filter(({ check }) => check !== 'clock' && check !== 'database_durability'),
    { sentence, refusal: null },
  );
}

/** A database whose tables are not there yet has no domains; nothing else is asked of it. */
const withoutDomains = (db: Pick<Database, 'query'>) =>
  ({ query: db.query, prisma: { domain: { findMany: async () => [] } } }) as unknown as Database;

/** The first start makes DATA_DIR, on the disk of the folder that is above it now. */
async function withoutDataDir(
  config: Opened['config'],
  look: (config: Opened['config']) => Promise<Finding[]>,
): Promise<Finding[]> {
  let folder = resolve(config.dataDir);
  if (existsSync(folder)) return look(config);
  while (!existsSync(folder)) folder = dirname(folder);
  const findings = await look({ ...config, dataDir: folder });
  return findings.map((finding) =>
    finding.check === 'disk_space' ? { ...finding, subject: config.dataDir } : finding,
  );
}
