import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile, stat, statfs } from 'node:fs/promises';
import type { CertificateFiles } from '../../crypto/certificate.ts';
import { foreignTables, missingRight } from '../../db/check.ts';
import type { Database, Sql } from '../../db/client.ts';
import { listPartitions } from '../../db/partitions.ts';
import { capitalized } from '../../mail/text/characters.ts';
import { timeInWords } from '../../numbers.ts';
import { about, type Finding } from './finding.ts';

/**
 * Clocks that differ by less than this are well. Mail goes by the database's clock in any case; logins and the lines of the log by
 * this machine's.
 */
const clockMs = 10_000;

/** Of the disk of the embedded database, and of one that has only the journal of deliveries, a few megabytes for each process. */
const leastFree = { database: 2 * 1024 ** 3, journal: 256 * 1024 ** 2 };

/** Programs that renew certificates have done so by the time that only this is left, or this share of a short validity. */
const renewedMs = 14 * 86_400_000;
const renewedShare = 1 / 5;

/** Whether this machine's clock agrees with the database's. */
export async function checkClock(db: Database): Promise<Finding[]> {
  const { ok, problem } = about('clock', 'this machine');
  // The first statement may wait for a connection, so it is not timed.
  await db.query({ text: 'SELECT 1' });
  const asked = Date.now();
  const [row] = await db.query<{ now: Date }>({ text: 'SELECT clock_timestamp() AS now' });
  // The middle of the round trip is the best estimate there is.
  const here = (asked + Date.now()) / 2;
  const offMs = Math.round(here - (row?.now.getTime() ?? here));
  const off = Math.abs(offMs) < 60_000 ? `${Math.abs(offMs / 1_000).toFixed(1)} s` : timeInWords(Math.abs(offMs));
  const found = `It is ${off} ${offMs < 0 ? 'behind' : 'ahead of'} the database's.`;
  if (Math.abs(offMs) <= clockMs) return [ok(found)];
  return [
    problem(
      found,
      'Synchronize the clocks of this machine and of the database with a time service (chrony, systemd-timesyncd).',
    ),
  ];
}

/** Whether the disk of DATA_DIR has enough room. */
export async function checkDisk(dataDir: string, embedded: boolean): Promise<Finding[]> {
  const { ok, problem, unknown } = about('disk_space', dataDir);
  try {
    const { bavail, bsize, blocks } = await statfs(dataDir);
    const free = bavail * bsize;
    const share = Math.round((bavail / Math.max(blocks, 1)) * 100);
    const found = `${(free / 1024 ** 3).toFixed(1)} GB are free (${share} %)${embedded ? '' : ", not counting the database's own disk"}.`;
    if (free >= (embedded ? leastFree.database : leastFree.journal)) return [ok(found)];
    const [least, what] = embedded ? ['2 GB', 'the database'] : ['256 MB', 'the journal of deliveries'];
    return [problem(found, `Free at least ${least}: ${what} is on this disk.`)];
  } catch (error) {
    const { code = 'error' } = error as NodeJS.ErrnoException;
    return [unknown(`The folder cannot be read (${code}).`, 'Set DATA_DIR to the folder of the service.')];
  }
}

/** Whether committed data survives a loss of power. */
export async function checkDurability(db: Database): Promise<Finding[]> {
  const names = ['fsync', 'full_page_writes', 'synchronous_commit'];
  const rows = await db.query<{ name: string; setting: string }>({
    text: 'SELECT name, setting FROM pg_settings WHERE name = ANY ($1) ORDER BY name',
    values: [names],
  });
  return rows.map(({ name, setting }) => {
    const { ok, problem } = about('database_durability', name);
    if (setting !== 'off') return ok(`It is ${setting}.`);
    return problem('It is off, so accepted mail can be lost.', `Set ${name} = on in the configuration of PostgreSQL.`);
  });
}

/** Whether the role of the database still has the rights that it had at the start: each week needs new tables. */
export async function checkRights(db: Sql): Promise<Finding[]> {
  const { ok, problem } = about('database_rights', 'the database');
  const missing = (await missingRight(db)) ?? (await foreignTables(db));
  if (missing === null) return [ok('Tables for the weeks to come can be made.')];
  const tables = Map.groupBy(await listPartitions(db), ({ table }) => table);
  const ends = [...tables.values()].map((weeks) => Math.max(...weeks.map(({ to }) => to.getTime())));
  const end = Math.min(...ends);
  const until = Number.isFinite(end)
    ? ` There are tables for mail until ${new Date(end).toISOString().slice(0, 10)}; after that it is refused.`
    : '';
  const { lacks, remedy } = missing;
  return [problem(`${capitalized(lacks)}.${until}`, `Run ${remedy}.`)];
}

/** Whether calls to the API, and the links in mail, are encrypted. */
export function checkBaseUrl(baseUrl: string): Finding[] {
  const { ok, problem } = about('base_url', baseUrl);
  const { protocol, hostname } = new URL(baseUrl);
  const proxy = 'Put a reverse proxy with TLS in front, and set BASE_URL to its https address.';
  if (/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname))
    return [problem('It leads only to this machine, so unsubscribe links do not work for recipients.', proxy)];
  if (protocol !== 'https:')
    return [
      problem(
        'It is not https: passwords and keys are sent in clear text, and mail programs show no unsubscribe button.',
        proxy,
      ),
    ];
  return [ok('It is https.')];
}

/** Whether the certificate of the SMTP servers is valid, can be shown with its key, and will be renewed in time. */
export async function checkCertificate({ cert, key }: CertificateFiles, now: Date = new Date()): Promise<Finding[]> {
  const { ok, problem, note } = about('smtp_certificate', cert);
  const found = await Promise.all([cert, key].map((file) => stat(file).catch(() => null)));
  // Reading a pipe again would wait for somebody to fill it, and hold a thread for as long.
  if (found.some((one) => one && !one.isFile()))
    return [
      note(
        'It came through a pipe, which cannot be read again, so it is not known how long it is valid.',
        'Restart the service when it is renewed.',
      ),
    ];
  const certificate = await read(cert, (pem) => new X509Certificate(pem), 'it is no certificate');
  if (typeof certificate === 'string')
    return [
      problem(`It cannot be read (${certificate}).`, 'Set SMTP_TLS_CERT to a PEM file that the service can read.'),
    ];
  const privateKey = await read(key, createPrivateKey, 'it is no private key without a password');
  // A running service still shows what it had, until that expires or the service starts again.
  if (typeof privateKey === 'string')
    return [
      problem(
        `Its key ${key} cannot be read (${privateKey}), so it cannot be shown.`,
        'Set SMTP_TLS_KEY to a PEM file that the service can read.',
      ),
    ];
  if (!certificate.checkPrivateKey(privateKey))
    return [
      problem(
        `The key ${key} belongs to another certificate, so this one cannot be shown.`,
        'Put a certificate and its own key there.',
      ),
    ];
  const [from, to] = [Date.parse(certificate.validFrom), Date.parse(certificate.validTo)];
  const dayOf = (time: number) => new Date(time).toISOString().slice(0, 10);
  const renew = 'Renew it: the service shows the new one within seconds, without a restart.';
  if (now.getTime() > to) return [problem(`It expired on ${dayOf(to)}.`, renew)];
  if (now.getTime() < from)
    return [problem(`It is valid only from ${dayOf(from)}.`, 'Check the clock of this machine, or set SMTP_TLS_CERT.')];
  if (to - now.getTime() < Math.min(renewedMs, renewedShare * (to - from)))
    return [problem(`It expires on ${dayOf(to)}.`, renew)];
  return [ok(`It is valid until ${dayOf(to)}.`)];
}

/** What a file holds, or why it cannot be read. */
async function read<T>(file: string, parse: (pem: Buffer) => T, otherwise: string): Promise<T | string> {
  try {
    return parse(await readFile(file));
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    return (syscall && code) || otherwise;
  }
}
