import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startDirectNode } from '../support/direct.ts';
import { startScriptedMx } from '../support/mx.ts';
import { eventually } from '../support/node.ts';

t.test('mail that was scheduled further ahead than its time limit is held back like all other mail', async (t) => {
  const mx = await startScriptedMx((peer) => void peer.socket.end('421 4.7.0 too many connections\r\n'));
  t.teardown(() => mx.close());
  const env = { RETRY_FOR: '6s', RETRY_SCHEDULE: '30s' };
  const node = await startDirectNode(t, { zone: { 'busy.test': { A: ['127.0.0.1'] } }, mxPort: mx.port, env });
  const due = new Date(Date.now() + 9_000);
  const fields = { to: 'r@busy.test', scheduled_at: due.toISOString() };
  await Promise.all(Array.from({ length: 60 }, () => node.send(fields)));
  await eventually(async () => mx.peers.length > 0);
  await sleep(due.getTime() + 4_000 - Date.now());
  t.ok(mx.peers.length < 30, `${mx.peers.length} connections for 60 emails`);
});
