import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ClaimsInDoubt } from '../../src/core/nodes/claims-in-doubt.ts';
import { claim } from '../../src/core/recipients/recipients.ts';
import { connect } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { createQueue } from '../../src/queue.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { createDatabase } from '../support/db.ts';
import { startGate } from '../support/gate.ts';

t.test('a claim whose COMMIT was not answered is found, however long the database is away afterwards', async (t) => {
  const url = await createDatabase();
  const gate = await startGate(url);
  const [db, own] = [connect(url, silentLog, 5), connect(gate.url, silentLog, 5)];
  const queue = createQueue(url, silentLog);
  await queue.start();
  t.teardown(async () => {
    await queue.stop();
    await Promise.all([db.close(), own.close()]);
    await gate.close();
  });
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  const nodeId = newId();
  const take = (by = nodeId) => db.transaction(async (tx) => claim(tx, by, await queue.take(tx, 100, [])));
  const lastsMs = 100;
  const inDoubt = new ClaimsInDoubt(own, 'recipients', { lastsMs, checkEveryMs: 0 });
  await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['a@one.test'])]);
  const inHand = await take();
  t.equal(inHand.length, 1);
  const free = () => inDoubt.free(nodeId, inHand);
  await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['b@one.test'])]);
  t.equal((await take()).length, 1);
  t.equal(await free(), 0, 'nothing failed');
  await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['d@one.test'])]);
  t.equal((await take(newId())).length, 1, 'another node has this one');

  gate.set('shut');
  await t.rejects(inDoubt.watch(own.query({ text: 'SELECT 1' })));
  await sleep(2 * lastsMs);
  await t.rejects(free());
  gate.set('open');
  t.equal(await free(), 1, 'the first time the database can be asked');
  const claimed = await db.prisma.recipient.findMany({
    where: { claimedBy: { not: null } },
    orderBy: { address: 'asc' },
  });
  t.strictSame(
    claimed.map(({ address }) => address),
    ['a@one.test', 'd@one.test'],
    'and never what it or another node knows to have in hand: others would send it too',
  );

  await sleep(2 * lastsMs);
  await free();
  await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['c@one.test'])]);
  t.equal((await take()).length, 1);
  t.equal(await free(), 0, 'no doubt is left');
});
