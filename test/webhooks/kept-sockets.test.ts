import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { mock } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import t, { type Test } from 'tap';
import { selfSignedCertificate } from '../../src/crypto/certificate.ts';
import { createResolver } from '../../src/smtp/dns/resolver.ts';
import { KeptSockets } from '../../src/webhooks/kept-sockets.ts';
import { type Poster, post } from '../../src/webhooks/post.ts';
import { startZone } from '../support/zone.ts';

const never = new AbortController().signal;
const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';

/** An endpoint that calls `act` for each piece it gets, with the numbers of the connection and of the piece on it. */
async function startEndpoint(
  t: Test,
  act: (socket: Socket, connection: number, piece: number) => void,
  tls?: { key: string; cert: string },
) {
  const sockets: Socket[] = [];
  const take = (socket: Socket) => {
    const connection = sockets.push(socket);
    let pieces = 0;
    socket.on('error', () => {}).on('data', () => act(socket, connection, ++pieces));
  };
  const server = tls ? createTlsServer(tls, take) : createServer({ allowHalfOpen: true }, take);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, sockets };
}

function posterOf(t: Test, options: Partial<Poster> = {}) {
  const kept = new KeptSockets();
  t.teardown(async () => kept.destroy());
  const poster = { resolver: createResolver(['127.0.0.1:9']), allowPrivate: true, timeoutMs: 15_000, kept, ...options };
  return {
    kept,
    call: (url: string, line = 'a', body = Buffer.from('{}')) => post(poster, { url, headers: {}, body }, never, line),
  };
}

t.test('an endpoint that answers before it has read the request keeps no connection', async (t) => {
  const { port, sockets } = await startEndpoint(t, (socket) => {
    socket.pause();
    socket.write(ok);
  });
  const { call } = posterOf(t);
  // More than any system buffers for a connection that nobody reads.
  const body = Buffer.alloc(64 * 1024 * 1024, 'x');
  t.match(await call(`http://127.0.0.1:${port}/`, 'a', body), { status: 200 });
  const [socket] = sockets as [Socket];
  socket.removeAllListeners('data').resume();
  await once(socket, 'end').catch(() => undefined);
  t.ok(socket.bytesRead < body.length, 'it gets no more of the request');
});

t.test('a call whose answer has begun is not posted again', async (t) => {
  for (const begun of [
    'HTTP/1.1 20',
    'HTTP/1.1 100 Continue\r\n\r\n',
    'HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n',
  ]) {
    const { port, sockets } = await startEndpoint(t, (socket, _connection, piece) => {
      if (piece === 1) socket.write(ok);
      else if (piece === 2) socket.end(begun);
    });
    const { call } = posterOf(t);
    t.match(await call(`http://127.0.0.1:${port}/`), { status: 200 });
    t.match(await call(`http://127.0.0.1:${port}/`), { status: null, error: /before a response arrived/ }, begun);
    t.equal(sockets.length, 1, begun);
  }
});

t.test('a call on a TLS connection that ends without an answer is posted again, once', async (t) => {
  const certificate = selfSignedCertificate('hooks.test');
  const { port, sockets } = await startEndpoint(
    t,
    (socket, connection, piece) => {
      if (connection === 1 && piece === 1) socket.write(ok);
      else socket.end();
    },
    certificate,
  );
  const { resolver, close } = await startZone({ 'hooks.test': { A: ['127.0.0.1'] } });
  t.teardown(close);
  const { call } = posterOf(t, { resolver, ca: certificate.cert });
  t.match(await call(`https://hooks.test:${port}/`), { status: 200 });
  t.match(await call(`https://hooks.test:${port}/`), { status: null, error: /before a response arrived/ });
  t.equal(sockets.length, 2);
});

t.test('a call whose connection breaks while it is being written is posted again, once', async (t) => {
  const body = Buffer.alloc(16 * 1024 * 1024, 'x');
  const { port, sockets } = await startEndpoint(t, (socket, connection, piece) => {
    if (connection === 1 && piece === 1) socket.write(ok);
    // Most of it is still to be written, because nobody reads it.
    else socket.resetAndDestroy();
  });
  const { call } = posterOf(t);
  t.match(await call(`http://127.0.0.1:${port}/`), { status: 200 });
  t.match(await call(`http://127.0.0.1:${port}/`, 'a', body), { status: null, error: /before a response arrived/ });
  t.equal(sockets.length, 2);
});

t.test('each connection goes to a checked address, wherever an earlier one went', async (t) => {
  const { port, sockets } = await startEndpoint(t, (socket) => void socket.write(ok));
  const zone = await startZone({ 'hooks.test': { A: ['127.0.0.1'] } });
  t.teardown(() => zone.close());
  const poster = { resolver: zone.resolver, allowPrivate: true, kept: new KeptSockets() };
  t.teardown(async () => poster.kept.destroy());
  const url = `http://hooks.test:${port}/`;
  const call = () => post(poster, { url, headers: {}, body: Buffer.from('{}') }, never, 'a');
  t.match(await call(), { status: 200 });
  poster.allowPrivate = false;
  sockets[0]?.end();
  await once(sockets[0] as Socket, 'close');
  t.match(await call(), { status: null, error: /not on the public internet/ });
  t.equal(sockets.length, 1);
});

t.test('an answer that nobody asked for does not affect the next call', async (t) => {
  const forged = 'HTTP/1.1 299 Forged\r\nContent-Length: 0\r\n\r\n';
  for (const [what, act] of [
    ['at once', (socket: Socket) => socket.write(ok + forged)],
    ['later', (socket: Socket) => socket.write(ok, () => setTimeout(() => socket.write(forged), 20))],
  ] as const) {
    const { port, sockets } = await startEndpoint(t, (socket) => void act(socket));
    const { call, kept } = posterOf(t);
    t.equal((await call(`http://127.0.0.1:${port}/`)).status, 200);
    // Until the connection that spoke is gone.
    const isKept = () => [kept.freeSockets, kept.sockets].some((each) => Object.keys(each).length > 0);
    while (isKept()) await new Promise((resume) => setTimeout(resume, 5));
    t.equal((await call(`http://127.0.0.1:${port}/`)).status, 200, what);
    t.equal(sockets.length, 2, what);
  }
});

t.test('endpoints on the same host share no connection', async (t) => {
  const { port, sockets } = await startEndpoint(t, (socket) => void socket.write(ok));
  const { call } = posterOf(t);
  for (const line of ['a', 'b', 'a', 'b']) t.equal((await call(`http://127.0.0.1:${port}/${line}`, line)).status, 200);
  t.equal(sockets.length, 2);
});

t.test('which connections are kept', async (t) => {
  const fields = (lines: string) => `HTTP/1.1 200 OK\r\n${lines}Content-Length: 0\r\n\r\n`;
  for (const [what, text, ends, connections] of [
    ['an answer that says nothing of it', ok, false, 1],
    ['a short time', fields('Keep-Alive: timeout=1\r\n'), false, 3],
    ['a longer time', fields('Keep-Alive: timeout=30\r\n'), false, 1],
    ['close', fields('Connection: close\r\n'), false, 3],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n', false, 3],
    ['no length', 'HTTP/1.1 200 OK\r\n\r\nx', true, 3],
    ['a length that is not reached', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx', true, 3],
    ['interim answers before it', `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n${ok}`, false, 1],
    ['the other half closed', ok, true, 3],
  ] as const) {
    const { port, sockets } = await startEndpoint(t, (socket) => void (ends ? socket.end(text) : socket.write(text)));
    const { call, kept } = posterOf(t);
    for (let n = 0; n < 3; n += 1) t.match(await call(`http://127.0.0.1:${port}/`), { status: 200, error: null }, what);
    t.equal(sockets.length, connections, what);
    kept.destroy();
  }
});

t.test('a connection is used for a minute, and then the name is looked up again', async (t) => {
  const { port, sockets } = await startEndpoint(t, (socket) => void socket.write(ok));
  const { call } = posterOf(t);
  // However long this process has run.
  let runsMs = 3_600_000;
  const clock = mock.method(performance, 'now', () => runsMs);
  t.teardown(() => clock.mock.restore());
  const connections = async () => {
    t.match(await call(`http://127.0.0.1:${port}/`), { status: 200 });
    return sockets.length;
  };
  t.equal(await connections(), 1);
  runsMs += 59_000;
  t.equal(await connections(), 1);
  runsMs += 1_000;
  t.equal(await connections(), 1, 'it was kept before');
  t.equal(await connections(), 2);
});

t.test('no more than 500 connections are kept that nobody uses', async (t) => {
  const { port, sockets } = await startEndpoint(t, (socket) => void socket.write(ok));
  const { call, kept } = posterOf(t);
  for (let n = 0; n < 510; n += 1) await call(`http://127.0.0.1:${port}/`, `line ${n}`);
  t.equal(sockets.length, 510);
  const idle = () => Object.values(kept.freeSockets).flat().length;
  t.equal(idle(), 500);
});

t.test('a connection that is used again and again collects no listeners', async (t) => {
  const warnings: Error[] = [];
  const warn = (warning: Error) => void warnings.push(warning);
  process.on('warning', warn);
  t.teardown(async () => void process.off('warning', warn));
  const { port, sockets } = await startEndpoint(t, (socket) => void socket.write(ok));
  const { call, kept } = posterOf(t);
  const listeners = () => {
    const [socket] = Object.values(kept.freeSockets).flat();
    return socket?.eventNames().reduce((sum, name) => sum + socket.listenerCount(name), 0);
  };
  await call(`http://127.0.0.1:${port}/`);
  await new Promise((resume) => setImmediate(resume));
  const before = listeners();
  t.ok(before);
  for (let n = 0; n < 50; n += 1) await call(`http://127.0.0.1:${port}/`);
  await new Promise((resume) => setImmediate(resume));
  t.equal(sockets.length, 1);
  t.equal(listeners(), before);
  t.strictSame(warnings, []);
});
