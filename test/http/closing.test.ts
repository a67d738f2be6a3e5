import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import Koa from 'koa';
import t, { type Test } from 'tap';
import { readJson } from '../../src/http/body/body.ts';
import { errors } from '../../src/http/middleware.ts';
import { listen } from '../../src/http/server.ts';
import { silentLog } from '../../src/log.ts';

/** A server that answers `/slow` when it is told to, and `/long` in two parts; and connections to it that keep what they read. */
async function start(t: Test) {
  const app = new Koa();
  let finish = () => {};
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const begun: string[] = [];
  app.use(async (ctx) => {
    begun.push(ctx.path);
    if (ctx.path === '/long') {
      ctx.respond = false;
      ctx.res.write('begun');
      await finished;
      ctx.res.end('whole');
      return;
    }
    if (ctx.path === '/slow') await finished;
    ctx.body = `answer to ${ctx.path}`;
  });
  const server = await listen(app, '127.0.0.1', 0);
  t.teardown(() => server.close(0));
  const connect = async () => {
    const socket = net.connect(server.port, '127.0.0.1');
    t.teardown(() => socket.destroy());
    await once(socket, 'connect');
    const heard = { text: '', isClosed: false, error: null as Error | null };
    socket.on('data', (chunk) => (heard.text += chunk));
    socket.on('error', (error) => (heard.error = error));
    socket.on('close', () => (heard.isClosed = true));
    const ask = (...paths: string[]) =>
      socket.write(paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''));
    const hears = async (text: RegExp) => {
      while (!text.test(heard.text)) {
        if (heard.isClosed) throw new Error(`closed after: ${heard.text}`);
        await pause(5);
      }
    };
    const closes = async () => {
      while (!heard.isClosed) await pause(5);
    };
    return { heard, ask, hears, closes };
  };
  return { server, connect, begun, finish };
}

t.test('a connection that is in use ends with an answer that says so, and not within a request', async (t) => {
  const { server, connect, begun, finish } = await start(t);
  const busy = await connect();
  const next = await connect();
  const long = await connect();
  next.ask('/first');
  await next.hears(/answer to \/first$/);
  t.match(next.heard.text, /^Connection: keep-alive/m);
  busy.ask('/slow');
  long.ask('/long');
  await long.hears(/begun/);
  while (begun.length < 3) await pause(5);
  const began = performance.now();
  const closed = server.close(60_000);
  // As it comes from a proxy that does not know yet.
  next.ask('/next');
  await next.closes();
  t.match(next.heard.text, /Connection: close.*answer to \/next$/s);
  // Longer than until connections without a request are closed.
  await pause(300);
  finish();
  await Promise.all([busy.closes(), long.closes(), closed]);
  t.match(busy.heard.text, /Connection: close.*answer to \/slow$/s);
  t.match(long.heard.text, /whole\r\n0\r\n\r\n$/);
  t.ok(performance.now() - began < 30_000, 'nobody waited for the time to be over');
});

t.test('of requests that were sent ahead all that were begun are answered, and none is begun later', async (t) => {
  const { server, connect, begun, finish } = await start(t);
  const client = await connect();
  client.ask('/slow', '/second');
  while (begun.length < 2) await pause(5);
  const closed = server.close(60_000);
  client.ask('/third');
  await pause(50);
  finish();
  await Promise.all([client.closes(), closed]);
  t.match(client.heard.text, /answer to \/slow.*answer to \/second$/s);
  t.strictSame(begun, ['/slow', '/second']);
});

t.test('a connection that nobody uses does not keep it from closing', async (t) => {
  const { server, connect } = await start(t);
  const used = await connect();
  const unused = await connect();
  used.ask('/first');
  await used.hears(/answer to \/first$/);
  await Promise.all([server.close(60_000), used.closes(), unused.closes()]);
  t.equal(used.heard.error, null);
});

t.test('an answer that was given is not kept until the server closes', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const app = new Koa();
  const given: WeakRef<object>[] = [];
  app.use(async (ctx) => {
    given.push(new WeakRef(ctx.res));
    ctx.body = 'answered';
  });
  const server = await listen(app, '127.0.0.1', 0);
  t.teardown(() => server.close(0));
  const socket = net.connect(server.port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  for (let n = 0; n < 100; n += 1) {
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(socket, 'data');
  }
  const kept = () => given.filter((one) => one.deref() !== undefined).length;
  for (let round = 0; round < 50 && kept() > 10; round += 1) {
    await pause(10);
    collect();
  }
  t.ok(kept() <= 10, `${kept()} of 100 are still there`);
});

t.test('an upload that was cut off is not kept while a slow client would be waited for', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const app = new Koa();
  // It prints each connection that is lost.
  app.silent = true;
  const cut: WeakRef<object>[] = [];
  app.use(errors(silentLog));
  app.use(async (ctx) => {
    cut.push(new WeakRef(ctx.req));
    ctx.body = await readJson(ctx, 1_000);
  });
  const server = await listen(app, '127.0.0.1', 0);
  t.teardown(() => server.close(0));
  for (let n = 0; n < 100; n += 1) {
    const socket = net.connect(server.port, '127.0.0.1');
    socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{');
    while (cut.length <= n) await pause(1);
    socket.resetAndDestroy();
  }
  const kept = () => cut.filter((one) => one.deref() !== undefined).length;
  // A slow client is waited for for 30 s.
  for (const end = performance.now() + 15_000; performance.now() < end && kept() > 10; ) {
    await pause(10);
    collect();
  }
  t.ok(kept() <= 10, `${kept()} of 100 are still there`);
});
