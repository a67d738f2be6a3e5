import type { Database } from '../../src/db/client.ts';

/**
 * The same database, of which a noun is read by Prisma so many times, and then not any more, as where no connection is free
 * in time. What is written is written.
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
