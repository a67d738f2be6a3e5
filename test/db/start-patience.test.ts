import { once } from 'node:events';
import net, { type AddressInfo, type Socket } from 'node:net';
import t from 'tap';
import { connect } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';

t.test('a start waits for a connection for longer than the service that it becomes', async (t) => {
  const sockets: Socket[] = [];
  // A server too busy to answer, until it is gone.
  const server = net.createServer((socket) => sockets.push(socket.on('error', () => undefined))).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `postgres://nobody@127.0.0.1:${(server.address() as AddressInfo).port}/nothing`;
  const usual = { text: 'SELECT 1' };

  const db = connect(url, silentLog, 2, { acquireMs: 600_000 });
  const outcomeOf = () => db.query(usual).then(String, ({ message }: Error) => message);
  const starting = outcomeOf();
  db.hurry();
  t.match(await outcomeOf(), /timeout/, 'the service gives up');
  let isOver = false;
  void starting.finally(() => {
    isOver = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  t.notOk(isOver, 'the start, which came first, still waits');

  for (const socket of sockets) socket.destroy();
  await starting;
  await db.close();
  server.close();
});
