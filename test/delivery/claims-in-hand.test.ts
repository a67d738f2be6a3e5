import { mock } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { systemClock } from '../../src/clock.ts';
import type { Database } from '../../src/db/client.ts';
import { ClaimsInHand } from '../../src/delivery/claims/claims-in-hand.ts';
import { type Logger, silentLog } from '../../src/log.ts';
import { buildClaim } from '../support/claim.ts';

t.test('claims that cannot be parked are tried again, and the log says why they wait', async (t) => {
  let tries = 0;
  let asked: unknown[] = [];
  const db = {
    query: async ({ values }: { values: unknown[] }) => {
      tries += 1;
      asked = values;
      if (tries === 1) throw new Error('new row violates check constraint');
      return [];
    },
  } as unknown as Database;
  const said: unknown[] = [];
  const log = { warn: (...all: unknown[]) => said.push(all) } as unknown as Logger;
  const { promise, resolve } = Promise.withResolvers<void>();
  const now = new Date('2026-11-21T12:00:00Z');
  const inHand = new ClaimsInHand(db, { clock: { now: () => now }, log }, resolve);
  const claim = buildClaim();
  inHand.add([claim]);
  inHand.parkFor([claim], 60_000, 'its site gets little at a time');
  await promise;
  t.equal(tries, 2);
  t.strictSame(asked.slice(-2), [new Date('2026-11-21T12:01:00Z'), 'its site gets little at a time']);
  t.equal(inHand.size, 0);
  t.match(said, [
    [{ error: 'new row violates check constraint' }, 'claims could not be released or parked; trying again'],
  ]);
});

t.test('claims that cannot be parked are in the log again if others could be meanwhile', async (t) => {
  let at = 0;
  const ticks = mock.method(performance, 'now', () => at);
  t.teardown(() => ticks.mock.restore());
  let away = true;
  const query = async () => {
    if (away) throw new Error('the database is away');
    return [];
  };
  let said = 0;
  const log = { warn: () => (said += 1) } as unknown as Logger;
  const inHand = new ClaimsInHand({ query } as unknown as Database, { clock: systemClock, log }, () => undefined);
  const park = async () => {
    const claim = buildClaim();
    inHand.add([claim]);
    inHand.parkFor([claim], 60_000, 'its site gets little at a time');
    for (let turn = 0; turn < 5; turn += 1) await nextTurn();
  };
  await park();
  await park();
  t.strictSame([said, inHand.size], [1, 2]);
  at += 5_000;
  inHand.release([]);
  await park();
  t.strictSame([said, inHand.size], [1, 3], 'a release of nothing does not show that the database is there');
  away = false;
  at += 5_000;
  await park();
  t.equal(inHand.size, 3);
  away = true;
  await park();
  t.equal(said, 2);
  inHand.stop();
  await inHand.none();
});

t.test('after a stop nothing is released any more, and the end is when the last claim is settled', async (t) => {
  let queries = 0;
  const query = async () => {
    queries += 1;
    return [];
  };
  const db = { query } as unknown as Database;
  const inHand = new ClaimsInHand(db, { clock: systemClock, log: silentLog }, () => undefined);
  const [first, second, third] = [buildClaim(), buildClaim(), buildClaim()];
  inHand.add([first, second, third]);
  inHand.stop();
  let isOver = false;
  const over = inHand.none().then(() => (isOver = true));
  inHand.release([first]);
  inHand.remove([second]);
  await nextTurn();
  t.strictSame([queries, isOver, [...inHand.all]], [0, false, [third]]);
  inHand.remove([third]);
  await over;
  await inHand.none();
});
