import t from 'tap';
import { codeOf, isAway, isUnavailable } from '../../src/db/errors.ts';
import { newId } from '../../src/ids.ts';
import { openDatabase } from '../support/db.ts';

t.test('PostgreSQL errors that come through Prisma are understood like direct ones', async (t) => {
  const db = await openDatabase(t);
  const errorOf = (work: Promise<unknown>) => work.then(() => null).catch((error: unknown) => error);
  const late = await db.transaction(async (tx) => {
    await tx.query({ text: 'LOCK TABLE templates' });
    const timeout = db.prisma.$executeRaw`SET LOCAL statement_timeout = 20`;
    return errorOf(db.prisma.$transaction([timeout, db.prisma.template.findMany()]));
  });
  t.ok(isUnavailable(late), `a statement that took too long: ${codeOf(late)}`);
  t.notOk(isAway(late), 'it may be done alone');
  for (const [code, unavailable] of Object.entries({
    25006: true,
    42501: true,
    53200: true,
    55000: true,
    22012: false,
  })) {
    const error = await errorOf(db.prisma.$executeRawUnsafe(`DO 'BEGIN RAISE EXCEPTION SQLSTATE ''${code}''; END'`));
    t.equal(isUnavailable(error), unavailable, code);
  }
  const account = { data: { id: newId(), name: 'one', plan: 'free' } };
  await db.prisma.account.create(account);
  const error = await errorOf(db.prisma.account.create(account));
  t.equal(codeOf(error), 'P2002', "Prisma's own code comes first");
});
