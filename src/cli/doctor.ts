import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { type Config, readConfig } from '../config.ts';
import { examine, isWell } from '../core/operations/doctor.ts';
import { type CheckName, checkNames, type Finding } from '../core/operations/finding.ts';
import { keyringOf } from '../crypto/seal.ts';
import { refuseDatabase } from '../db/check.ts';
import type { Database } from '../db/client.ts';
import { isUnavailable } from '../db/errors.ts';
import { startErrorOf } from '../db/failure.ts';
import { doctorQuery } from '../http/routes/doctor.ts';
import { connectionsOf } from '../node/database.ts';
import { installationOf, lookUpOf } from '../node/internet.ts';
import type { Command, Output } from './command.ts';
import { demandEncryptionKey, hasEmbedded, type Opened, withDatabase } from './database.ts';
import { read, textOf } from './given.ts';
import { withLookups } from './lookups.ts';

const signs = { ok: 'ok', problem: 'PROBLEM', unknown: 'unknown', note: 'note' };

function linesOf({ check, subject, health, found, advice }: Finding): string[] {
  const name = check.replaceAll('_', ' ');
  return [`${signs[health].padEnd(7)}  ${name}, ${subject}: ${found}`, ...(advice ? [`         -> ${advice}`] : [])];
}

export const doctor: Command = {
  help: [
    'Usage: sendwright doctor [--mx <host>]',
    '',
    `Checks ${checkNames.map((name) => name.replaceAll('_', ' ')).join(', ')}.`,
    'It takes up to 25 seconds. The exit code is 0 if all is well, and 1 if there is something to do. Each finding says what:',
    'a problem to fix, or something unknown to find out. A note does not count, such as a domain that is not verified while others',
    'are. You can run it before the first start.',
    '',
    '  --mx <host>  the MX host to try port 25 on, such as that of your own mailbox; the default is that of a verified domain.',
    '               The doctor connects to no other host. DNS_BLOCKLISTS sets the blocklists that it queries.',
  ].join('\n'),
  options: { mx: { type: 'string' } },
  async run(env, say, given) {
    const { mx = null } = read(doctorQuery, { mx: textOf(given, 'mx') });
    const onProgress = (done: number, all: number) => given.progress(`${done} of ${all} checks done`);
    const examineWithLookups: Examine = (subject) =>
      withLookups(subject, ({ internet, surroundings }) => {
        const { config, db } = subject;
        const lookUp = lookUpOf(config, internet);
        const installation = installationOf(config, internet);
        return examine({ db, surroundings, lookUp, installation }, mx, { onProgress, namedWith: 'with --mx' });
      });

    const config = readConfig(env);
    if (config.databaseUrl === null && !hasEmbedded(config.dataDir))
      return examineWithoutServer(config, examineWithLookups);
    return withDatabase(
      env,
      say,
      async (opened) => {
        await demandEncryptionKey(opened);
        return outputOf(await examineWithLookups(opened), null);
      },
      async (opened) => examineWithoutTables(opened, examineWithLookups),
    ).catch((error: Error) => {
      const refusal = startErrorOf(error);
      if (!refusal || !isUnavailable(error)) throw error;
      return examineWithoutAnswer(config, refusal.message, examineWithLookups);
    });
  },
};

type Subject = Pick<Opened, 'config' | 'db' | 'keyring'>;
type Examine = (subject: Subject) => Promise<Finding[]>;

/** There are no tables yet, which the first start would make, or nobody can look. */
interface Unprepared {
  sentence: string;
  /** Null: it is not known. */
  prepared: false | null;
  /** Why a start would refuse the database; null if it would not. */
  refusal: string | null;
}

function outputOf(findings: Finding[], unprepared: Unprepared | null): Output {
  const count = (kind: Finding['health']) => findings.filter(({ health }) => health === kind).length;
  const refusal = unprepared?.refusal ?? null;
  const well = isWell(findings) && refusal === null;
  const [problems, unknown] = [count('problem') + (refusal === null ? 0 : 1), count('unknown')];
  const first = unprepared ? [unprepared.sentence, ...(refusal ? [`PROBLEM  database: ${refusal}`] : [])] : [];
  return {
    json: { well, prepared: unprepared === null || unprepared.prepared, database_refusal: refusal, findings },
    text: [
      ...first,
      ...findings.flatMap(linesOf),
      well ? 'All is well.' : `Problems: ${problems}, unknown: ${unknown}.`,
    ].join('\n'),
    failed: !well,
  };
}

async function examineWithoutTables(opened: Opened, examine: Examine): Promise<Output> {
  const { config, db } = opened;
  const demands = { connections: connectionsOf(config.workers), allowUnsafe: config.allowUnsafeDatabase };
  const refusal = await refuseDatabase(db, demands);
  const findings = await withoutDataDir(config, (existing) =>
    examine({ ...opened, config: existing, db: withoutDomains(db) }),
  );
  const sentence =
    'The database has no Sendwright tables yet: the first start creates them. Everything else is checked now.';
  // The refusal names a missing right.
  return outputOf(
    findings.filter(({ check }) => check !== 'database_rights'),
    { sentence, prepared: false, refusal },
  );
}

/** The embedded database is made by the first start, on this machine and by its clock. */
async function examineWithoutServer(config: Config, examine: Examine): Promise<Output> {
  const noServer = { query: () => Promise.reject(new Error('there is no database yet')) };
  const subject = { db: withoutDomains(noServer), keyring: keyringOf(randomBytes(32), null) };
  const findings = await withoutDataDir(config, (existing) => examine({ ...subject, config: existing }));
  const sentence = `DATA_DIR ${config.dataDir} has no database yet: the first start creates it. Everything else is checked now.`;
  return outputOf(
    findings.filter(({ check }) => check === 'domain' || !ofDatabase.has(check)),
    { sentence, prepared: false, refusal: null },
  );
}

/** There is a database, but it does not answer, or lets nobody in. */
async function examineWithoutAnswer(config: Config, refusal: string, examine: Examine): Promise<Output> {
  const query = () => Promise.reject(new Error('the database does not answer'));
  const db = { query, prisma: { domain: { findMany: query } } } as unknown as Database;
  const findings = await withoutDataDir(config, (existing) =>
    examine({ config: existing, db, keyring: keyringOf(randomBytes(32), null) }),
  );
  return outputOf(
    findings.filter(({ check }) => !ofDatabase.has(check)),
    { sentence: 'Only what needs no database is checked.', prepared: null, refusal },
  );
}

/** These look into the database alone. */
const ofDatabase = new Set<CheckName>(['clock', 'database_durability', 'database_rights', 'domain']);

/** A database without tables has no domains. The doctor uses no other table of it. */
const withoutDomains = (db: Pick<Database, 'query'>) =>
  ({ query: db.query, prisma: { domain: { findMany: async () => [] } } }) as unknown as Database;

/** If there is no DATA_DIR yet, the first start creates it, on the disk of the closest folder above it: that is examined. */
async function withoutDataDir(config: Config, examine: (existing: Config) => Promise<Finding[]>): Promise<Finding[]> {
  let folder = resolve(config.dataDir);
  if (existsSync(folder)) return examine(config);
  while (!existsSync(folder)) folder = dirname(folder);
  const findings = await examine({ ...config, dataDir: folder });
  return findings.map((finding) =>
    finding.check === 'disk_space' ? { ...finding, subject: config.dataDir } : finding,
  );
}
