import { join } from 'node:path';
import pg from 'pg';
import { oneLine, outOfFiles, StartError, TakenPorts } from '../process/start-error.ts';
import { causesOf, isOfUnknownAuthority, isUnavailable } from './errors.ts';

/** What to do about a standby, or a database that was made read-only. */
export const remedyOfReadOnly = 'set DATABASE_URL to the primary server, and default_transaction_read_only off';

/** What an operator can do, by SQLSTATE (PostgreSQL's appendix A). */
const remedies: Record<string, string> = {
  '28P01': 'set the right user and password in DATABASE_URL',
  '28000': 'set a user in DATABASE_URL that may log in, and check pg_hba.conf of the server',
  '3D000': 'create it, or name another in DATABASE_URL',
  '42501': "make the role of DATABASE_URL the owner of the database and everything in it, or GRANT it the owner's role",
  '25006': remedyOfReadOnly,
  '53300': "raise the limit, or stop the database's other clients",
  '53100': 'make room on the disk of the database',
};

/**
 * The start error for an error of the database; null for any other error, such as a defect of ours.
 *
 * @param unreached true before the database's first answer: then any error is about reaching it
 */
export function startErrorOf(error: unknown, unreached = false): StartError | null {
  if (error instanceof StartError) return error;
  for (const cause of causesOf(error)) {
    const full = outOfFiles(cause);
    if (full) return full;
  }
  const refusal = refusalIn(error);
  if (refusal?.code !== undefined && refusal.code in remedies) {
    return new StartError(`the database refuses (${oneLine(refusal.message)}): ${remedies[refusal.code]}`);
  }
  if (!unreached && !refusal && !isUnavailable(error)) return null;
  const { message } = refusal ?? (error as Error);
  return new StartError(
    `the database ${unreached ? 'cannot be reached' : 'failed'} (${oneLine(message) || 'no answer'}): ${adviceOn(error, message)}`,
    { cause: error },
  );
}

/** How PgBouncer, 1.18 to 1.26 at least, refuses what a connection of ours asks for: no SQLSTATE is its own. */
const ofPooler = /^unsupported startup parameter/;
const ignoredByPooler = 'options,statement_timeout,idle_in_transaction_session_timeout';

function adviceOn(error: unknown, message: string): string {
  if (isOfUnknownAuthority(error))
    return 'add sslrootcert= to DATABASE_URL, with the path of the PEM file of its authority';
  if (ofPooler.test(message))
    return `DATABASE_URL leads to a pooler; set it to PostgreSQL itself, or give PgBouncer pool_mode = session and ignore_startup_parameters = ${ignoredByPooler} (see docs/scaling.md)`;
  return 'check DATABASE_URL and its server';
}

/**
 * The same for a start on the embedded server, which no DATABASE_URL names: the server ended or failed meanwhile. Null for any
 * other error.
 *
 * @param isGone whether the server has ended
 */
export function embeddedStartFailureOf(error: unknown, dataDir: string, isGone: boolean): StartError | null {
  if (error instanceof TakenPorts) return null;
  const known = startErrorOf(error);
  // Those with a cause are the ones that name DATABASE_URL.
  if (!isGone && !(known?.cause && isUnavailable(known))) return null;
  const { message } = refusalIn(error) ?? (known?.cause as Error | undefined) ?? (error as Error);
  return new StartError(
    `the embedded PostgreSQL ${isGone ? 'has stopped' : 'failed'} during the start (${oneLine(message) || 'no answer'}): start Sendwright again, and see the end of ${join(dataDir, 'postgres.log')} for the reason`,
  );
}

/**
 * The same for an error of the embedded server that a running Sendwright has, which no DATABASE_URL names; null for any error
 * that is not about that server.
 */
export function embeddedFailureOf(error: unknown, dataDir: string, pid: number): StartError | null {
  if (error instanceof StartError || !isUnavailable(error)) return null;
  const refusal = refusalIn(error);
  if (refusal?.code !== undefined && refusal.code in remedies) return null;
  const { message } = refusal ?? (error as Error);
  const what = `the embedded PostgreSQL in ${dataDir}`;
  return new StartError(
    refusal
      ? `${what} refuses (${oneLine(message)}): try again, and see its postgres.log if that goes on`
      : `${what} does not answer (${oneLine(message) || 'no answer'}): if that goes on, end its process with kill -9 ${pid}, which loses no mail, and start Sendwright again`,
    { cause: error },
  );
}

/** PostgreSQL's own error among the causes. */
function refusalIn(error: unknown): pg.DatabaseError | null {
  return [...causesOf(error)].find((at) => at instanceof pg.DatabaseError) ?? null;
}
