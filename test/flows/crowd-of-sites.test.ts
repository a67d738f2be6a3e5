import t from 'tap';
import { silentLog } from '../../src/log.ts';
import { createQueue } from '../../src/queue.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { startDirectNode } from '../support/direct.ts';
import { testKey } from '../support/keys.ts';
import { startScriptedMx, startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';

const accounts = 6;
const sitesOfEach = 22;
const emailsForSite = 95;

t.test('however much mail waits for unresponsive sites, there is room for others', async (t) => {
  const silent = await startScriptedMx(() => new Promise<void>(() => {}));
  const sink = await startSink({ host: '127.0.0.2', port: silent.port });
  t.teardown(() => sink.close());
  const names = Array.from({ length: accounts * sitesOfEach }, (_, n) => `silent${n}.test`);
  const zone = {
    ...Object.fromEntries(names.map((name) => [name, { A: ['127.0.0.1'] }])),
    'fine.test': { A: ['127.0.0.2'] },
  };
  const node = await startDirectNode(t, { zone, mxPort: silent.port });
  const queue = createQueue(node.databaseUrl, silentLog);
  await queue.start();
  t.teardown(() => queue.stop());
  for (let nth = 0; nth < accounts; nth += 1) {
    const { account, from } = await buildSender(node.db, testKey(7));
    const sites = names.slice(nth * sitesOfEach, (nth + 1) * sitesOfEach);
    await accept(
      node.db,
      queue,
      holderOf(account),
      // All for one site first: a node takes up to two hundred at a time before it knows how much the site accepts.
      sites.flatMap((name) => Array.from({ length: emailsForSite }, (_, n) => requestOf(from, [`r${n}@${name}`]))),
    );
  }
  // Until as many were taken as there is room for, or put back as too many.
  await eventually(async () => {
    const [row] = await node.db.query<{ claimed: number; parked: number }>({
      text: 'SELECT count(claimed_by)::int AS claimed, count(waiting_for)::int AS parked FROM recipients',
    });
    return row !== undefined && (row.claimed >= 9_900 || row.parked >= 500);
  });
  for (const to of ['one@fine.test', 'two@fine.test']) await node.send({ to });
  await eventually(async () => sink.messages.length === 2);
  // So that the node need not wait for them when it stops.
  await silent.close();
});
