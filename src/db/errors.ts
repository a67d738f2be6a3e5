/** The SQLSTATE of a statement that was canceled, as after its timeout. */
const canceled = '57014';
/** The SQLSTATE of a transaction that took longer than an operator allows (`transaction_timeout`). */
const tookLong = '25P04';

/** The beginnings of the codes with which Node refuses a certificate because it does not know its authority. */
const unknownAuthorityCodes = ['SELF_SIGNED_CERT', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'UNABLE_TO_'];

/**
 * The beginnings of the codes with which the database is away or does not answer: those of the system and of TLS, of PostgreSQL
 * (its appendix A), and of Prisma.
 */
const unavailableCodes = [
  ...['ECONN', 'EPIPE', 'EPROTO', 'ETIMEDOUT', 'EHOST', 'ENET', 'ENOTFOUND', 'EAI_AGAIN'],
  ...['ERR_SSL', 'ERR_TLS', 'ERR_SOCKET', 'ERR_STREAM'],
  // Its certificate is not valid any more, or is another authority's.
  ...['CERT_', ...unknownAuthorityCodes],
  // The connection failed, the server stops or starts, and the connection was idle in a transaction for too long.
  ...['08', '57P0', '25P03'],
  // No memory, disk or connections are left.
  ...['53', canceled, tookLong],
  // The server is in a state that passes, or is a standby, which cannot write.
  ...['55000', '25006'],
  // The role cannot log in or may not do something, and the database is not there: all can be while an operator works on the
  // server.
  ...['28', '3D000', '42501'],
  ...['P1001', 'P1002', 'P1008', 'P1017', 'P2024'],
];

/** The words for the same of errors without a code. A stopped server has removed its socket: connecting finds no such file. */
const unavailableWords =
  /\bconnect E[A-Z]+|timeout exceeded when trying to connect|Connection terminated|Query read timeout|not queryable|does not support SSL/i;

/** SQLSTATEs: a statement or its transaction took too long, or more memory than there is. */
const excessCodes = [canceled, tookLong, '53200'];

/** The code of this error from PostgreSQL, Prisma or the system; empty if it has none. */
export function databaseCodeOf(error: unknown): string {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: { originalCode?: unknown } };
  // Prisma's adapter keeps PostgreSQL's code in a cause that is no Error.
  return [code, cause?.originalCode].find((one) => typeof one === 'string') ?? '';
}

/** Whether the certificate of the database was refused because its authority is not known. */
export const isOfUnknownAuthority = (error: unknown): boolean =>
  startsWithOneOf(databaseCodeOf(error), unknownAuthorityCodes);

const startsWithOneOf = (code: string, beginnings: readonly string[]) =>
  beginnings.some((beginning) => code.startsWith(beginning));

/** An error and its causes: Prisma wraps those of pg in errors of its own, and keeps its adapter's error beside them. */
export function* causesOf(error: unknown): Generator<Error> {
  for (let at = error, depth = 0; at instanceof Error && depth < 4; at = insideOf(at), depth += 1) yield at;
}

const insideOf = (error: Error) =>
  (error as { meta?: { driverAdapterError?: unknown } }).meta?.driverAdapterError ?? error.cause;

/**
 * Whether this error says that the database is away or does not answer, however pg or Prisma wrapped it: the statement may or
 * may not have been carried out, and the same call can succeed later.
 */
export function isUnavailable(error: unknown): boolean {
  for (const cause of causesOf(error)) {
    if (startsWithOneOf(databaseCodeOf(cause), unavailableCodes)) return true;
    if (unavailableWords.test(cause.message)) return true;
  }
  return false;
}

/**
 * Whether this error says that the database is away, so that any other write would fail as well. A statement that took too
 * long, or too much memory, may have been too large by itself: a smaller one may succeed.
 */
export function isAway(error: unknown): boolean {
  const causes = [...causesOf(error)];
  if (causes.some((cause) => excessCodes.includes(databaseCodeOf(cause)) || isSilence(cause))) return false;
  return isUnavailable(error) || causes.some(({ message }) => /after calling end on the pool/.test(message));
}

/** Whether nobody listens any more where the server was. */
export const hasEnded = (error: unknown): boolean =>
  [...causesOf(error)].some(({ message }) => /\bconnect (?:ECONNREFUSED|ENOENT)\b/.test(message));

/** Whether the server gave no answer to a statement at all, within the time that we wait for one. */
export const isSilence = (error: unknown): error is Error =>
  error instanceof Error && /Query read timeout/i.test(error.message);

/** SQLSTATEs of a serialization conflict and a deadlock. */
const conflictCodes = ['40001', '40P01'];

/** Whether another transaction was in the way: this one was rolled back, and the same can succeed at once. */
export const isConflict = (error: unknown): boolean =>
  [...causesOf(error)].some((cause) => conflictCodes.includes(databaseCodeOf(cause)));

/** Whether a statement was canceled, as it took longer than it may. */
export const tookTooLong = (error: unknown): boolean => databaseCodeOf(error) === canceled;

/**
 * Whether a row belongs to a week that has no partition. PostgreSQL gives this the code of a violated check, but there is no
 * constraint to name, and its words are in the language of the server.
 */
export const lacksPartition = (error: unknown): boolean =>
  databaseCodeOf(error) === '23514' && (error as { constraint?: unknown }).constraint === undefined;
