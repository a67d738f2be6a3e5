import t from 'tap';
import { databaseCodeOf, isAway, isConflict, isUnavailable } from '../../src/db/errors.ts';
import { newId } from '../../src/ids.ts';
import { openDatabase } from '../support/db.ts';

t.test('PostgreSQL errors that come through Prisma are understood like direct ones', async (t) => {
  const db = await openDatabase(t);
  const errorOf = (work: Promise<unknown>) => work.then(() => null).catch((error: unknown) => error);
  const raise = (code: string) => `DO 'BEGIN RAISE EXCEPTION SQLSTATE ''${code}''; END'`;
  const late = await db.transaction(async (tx) => {
    await tx.query({ text: 'LOCK TABLE templates' });
    const timeout = db.prisma.$executeRaw`SET LOCAL statement_timeout = 20`;
    return errorOf(db.prisma.$transaction([timeout, db.prisma.template.findMany()]));
  });
  t.ok(isUnavailable(late), `a statement that took too long: ${databaseCodeOf(late)}`);
  t.notOk(isAway(late), 'it may be done alone');
  for (const [code, unavailable] of Object.entries({
    25006: true,
    42501: true,
    53200: true,
    55000: true,
    22012: false,
  })) {
    const error = await errorOf(db.prisma.$executeRawUnsafe(raise(code)));
    t.equal(isUnavailable(error), unavailable, code);
    t.notOk(isConflict(error), code);
  }
  for (const code of ['40001', '40P01'])
    t.ok(isConflict(await errorOf(db.prisma.$executeRawUnsafe(raise(code)))), code);
  const account = { data: { id: newId(), name: 'one', plan: 'free' } };
  await db.prisma.account.create(account);
  const error = await errorOf(db.prisma.account.create(account));
  t.equal(databaseCodeOf(error), 'P2002', "Prisma's own code comes first");
});

t.test('an error says that the database is away, that a statement was too much for it, or neither', async (t) => {
  const away = { unavailable: true, away: true };
  const tooMuch = { unavailable: true, away: false };
  const neither = { unavailable: false, away: false };
  const codes = {
    ...{ ECONNREFUSED: away, EPIPE: away, EPROTO: away, ETIMEDOUT: away, EHOSTUNREACH: away, ENETUNREACH: away },
    ...{ ENOTFOUND: away, EAI_AGAIN: away, ERR_SSL_WRONG_VERSION_NUMBER: away, ERR_TLS_CERT_ALTNAME_INVALID: away },
    ...{ CERT_HAS_EXPIRED: away, DEPTH_ZERO_SELF_SIGNED_CERT: away, SELF_SIGNED_CERT_IN_CHAIN: away },
    ...{ UNABLE_TO_VERIFY_LEAF_SIGNATURE: away, UNABLE_TO_GET_ISSUER_CERT_LOCALLY: away },
    ...{ ERR_SOCKET_CLOSED: away, ERR_STREAM_DESTROYED: away, ENOENT: neither, ERR_INVALID_ARG_TYPE: neither },
    ...{ '08006': away, '57P01': away, '57P03': away, '25P03': away, 25006: away, 55000: away },
    ...{ 53100: away, 53300: away, 28000: away, '28P01': away, '3D000': away, 42501: away },
    ...{ 57014: tooMuch, 53200: tooMuch, '25P04': tooMuch },
    ...{ 22012: neither, 22021: neither, 23505: neither, 40001: neither, '42P01': neither, XX000: neither },
    ...{ P1001: away, P1002: away, P1008: away, P1017: away, P2024: away, P2002: neither, P2025: neither },
  };
  const classOf = (error: unknown) => ({ unavailable: isUnavailable(error), away: isAway(error) });
  for (const [code, expected] of Object.entries(codes)) {
    const error = Object.assign(new Error('failed'), { code });
    t.strictSame(classOf(error), expected, code);
    t.strictSame(classOf(new Error('wrapped', { cause: error })), expected, `${code}, wrapped`);
  }
  const words = {
    'connect ENOENT /run/.s.PGSQL.5432': away,
    'timeout exceeded when trying to connect': away,
    'Connection terminated due to connection timeout': away,
    'Client has encountered a connection error and is not queryable': away,
    'The server does not support SSL connections': away,
    'Query read timeout': tooMuch,
    'Cannot use a pool after calling end on the pool': { unavailable: false, away: true },
    'Invalid string length': neither,
  };
  for (const [message, expected] of Object.entries(words)) {
    t.strictSame(classOf(new Error(message)), expected, message);
    t.strictSame(classOf(new Error('wrapped', { cause: new Error(message) })), expected, `${message}, wrapped`);
  }
  const circle = new Error('its own cause');
  circle.cause = circle;
  t.strictSame(classOf(circle), neither);
  for (const nothing of [null, undefined, 'away']) t.strictSame(classOf(nothing), neither);
});
