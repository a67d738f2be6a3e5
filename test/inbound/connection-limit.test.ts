import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { SMTPServer } from 'smtp-server';
import t from 'tap';
import { limitConnections } from '../../src/inbound/connection-limit.ts';
import { silentLog } from '../../src/log.ts';
import { certificate } from '../support/sink.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

for (const [how, proxies] of Object.entries({ 'by itself': [], 'through a proxy': ['127.0.0.1'] }))
  t.test(`of a connection that ended after STARTTLS nothing is kept: ${how}`, async (t) => {
    const sessions: WeakRef<object>[] = [];
    const server = new SMTPServer({
      ...certificate(),
      authOptional: true,
      onConnect(session, callback) {
        sessions.push(new WeakRef(session));
        callback();
      },
    });
    server.on('error', () => undefined);
    const limits = { mostInAll: 500, mostOfOne: 500, busy: '', beginMs: 60_000, proxies, log: silentLog };
    limitConnections(server, limits);
    server.listen(0, '127.0.0.1');
    await once(server.server, 'listening');
    t.teardown(() => new Promise<void>((closed) => server.close(() => closed())));
    const { port } = server.server.address() as AddressInfo;
    const header = proxies.length > 0 ? 'PROXY TCP4 192.0.2.1 192.0.2.2 50000 2525\r\n' : '';

    const breakOff = async () => {
      const socket = net.connect(port, '127.0.0.1');
      socket.on('error', () => undefined);
      socket.write(header);
      for (const command of ['EHLO client.test\r\n', 'STARTTLS\r\n']) {
        await once(socket, 'data');
        socket.write(command);
      }
      await once(socket, 'data');
      socket.resetAndDestroy();
    };
    await Promise.all(Array.from({ length: 50 }, breakOff));
    // Who has gone is counted out when the next one comes.
    for (const end = performance.now() + 15_000; performance.now() < end && kept() > 10; ) {
      const next = net.connect(port, '127.0.0.1');
      next.write(header);
      await once(next, 'data');
      next.destroy();
      await pause(10);
      collect();
    }
    t.ok(kept() <= 10, `${kept()} of 50 are still there`);

    function kept(): number {
      return sessions.slice(0, 50).filter((one) => one.deref() !== undefined).length;
    }
  });
