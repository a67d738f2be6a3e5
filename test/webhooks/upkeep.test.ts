import t from 'tap';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import type { Database } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';
import { Rounds } from '../../src/pace/rounds.ts';
import { addUpkeep } from '../../src/webhooks/upkeep.ts';
import { openScene } from './scene.ts';

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
