import type { Database } from '../../src/db/client.ts';

/**
 * The same database, in which Prisma can read a noun this many times and then no more, as if no connection became free
 * in time. Writes still work.
 */
export function withoutReads(db: Database, noun: 'account' | 'user' | 'webhook', most = 0): Database {
  let reads = 0;
  const late = () => Promise.reject(new Error('timeout exceeded when trying to connect'));
  const rows = new Proxy(db.prisma[noun], {
    get: (target, name) => (String(name).startsWith('find') && reads++ >= most ? late : Reflect.get(target, name)),
  });
  const prisma = new Proxy(db.prisma, {
    get: (target, name) => (name === noun ? rows : Reflect.get(target, name)),
  });
  return { ...db, prisma };
}
