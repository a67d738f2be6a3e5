import t from 'tap';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { type Logger, silentLog } from '../../src/log.ts';
import { Rounds } from '../../src/pace/rounds.ts';
import { addUpkeep } from '../../src/webhooks/upkeep.ts';
import { keyring, openScene, type Scene } from './scene.ts';

t.test('a stop does not wait for all calls of a deleted endpoint to end', async (t) => {
  const scene = await openScene(t);
  const { id, accountId } = await scene.endpoint('http://127.0.0.1:1024/');
  await scene.db.query({
    text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, event, payload, next_attempt_at)
           SELECT (substr($3, 1, 19) || '8' || substr(md5(n::text), 1, 3) || '-' || substr(md5(n::text), 4, 12))::uuid, $1, $2, 'email.sent', '{}', now()
             FROM generate_series(1, 5000) n`,
    values: [accountId, id, (await webhooks.get(scene.db, accountId, id)).id],
  });
  await webhooks.remove(scene.db, accountId, id);
  const rounds = new Rounds(silentLog);
  const ended = Promise.withResolvers<void>();
  const stopping: Database = {
    ...scene.db,
    async transaction(work) {
      const done = await scene.db.transaction(work);
      rounds.stop().then(ended.resolve, ended.reject);
      return done;
    },
  };
  addUpkeep(rounds, stopping, scene.queue, silentLog);
  await ended.promise;
  t.equal(await scene.db.prisma.webhookDelivery.count({ where: { webhookId: id, status: 'failed' } }), 1_000);
});

/** What upkeep does, by name, to be done when the test says so. */
function tasksOf(scene: Scene, log: Logger = silentLog) {
  const tasks = new Map<string, () => Promise<void>>();
  const rounds = {
    every: (_ms: number, name: string, work: (stop: AbortSignal) => Promise<void>) =>
      void tasks.set(name, () => work(new AbortController().signal)),
  };
  addUpkeep(rounds as unknown as Rounds, scene.db, scene.queue, log);
  return { run: (name: string) => tasks.get(name)?.() };
}

t.test('calls whose job was lost are due again, and the log says so', async (t) => {
  const scene = await openScene(t);
  const said: unknown[][] = [];
  const { run } = tasksOf(scene, { warn: (...all: unknown[]) => said.push(all) } as unknown as Logger);
  const { id, accountId } = await scene.endpoint('http://127.0.0.1:1024/');
  await scene.emit(accountId, 'email.sent', 'email.failed');
  await run('sweep webhooks');
  t.strictSame(said, [], 'nothing was lost');
  await scene.db.query({ text: `UPDATE webhook_deliveries SET job_id = $1`, values: [newId()] });
  await run('sweep webhooks');
  t.match(said, [[{ deliveries: 2 }, /had lost their job or their node/]]);
  await run('wake webhooks');
  for (const { jobId } of await scene.deliveries(id)) t.ok(jobId, 'it has a job again');
});

t.test('the secret before a rotation is forgotten after its day', async (t) => {
  const scene = await openScene(t);
  const { run } = tasksOf(scene);
  const { id, accountId } = await scene.endpoint('http://127.0.0.1:1024/');
  await webhooks.rotateSecret(scene.db, accountId, id, keyring);
  const previous = async () => (await webhooks.get(scene.db, accountId, id)).previousSecret;
  await run('old webhook secrets');
  t.ok(await previous());
  await scene.db.query({ text: `UPDATE webhooks SET previous_secret_until = now() - interval '1 second'` });
  await run('old webhook secrets');
  t.equal(await previous(), null);
});
